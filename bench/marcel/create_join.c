/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that does nothing is created and joined. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>

static void *nothing(void *arg)
{
    return arg;
}

static double batch_marcel(int n)
{
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        marcel_t thread;
        if (marcel_create(&thread, NULL, nothing, NULL) || marcel_join(thread, NULL))
            return -1;
    }
    return (perf_now() - start) / n;
}

static double batch_posix(int n)
{
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        if (!perf_ok("pthread_create", pthread_create(&thread, NULL, nothing, NULL)))
            return -1;
        pthread_join(thread, NULL);
    }
    return (perf_now() - start) / n;
}

const perf_test_t perf_create_join = {.name = "create_join",
                                      .help = "create a thread that does nothing, and join it",
                                      .marcel = batch_marcel,
                                      .pthread = batch_posix,
                                      .n = 10000,
                                      .pthread_n = 100,
                                      .workers = 1};
