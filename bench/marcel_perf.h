/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of marcel_perf share.
 *
 * A test gives batches: each does something n times and says how many nanoseconds one took.  The same is done by POSIX
 * threads, bound to one processor, so that both have one core. */
#ifndef MARCEL_PERF_H
#define MARCEL_PERF_H

#include <stdbool.h>
#include <stddef.h>

/* Nanoseconds of one of n; negative: it failed, and why was said. */
typedef double (*batch_t)(int n);

typedef struct perf_test {
    const char *name;
    const char *help;
    batch_t marcel;        /* called in a user-level thread */
    batch_t pthread;       /* called in a bound pthread */
    batch_t rmw;           /* what it is compared with, or NULL; in a user-level thread */
    int n, pthread_n;      /* of a batch */
    int batches;           /* 0: as usual */
} perf_test_t;

extern const perf_test_t perf_yield, perf_create_join, perf_lock, perf_handoff, perf_forkjoin, perf_memory, perf_million;

/* Bytes of memory by thread in the last batch of each kind; 0: not measured. */
extern double perf_bytes, perf_pthread_bytes;

double perf_now(void);
/* What the process has in memory, page tables included; bytes. */
double perf_memory_now(void);
/* False after a line on stderr when rc is not 0. */
bool perf_ok(const char *call, int rc);

#endif
