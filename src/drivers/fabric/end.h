/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: messages that the drivers at a link's two ends exchange besides packets, to end a link without loss and to find out
 * that a peer has died.  This file has the state, and what follows from a message; the driver sends and receives.
 *
 *   PING 1, PING 0   a probe, and its answer.  A connectionless endpoint does not report that a peer has died
 *   ASK n            a query before an end without loss: have all n packets arrived?
 *   ACK n            n packets have arrived
 *   DONE n           for the driver alone: the body of number n has been read, so the sender may reuse its memory
 *   BYE n            the link is closed, after packet number n
 *
 * These messages are outside the order of packets, so BYE names the packet that it follows. */
#ifndef FABRIC_END_H
#define FABRIC_END_H

#include "core/driver.h"

typedef enum fabric_what { FABRIC_PING, FABRIC_ASK, FABRIC_ACK, FABRIC_DONE, FABRIC_BYE } fabric_what_t;
typedef struct fabric_control {
    uint32_t what;   /* fabric_what_t */
    uint32_t number; /* ACK: number of packets received; ASK, BYE: number of packets sent; PING: 1, or 0 in the answer */
} fabric_control_t;
static_assert(sizeof(fabric_control_t) == 8, "control");

/* State of one end.  Under the session's lock, except sent. */
typedef struct fabric_end {
    uint32_t sent, acked; /* low 32 bits of the numbers of packets: sent (tx lock); known to have been received */
    uint32_t got;         /* delivered */
    bool arrived;         /* a message came since the last check of the link */
    int silent;           /* number of checks since the last message came */
    int64_t asked_at;     /* ns: time of the last ASK */
    bool bye;             /* the peer has ended after packet number bye_at */
    uint32_t bye_at;
} fabric_end_t;

/* Handle a message.  Return true if *answer has to be sent.  Nothing is done for DONE. */
bool fabric_end_arrived(fabric_end_t *end, const fabric_control_t *control, fabric_control_t *answer);
/* True if the peer has closed the link, and all its packets were delivered. */
static inline bool fabric_end_reached(const fabric_end_t *end)
{
    return MADI_UNLIKELY(end->bye) && end->got == end->bye_at;
}
#define FABRIC_CLOSED "connection closed by peer"
/* True if it is time to query whether all packets have arrived. */
bool fabric_end_asks(fabric_end_t *end);

/* Return the period in ns at which links are checked whose peer nothing else watches.  MAD_PEER_TIMEOUT is at least
 * FABRIC_LOOKS of these periods. */
#define FABRIC_LOOKS 8
int64_t fabric_look_ns(void);
typedef enum fabric_look { FABRIC_LOOK_HEARD, FABRIC_LOOK_SILENT, FABRIC_LOOK_GONE } fabric_look_t;
/* Check one link.  SILENT: the caller sends PING 1.  GONE: the link is broken; text, of MADI_REASON_MAX bytes, says why. */
fabric_look_t fabric_end_look(fabric_end_t *end, char *text);

/* Make and watch a timer that serves rare events even while the program computes.  On failure watch->fd is -1. */
mad_status_t fabric_tick_open(struct mad_session *session, madi_watch_t *watch, int64_t period /* ns */, char *reason);
bool fabric_tick_take(madi_watch_t *watch); /* called when the timer's descriptor is ready; false if the timer has not
                                             * expired */
void fabric_tick_close(struct mad_session *session, madi_watch_t *watch); /* does nothing for a timer that was not opened */

#endif
