/* SPDX-License-Identifier: BSD-3-Clause */
/* A network for tests of handshakes over a driver without sockets.  Two sessions of this process are the two ends.  The test
 * is the network between them: it loses, repeats, reorders and changes frames, and sets the time. */
#ifndef FRAMES_WIRE_H
#define FRAMES_WIRE_H

#include "unit.h"

#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/hello_inside.h"
#include "core/core.h"
#include <madeleine.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define KEY "a key of sixteen"
#define FRAMES 4000
#define STRANGER 0x55

typedef struct frame {
    int to; /* index of the session that reads the frame; -1: none */
    unsigned char source;
    size_t len;
    unsigned char bytes[MADI_FRAME_MAX];
} frame_t;

extern mad_session_t *s[2];
extern madi_gate_t *gate[2]; /* gate[i]: gate of session i to the other session */
extern madi_adapter_t made[2];
extern frame_t *wire; /* all frames that were sent, in the order of sending */
extern int n_sent, n_read;
extern int refused[2]; /* number of frames that the driver of this side refuses from now on */
extern int ends[2];    /* number of calls of source_end */
extern int started[2]; /* number of calls of start */
extern int64_t now;    /* ns: the time that both sessions see */
extern bool accept_fails;

/* Open both sessions with their keys, and give each a gate to the other.  Both sessions stay locked until end. */
void begin_with(const char *key, const char *other_key);
/* Like begin_with, but with one key, and without log lines. */
void begin(void);
/* Unlock both sessions.  The sessions are not closed: their adapters belong to the test, and the process ends here. */
void end(void);

void frame_deliver(const frame_t *f);
/* Deliver all frames that are in flight, and those that the sessions send as a result. */
void frames_deliver(void);
/* Let time pass, in small steps, with a network that works. */
void pass(int64_t ns);

int state(int i); /* state of gate[i] */
void both_are_up(void);
const char *why(int i); /* reason of the state of gate[i], in static memory */

#endif
