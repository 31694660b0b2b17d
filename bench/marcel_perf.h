/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of marcel_perf share.
 *
 * A test gives batches: each does something n times and says how many nanoseconds one took.  The same is done by POSIX
 * threads, which, if the test has one worker, are bound to one processor, so that both have one core.  Each test runs in a
 * process of its own. */
#ifndef MARCEL_PERF_H
#define MARCEL_PERF_H

#include <stdbool.h>
#include <stddef.h>

/* Nanoseconds of one of n; negative: it failed, and why was said. */
typedef double (*batch_t)(int n);

typedef struct perf_test {
    const char *name;
    const char *help;
    batch_t marcel;          /* called in a user-level thread; one_cpu: in a plain pthread */
    batch_t pthread;         /* called in a pthread */
    batch_t beside;          /* what it is compared with, in turn with it and as it, or NULL ... */
    const char *beside_name; /* ... and what that is called */
    int n, pthread_n;        /* of a batch */
    int batches;             /* 0: as usual */
    int workers;             /* 0: as the environment says */
    bool one_cpu;            /* the whole process is bound to one processor, and nobody spins */
} perf_test_t;

extern const perf_test_t perf_yield, perf_create_join, perf_lock, perf_handoff, perf_handoff_cond, perf_handoff_cross, perf_directed,
    perf_wake, perf_forkjoin, perf_memory, perf_million;

/* Bytes of memory by thread in the last batch of each kind; 0: not measured. */
extern double perf_bytes, perf_pthread_bytes;

double perf_now(void);
/* What the process has in memory, page tables included; bytes. */
double perf_memory_now(void);
/* False after a line on stderr when rc is not 0. */
bool perf_ok(const char *call, int rc);
/* Two threads run turn(0) and turn(1): ns of each of their n turns; less than 0: failed. */
double perf_two(void *(*turn)(void *side), int n);

#endif
