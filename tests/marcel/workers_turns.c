/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of all workers, and plain pthreads, that wait for each other. */
#include "workers.h"

typedef struct ring {
    marcel_sem_t sem[8];
    int n, laps;
} ring_t;

typedef struct member {
    ring_t *ring;
    int index;
} member_t;

static void *pass_on(void *arg)
{
    member_t *m = arg;
    for (int i = 0; i < m->ring->laps; i++) {
        CHECK_EQ(marcel_sem_wait(&m->ring->sem[m->index]), 0);
        CHECK_EQ(marcel_sem_post(&m->ring->sem[(m->index + 1) % m->ring->n]), 0);
    }
    return NULL;
}

/* User-level threads of all workers, some that move, and plain pthreads. */
void test_ring_of_all_kinds_of_threads_turns(void)
{
    for (int n = 2; n <= 8; n += 3) {
        ring_t ring = {.n = n, .laps = 2000};
        member_t member[8];
        marcel_t thread[8];
        pthread_t plain[8];
        for (int i = 0; i < n; i++)
            marcel_sem_init(&ring.sem[i], 0, i == 0);
        for (int i = 0; i < n; i++) {
            member[i] = (member_t){&ring, i};
            if (i % 4 == 3)
                CHECK_EQ(pthread_create(&plain[i], NULL, pass_on, &member[i]), 0);
            else
                thread[i] = i % 4 == 2 ? create_moving(pass_on, &member[i]) : create_at(i % n_workers, pass_on, &member[i]);
        }
        for (int i = 0; i < n; i++)
            if (i % 4 == 3)
                pthread_join(plain[i], NULL);
            else
                join(thread[i]);
    }
}

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t filled = MARCEL_COND_INITIALIZER, emptied = MARCEL_COND_INITIALIZER;
static int queued;
static long taken;

static void *produce(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 3)
            marcel_cond_wait(&emptied, &mutex);
        queued++;
        marcel_cond_signal(&filled);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

static void *consume(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 0)
            marcel_cond_wait(&filled, &mutex);
        queued--;
        taken++;
        marcel_cond_signal(&emptied);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

void test_cond_loses_no_item(void)
{
    marcel_t thread[12];
    pthread_t plain[2];
    queued = 0;
    taken = 0;
    for (int i = 0; i < 12; i++)
        thread[i] = i % 3 ? create_at(i % n_workers, i & 1 ? produce : consume, NULL)
                          : create_moving(i & 1 ? produce : consume, NULL);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&plain[i], NULL, i & 1 ? produce : consume, NULL), 0);
    for (int i = 0; i < 12; i++)
        join(thread[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(taken, 7000);
    CHECK_EQ(queued, 0);
}
