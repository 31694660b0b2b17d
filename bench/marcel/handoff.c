/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads switch by two semaphores: each time one post, one wait that blocks, one switch. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>

static marcel_sem_t sem[2];
static int turns;

static void *turn_marcel(void *arg)
{
    intptr_t me = (intptr_t)arg;
    for (int i = turns; i > 0; i--) {
        marcel_sem_wait(&sem[me]);
        marcel_sem_post(&sem[!me]);
    }
    return NULL;
}

static double batch_marcel(int n)
{
    turns = n;
    marcel_sem_init(&sem[0], 0, 0);
    marcel_sem_init(&sem[1], 0, 1);
    return perf_two(turn_marcel, n);
}

static sem_t posix[2];

static void *other_posix(void *arg)
{
    for (int i = (int)(intptr_t)arg; i > 0; i--) {
        sem_wait(&posix[1]);
        sem_post(&posix[0]);
    }
    return NULL;
}

static double batch_posix(int n)
{
    pthread_t other;
    sem_init(&posix[0], 0, 0);
    sem_init(&posix[1], 0, 0);
    if (!perf_ok("pthread_create", pthread_create(&other, NULL, other_posix, (void *)(intptr_t)n)))
        return -1;
    double start = perf_now();
    for (int i = 0; i < n; i++) {
        sem_post(&posix[1]);
        sem_wait(&posix[0]);
    }
    double took = perf_now() - start;
    pthread_join(other, NULL);
    return took / n / 2;
}

const perf_test_t perf_handoff = {.name = "handoff",
                                  .help = "hand over to the other of two threads by a semaphore, on one worker",
                                  .marcel = batch_marcel,
                                  .pthread = batch_posix,
                                  .n = 10000,
                                  .pthread_n = 500,
                                  .batches = 200,
                                  .workers = 1};
