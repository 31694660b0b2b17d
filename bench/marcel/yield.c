/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads that only yield: one switch each time. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

static void *yield_marcel(void *arg)
{
    for (int i = (int)(intptr_t)arg; i > 0; i--)
        marcel_yield();
    return NULL;
}

static double batch_marcel(int n)
{
    marcel_t thread[2];
    for (int i = 0; i < 2; i++)
        if (!perf_ok("marcel_create", marcel_create(&thread[i], NULL, yield_marcel, (void *)(intptr_t)n)))
            return -1;
    double start = perf_now();
    marcel_join(thread[0], NULL);
    marcel_join(thread[1], NULL);
    return (perf_now() - start) / n / 2;
}

static void *yield_posix(void *arg)
{
    for (int i = (int)(intptr_t)arg; i > 0; i--)
        sched_yield();
    return NULL;
}

static double batch_posix(int n)
{
    pthread_t other;
    if (!perf_ok("pthread_create", pthread_create(&other, NULL, yield_posix, (void *)(intptr_t)n)))
        return -1;
    sched_yield();
    double start = perf_now();
    yield_posix((void *)(intptr_t)n);
    double took = perf_now() - start;
    pthread_join(other, NULL);
    return took / n / 2;
}

const perf_test_t perf_yield = {.name = "yield",
                                .help = "a yield that switches to the other of two threads",
                                .marcel = batch_marcel,
                                .pthread = batch_posix,
                                .n = 20000,
                                .pthread_n = 2000,
                                .workers = 1};
