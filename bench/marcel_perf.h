/* SPDX-License-Identifier: BSD-3-Clause */
/* Common parts of the tests of marcel_perf.  A test consists of batches: each does something n times, and returns the
 * ns of one time.  POSIX threads do the same; if the test has one worker, they are bound to one processor, so that both
 * have one core.  Each test runs in a process of its own. */
#ifndef MARCEL_PERF_H
#define MARCEL_PERF_H

#include <stdbool.h>
#include <stddef.h>

/* Return the ns of one of n times; negative if it failed, with the reason on stderr. */
typedef double (*batch_t)(int n);

typedef struct perf_test {
    const char *name;
    const char *help;
    batch_t marcel;          /* called in a user-level thread; one_cpu: in a plain pthread */
    batch_t pthread;         /* called in a pthread */
    batch_t beside;          /* batch for comparison, run in turn with the test in the same way; or NULL */
    const char *beside_name; /* name of that batch */
    int n, pthread_n;        /* iterations per batch, of each kind */
    int batches;             /* number of batches; 0: the default */
    int workers;             /* number of workers; 0: taken from the environment */
    bool one_cpu;            /* the whole process is bound to one processor, so no thread may spin */
} perf_test_t;

extern const perf_test_t perf_yield, perf_create_join, perf_lock, perf_handoff, perf_handoff_cond, perf_handoff_cross,
    perf_directed, perf_wake, perf_forkjoin, perf_memory, perf_million;

/* Bytes of memory per thread in the last batch of each kind; 0 if not measured. */
extern double perf_bytes, perf_pthread_bytes;

double perf_now(void);
/* Return the memory of the process in bytes, including page tables. */
double perf_memory_now(void);
/* Return false, after a line on stderr, if rc is not 0. */
bool perf_ok(const char *call, int rc);
/* Two threads run turn(0) and turn(1).  Return the ns of each of their n turns; negative if it failed. */
double perf_two(void *(*turn)(void *side), int n);

#endif
