/* SPDX-License-Identifier: BSD-3-Clause */
/* Where threads run, and who runs those of a worker that is busy. */
#include "workers.h"

/* ---- Where they run --------------------------------------------------------------------------------------------- */

static void *stay(void *arg)
{
    int place = (int)(intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(marcel_worker(), place);
        if (i % 10 == 9)
            short_sleep(10000);
        else
            marcel_yield();
    }
    return NULL;
}

static void *place_all(void *arg)
{
    marcel_t thread[64];
    for (int i = 0; i < 64; i++)
        thread[i] = create_at(i % n_workers, stay, (void *)(intptr_t)(i % n_workers));
    for (int i = 0; i < 64; i++)
        join(thread[i]);
    return arg;
}

void test_place(void)
{
    marcel_attr_t attr;
    marcel_t thread;
    place_all(NULL);
    join(create(NULL, place_all, NULL));
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, n_workers), 0);
    CHECK_EQ(marcel_create(&thread, &attr, stay, NULL), EINVAL);
}

/* ---- One that does not switch ------------------------------------------------------------------------------------ */

static void *reach(void *arg)
{
    atomic_fetch_add(&reached, 1);
    return arg;
}

/* Its seeds run, though it never lets others run. */
static void *hog_seeds(void *arg)
{
    marcel_t thread[100];
    for (int i = 0; i < 100; i++)
        thread[i] = create(NULL, reach, NULL);
    compute_until(100);
    for (int i = 0; i < 100; i++)
        join(thread[i]);
    return arg;
}

void test_steal(void)
{
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_seeds, NULL));
    }
}

/* What a plain pthread creates does not stand behind one that computes. */
void test_outside(void)
{
    marcel_t hog[64], thread[100];
    for (int round = 0; round < 20; round++) {
        atomic_store(&reached, 0);
        for (int i = 0; i < n_workers - 1; i++)
            hog[i] = create(NULL, compute, (void *)100);
        for (int i = 0; i < 100; i++)
            thread[i] = create(NULL, reach, NULL);
        for (int i = 0; i < 100; i++)
            join(thread[i]);
        for (int i = 0; i < n_workers - 1; i++)
            join(hog[i]);
    }
}

/* Threads that have started, and may move, go on elsewhere while this one computes. */
static void *hog_moving(void *arg)
{
    marcel_t thread[50];
    for (int i = 0; i < 50; i++)
        thread[i] = create_moving(wait_and_reach, NULL);
    for (int i = 0; i < 50; i++)
        marcel_sem_wait(&arrived);
    for (int i = 0; i < 50; i++)
        marcel_sem_post(&gate);
    compute_until(100);
    for (int i = 0; i < 50; i++)
        join(thread[i]);
    return arg;
}

void test_move(void)
{
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_moving, NULL));
    }
}

/* Two that yield, and may move, share no worker for ever while another has nothing to do: both need the other's step. */
static _Atomic(int) turn;

static void *take_turns(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < 3000; i++) {
        while (atomic_load(&turn) != me)
            marcel_yield();
        atomic_store(&turn, 1 - me);
    }
    return NULL;
}

void test_yield_moving(void)
{
    marcel_t thread[2];
    atomic_store(&turn, 0);
    for (intptr_t i = 0; i < 2; i++)
        thread[i] = create_moving(take_turns, (void *)i);
    join(thread[0]);
    join(thread[1]);
}
