/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite: checks the semantics of messages over each driver.
 *
 * A test has two roles.  The two roles are two processes (ranks 0 and 1) or, over the driver self, two threads of one
 * process that is its own peer.  Other tests have one function for all ranks, or open their own sessions. */
#ifndef CONFORM_H
#define CONFORM_H

#include "../harness/test.h"

#include <madeleine.h>
#include <marcel.h>
#include <pthread.h>
#include <time.h>

#define CHANNELS 4
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define COUNT(a) (sizeof(a) / sizeof *(a))

#define SAFER MAD_SEND_SAFER
#define LATER MAD_SEND_LATER
#define CHEAPER MAD_SEND_CHEAPER
#define EXPRESS MAD_RECEIVE_EXPRESS
#define LAZY MAD_RECEIVE_CHEAPER

typedef struct env {
    mad_session_t *session;
    mad_peer_t peer; /* peer number of the other role */
    int rank, size;
    int me; /* the role of this process or thread: 0 sends, 1 receives */
    bool self;
    mad_channel_t *ch[CHANNELS];
    mad_channel_t *ctl[2]; /* ctl[i]: control channel to role i */
} env_t;

typedef struct test {
    const char *name;
    int procs; /* number of processes.  2: two roles; 3: all() runs on each; 1: all() runs without a launcher */
    void (*send)(env_t *e);
    void (*receive)(env_t *e);
    void (*all)(env_t *e);
    const char *knob; /* NAME=VALUE: set in the environment before the session starts */
} test_t;

extern const test_t mode_tests[], block_tests[], request_tests[], away_tests[], instant_tests[], posted_tests[],
    direct_tests[], handler_tests[], channel_tests[], runtime_tests[], mismatch_tests[], thread_tests[], session_tests[],
    limit_tests[], memory_tests[];

/* Synchronisation of the roles: await_peer waits until the other role has called signal_peer. */
void signal_peer(env_t *e);
void await_peer(env_t *e);
mad_status_t await_peer_within(env_t *e, int64_t timeout_ns);

/* Check that messages to this peer use the wanted driver.  NULL: any driver. */
void check_driver(mad_session_t *session, mad_peer_t peer, const char *wanted);

/* A thread that calls the library: a pthread, or with CONFORM_THREADS=marcel a user-level thread. */
typedef struct thread {
    bool user_level;
    pthread_t plain;
    marcel_t marcel;
} thread_t;
void thread_start(thread_t *thread, void *(*run)(void *arg), void *arg);
void thread_join(thread_t *thread);

int64_t now_ns(void);
/* Fill len bytes with a pattern of the seed.  HOLDS checks the pattern, and reports where the bytes differ. */
void fill(void *buf, size_t len, uint32_t seed);
bool holds(const void *buf, size_t len, uint32_t seed, const char *file, int line);
#define HOLDS(buf, len, seed) holds(buf, len, seed, __FILE__, __LINE__)
void *get(size_t len); /* allocate memory; never NULL */

/* Send a message with a number (EXPRESS) and a body (CHEAPER) of len bytes in that number's pattern. */
void send_numbered(env_t *e, mad_channel_t *ch, uint32_t number, size_t len);
void receive_numbered(env_t *e, mad_channel_t *ch, uint32_t number, size_t len);

#endif
