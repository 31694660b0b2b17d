/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads on two workers switch by two semaphores.  For comparison, in turn on the same workers, the lower bound:
 * one thread writes a word that the other spins on. */
#include "../marcel_perf.h"

#include <marcel.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

static struct {
    _Alignas(128) marcel_sem_t sem;
} side[2];
static _Alignas(128) atomic_int word;
#define WARM_UP 50
static int turns;
static double start;

/* Run the turns; the first thread takes the time once both run. */
static void *turn_marcel(void *arg)
{
    intptr_t me = (intptr_t)arg;
    for (int i = 0; i < WARM_UP + turns; i++) {
        if (!me && i == WARM_UP)
            start = perf_now();
        marcel_sem_wait(&side[me].sem);
        marcel_sem_post(&side[!me].sem);
    }
    return NULL;
}

static void *turn_word(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < WARM_UP + turns; i++) {
        if (!me && i == WARM_UP)
            start = perf_now();
        while (atomic_load_explicit(&word, memory_order_acquire) != 2 * i + me)
            ;
        atomic_store_explicit(&word, 2 * i + me + 1, memory_order_release);
    }
    return NULL;
}

/* Run two threads, on worker 0 and worker 1. */
static double both(void *(*run)(void *), int n)
{
    marcel_attr_t attr;
    marcel_t thread[2];
    turns = n;
    marcel_attr_init(&attr);
    for (intptr_t i = 0; i < 2; i++) {
        marcel_attr_setplacement(&attr, (int)i);
        if (!perf_ok("marcel_create", marcel_create(&thread[i], &attr, run, (void *)i)))
            return -1;
    }
    marcel_join(thread[0], NULL);
    marcel_join(thread[1], NULL);
    return (perf_now() - start) / n / 2;
}

static double batch_marcel(int n)
{
    marcel_sem_init(&side[0].sem, 0, 1);
    marcel_sem_init(&side[1].sem, 0, 0);
    return both(turn_marcel, n);
}

static double batch_line(int n)
{
    atomic_store(&word, 0);
    return both(turn_word, n);
}

static sem_t posix[2];

static void *turn_posix(void *arg)
{
    intptr_t me = (intptr_t)arg;
    for (int i = turns; i > 0; i--) {
        sem_wait(&posix[me]);
        sem_post(&posix[!me]);
    }
    return NULL;
}

static double batch_posix(int n)
{
    pthread_t other;
    turns = n;
    sem_init(&posix[0], 0, 1);
    sem_init(&posix[1], 0, 0);
    if (!perf_ok("pthread_create", pthread_create(&other, NULL, turn_posix, (void *)1)))
        return -1;
    start = perf_now();
    turn_posix(NULL);
    pthread_join(other, NULL);
    return (perf_now() - start) / n / 2;
}

const perf_test_t perf_handoff_cross = {.name = "handoff_cross",
                                        .help =
                                            "hand over by a semaphore to a thread of another worker; a cache line beside it",
                                        .marcel = batch_marcel,
                                        .pthread = batch_posix,
                                        .beside = batch_line,
                                        .beside_name = "line",
                                        .n = 2000,
                                        .pthread_n = 500,
                                        .workers = 2};
