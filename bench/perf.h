/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the kernels of mad_perf.  A kernel is one file, perf_NAME.c, with one perf_test_t; mad_perf.c lists
 * them.  Every rank calls run; ranks without a part in a test only wait in the barrier after it. */
#ifndef BENCH_PERF_H
#define BENCH_PERF_H

#include <madeleine.h>

#include "engine.h"

#define PERF_WINDOW 64 /* maximum number of messages that the streaming kernels keep in flight */

typedef struct perf {
    bench_options_t options;
    mad_session_t *session;
    mad_channel_t *channel;
    int rank, ranks;
    int peer;             /* the other rank of a pair; this rank itself when alone */
    bool first;           /* true: this rank times and prints */
    char *send, *receive; /* buffers from malloc, as long as the longest size */
    /* Size of the current measurement, in bytes. */
    size_t size;
    mad_send_mode_t send_mode;
    mad_receive_mode_t receive_mode;
    int window;
} perf_t;

typedef struct perf_test {
    const char *name;
    const char *help;
    const char *sizes; /* default of --sizes */
    int (*run)(perf_t *p);
    bool timed; /* true: the test runs for the time of --ms */
    bool pairs; /* true: the test accepts --pairs */
    bool forms; /* true: the test accepts --form, --receive and --ways */
} perf_test_t;

extern const perf_test_t perf_pingpong, perf_bandwidth, perf_bidir, perf_rate, perf_manytoone, perf_modes, perf_mixed,
    perf_ring, perf_idle, perf_overlap, perf_streams, perf_beside, perf_cond, perf_outside, perf_fresh, perf_written,
    perf_put, perf_get, perf_fetch_add, perf_put_back, perf_coll;

/* Send or receive a message of one block of p->size bytes in the current modes.  0, or -1 after one line on stderr. */
int perf_send(perf_t *p, int peer, const void *buf, size_t len);
int perf_receive(perf_t *p, int peer, void *buf, size_t len); /* peer may be MAD_ANY_SOURCE */

/* Begin to send without waiting. *request is NULL if the send is complete already. */
int perf_send_start(perf_t *p, int peer, const void *buf, size_t len, mad_request_t **request);
int perf_wait(mad_request_t **request);

/* Report what failed on stderr; return -1. */
int perf_failed(const char *call, mad_status_t status);

/* Ping-pong bodies: between a pair, and of a process with itself (one message an iteration). */
int perf_pingpong_body(void *perf, int n);
int perf_self_body(void *perf, int n);
/* Send messages to the peer for ms, several of them in flight; the last one marks the end.  The other side receives all
 * messages; *came: number of messages that arrived within the time. */
int perf_timed_send(perf_t *p, int peer, int ms);
int perf_timed_receive(perf_t *p, int peer, int ms, long *came);
/* Barrier of all ranks, also those without a part in the test. */
int perf_barrier(perf_t *p);
/* Send n windows of messages, each answered by an empty one; the counterpart receives them. */
int perf_windows_send(perf_t *p, int peer, int n);
int perf_receive_many(perf_t *p, int peer, int count);
/* Send a window of messages to the peer, which sends one back at the same time. */
int perf_bidir_body(void *perf, int n);

/* Exchange one message each way, untimed, and check the payload. */
int perf_verify(perf_t *p);
/* Verify, measure and print a ping-pong of p->size between the pair (or alone) under the name test. */
int perf_pingpong_size(perf_t *p, const char *test, const char *extra);
/* Measure and print a body that moves `messages` messages of p->size per iteration; times are per message. */
int perf_stream_size(perf_t *p, const char *test, bench_body_t body, int messages);
/* True if this rank takes part in a test of pairs. */
bool perf_in_pair(const perf_t *p);
/* Print a row. 0, or -1 after a line on stderr if the messages did not use the requested driver. */
int perf_print(perf_t *p, const char *test, bench_stats_t us, double bytes_per_us, const char *extra);

#endif
