/* SPDX-License-Identifier: BSD-3-Clause */
/* Where threads run, and which worker runs the threads of a busy worker. */
#include "workers.h"

/* ---- Where they run --------------------------------------------------------------------------------------------- */

static void *stay(void *arg)
{
    int place = (int)(intptr_t)arg;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(marcel_worker_index(), place);
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

void test_placed_thread_stays(void)
{
    marcel_attr_t attr;
    marcel_t thread;
    place_all(NULL);
    join(create(NULL, place_all, NULL));
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, n_workers), 0);
    CHECK_EQ(marcel_create(&thread, &attr, stay, NULL), EINVAL);
}

/* ---- A thread that does not switch ------------------------------------------------------------------------------ */

static void *reach(void *arg)
{
    atomic_fetch_add(&reached, 1);
    return arg;
}

/* Create seeds, and compute until they have run, without ever letting others run. */
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

void test_seeds_of_a_busy_worker_are_stolen(void)
{
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_seeds, NULL));
    }
}

/* A thread that a plain pthread has created does not wait behind a computing thread. */
void test_thread_from_outside_avoids_busy_workers(void)
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

/* Movable threads that have started continue on other workers while this thread computes. */
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

void test_movable_threads_leave_a_busy_worker(void)
{
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    for (int i = 0; i < n_workers; i++) {
        atomic_store(&reached, 0);
        join(create_at(i, hog_moving, NULL));
    }
}

/* Two movable threads that yield do not share a worker for ever while another worker has no work.  Each needs the
 * other's step. */
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

void test_yielding_movable_threads_part(void)
{
    marcel_t thread[2];
    atomic_store(&turn, 0);
    for (intptr_t i = 0; i < 2; i++)
        thread[i] = create_moving(take_turns, (void *)i);
    join(thread[0]);
    join(thread[1]);
}

/* ---- No movable thread stays behind one that computes ------------------------------------------------------------ */

static marcel_t friend;

/* Yield some times, then release the other workers, and compute until a thread has continued there. */
static void *turns_then_hog(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        marcel_yield();
    atomic_store(&released, true);
    compute_until(1);
    return arg;
}

/* While other threads yield, the worker now and then takes a movable thread first, at any of their turns. */
static void *others_then_hog(void *arg)
{
    marcel_t moving = create_moving(wait_and_reach, NULL), other[8];
    marcel_sem_wait(&arrived);
    for (int i = 0; i < 8; i++)
        other[i] = create_at(0, turns_then_hog, arg);
    marcel_sem_post(&gate);
    join(moving);
    for (int i = 0; i < 8; i++)
        join(other[i]);
    return NULL;
}

static void *yield_to_hog(void *arg)
{
    CHECK_EQ(marcel_worker_index(), 0);
    CHECK_EQ(marcel_yield_to(friend), 0);
    atomic_fetch_add(&reached, 1);
    return arg;
}

static void *hog_then_yield_to(void *arg)
{
    friend = create_at(0, turns_then_hog, NULL);
    join(create_moving(yield_to_hog, NULL));
    join(friend);
    return arg;
}

void test_movable_thread_behind_yields_is_found(void)
{
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    for (intptr_t round = 0; round < 80; round++)
        alone(others_then_hog, (void *)(1 + round % 4));
    alone(hog_then_yield_to, NULL);
}
