/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers and completions. */
#include "locks.h"

static marcel_barrier_t barrier;
static marcel_completion_t completion = MARCEL_COMPLETION_INITIALIZER;

/* ---- Barrier -------------------------------------------------------------------------------------------------------- */

enum { PHASES = 200, WIDTH = 7 };
static _Atomic(int) came[PHASES], serial;

static void *walk_phases(void *arg)
{
    for (int i = 0; i < PHASES; i++) {
        came[i]++;
        int rc = marcel_barrier_wait(&barrier);
        CHECK(rc == 0 || rc == MARCEL_BARRIER_SERIAL_THREAD);
        serial += rc == MARCEL_BARRIER_SERIAL_THREAD;
        CHECK_EQ(came[i], WIDTH);
    }
    return arg;
}

void test_barrier_opens_when_all_have_come(void)
{
    any_t any[WIDTH];
    CHECK_EQ(marcel_barrier_init(&barrier, NULL, 0), EINVAL);
    CHECK_EQ(marcel_barrier_init(&barrier, came, 1), EINVAL);
    CHECK_EQ(marcel_barrier_init(&barrier, NULL, 1), 0);
    CHECK_EQ(marcel_barrier_wait(&barrier), MARCEL_BARRIER_SERIAL_THREAD);
    CHECK_EQ(marcel_barrier_destroy(&barrier), 0);
    CHECK_EQ(marcel_barrier_init(&barrier, NULL, WIDTH), 0);
    serial = 0;
    memset(came, 0, sizeof came);
    for (size_t i = 0; i < WIDTH; i++)
        any_start(&any[i], i >= 5, walk_phases, NULL);
    for (size_t i = 0; i < WIDTH; i++)
        any_end(&any[i]);
    CHECK_EQ(serial, PHASES);
    CHECK_EQ(marcel_barrier_destroy(&barrier), 0);
}

static void *come_late(void *arg)
{
    struct timespec until = after_ms(CLOCK_MONOTONIC, 20);
    return (void *)(intptr_t)marcel_barrier_clockwait(arg, CLOCK_MONOTONIC, &until);
}

static void *come(void *arg)
{
    return (void *)(intptr_t)marcel_barrier_wait(arg);
}

/* A thread whose deadline has passed does not count.  The last thread may free the barrier. */
void test_barrier_does_not_count_expired_threads(void)
{
    for (int plain = 0; plain < 2; plain++) {
        marcel_barrier_t *b = malloc(sizeof *b);
        any_t any[3];
        intptr_t sum;
        CHECK_EQ(marcel_barrier_init(b, NULL, 3), 0);
        any_start(&any[0], plain, come_late, b);
        any_start(&any[1], !plain, come_late, b);
        CHECK_EQ((intptr_t)any_end(&any[0]), ETIMEDOUT);
        CHECK_EQ((intptr_t)any_end(&any[1]), ETIMEDOUT);
        for (int i = 0; i < 3; i++)
            any_start(&any[i], i & 1 ? plain : !plain, come, b);
        sum = 0;
        for (int i = 0; i < 3; i++)
            sum += (intptr_t)any_end(&any[i]);
        CHECK_EQ(sum, -1);
        CHECK_EQ(marcel_barrier_destroy(b), 0);
        free(b);
    }
}

/* ---- Completion ------------------------------------------------------------------------------------------------------ */

static void *complete(void *arg)
{
    CHECK_EQ(marcel_completion_complete(arg), 0);
    return arg;
}

/* Completions on the stack of the waiting thread, which uses this memory for something else at once. */
static void *completions(void *arg)
{
    for (int i = 0; i < 200; i++) {
        marcel_completion_t done;
        any_t any;
        marcel_completion_init(&done);
        CHECK_EQ(marcel_completion_trywait(&done), EAGAIN);
        any_start(&any, i % 20 == 0, complete, &done);
        CHECK_EQ(marcel_completion_wait(&done), 0);
        CHECK_EQ(marcel_completion_wait(&done), 0);
        CHECK_EQ(marcel_completion_trywait(&done), 0);
        CHECK_EQ(marcel_completion_reset(&done), 0);
        CHECK_EQ(marcel_completion_trywait(&done), EAGAIN);
        CHECK_EQ(marcel_completion_destroy(&done), 0);
        memset(&done, 0xff, sizeof done);
        any_end(&any);
    }
    return arg;
}

void test_completion_wakes_all_that_wait(void)
{
    any_t any[6];
    everywhere(completions);
    marcel_completion_init(&completion);
    for (int i = 0; i < 6; i++)
        any_start(&any[i], i & 1, wait_done, &completion);
    pause_ms(5);
    complete(&completion);
    for (int i = 0; i < 6; i++)
        CHECK(any_end(&any[i]) == &completion);
}
