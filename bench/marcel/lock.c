/* SPDX-License-Identifier: BSD-3-Clause */
/* An uncontended mutex is locked and unlocked; for comparison two atomic exchanges, the lower bound of any lock. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <stdatomic.h>

static double batch_marcel(int n)
{
    static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        marcel_mutex_lock(&mutex);
        marcel_mutex_unlock(&mutex);
    }
    return (perf_now() - start) / n;
}

static double batch_posix(int n)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return (perf_now() - start) / n;
}

static double batch_rmw(int n)
{
    static atomic_uint word;
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        atomic_exchange_explicit(&word, 1, memory_order_acquire);
        atomic_exchange_explicit(&word, 0, memory_order_release);
    }
    return (perf_now() - start) / n;
}

const perf_test_t perf_lock = {.name = "lock",
                               .help =
                                   "lock and unlock a mutex that nobody else wants; two atomic read-modify-writes beside it",
                               .marcel = batch_marcel,
                               .pthread = batch_posix,
                               .beside = batch_rmw,
                               .beside_name = "rmw",
                               .n = 50000,
                               .pthread_n = 50000,
                               .workers = 1};
