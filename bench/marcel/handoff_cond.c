/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads switch by a condition and a mutex, on one worker. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <stdint.h>

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t cond = MARCEL_COND_INITIALIZER;
static int turns, turn;

static void *turn_marcel(void *arg)
{
    int me = (int)(intptr_t)arg;
    marcel_mutex_lock(&mutex);
    for (int i = turns; i > 0; i--) {
        while (turn != me)
            marcel_cond_wait(&cond, &mutex);
        turn = !me;
        marcel_cond_signal(&cond);
    }
    marcel_mutex_unlock(&mutex);
    return NULL;
}

static double batch_marcel(int n)
{
    turns = n;
    turn = 0;
    return perf_two(turn_marcel, n);
}

static pthread_mutex_t posix_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posix_cond = PTHREAD_COND_INITIALIZER;

static void *turn_posix(void *arg)
{
    int me = (int)(intptr_t)arg;
    pthread_mutex_lock(&posix_mutex);
    for (int i = turns; i > 0; i--) {
        while (turn != me)
            pthread_cond_wait(&posix_cond, &posix_mutex);
        turn = !me;
        pthread_cond_signal(&posix_cond);
    }
    pthread_mutex_unlock(&posix_mutex);
    return NULL;
}

static double batch_posix(int n)
{
    pthread_t other;
    turns = n;
    turn = 0;
    if (!perf_ok("pthread_create", pthread_create(&other, NULL, turn_posix, (void *)1)))
        return -1;
    double start = perf_now();
    turn_posix(NULL);
    pthread_join(other, NULL);
    return (perf_now() - start) / n / 2;
}

const perf_test_t perf_handoff_cond = {.name = "handoff_cond",
                                       .help = "the same by a condition and a mutex",
                                       .marcel = batch_marcel,
                                       .pthread = batch_posix,
                                       .n = 10000,
                                       .pthread_n = 500,
                                       .workers = 1};
