/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancellation in every wait, before a wait, and between waits; handlers; calls that are not cancellation points. */
#include "locks.h"

static marcel_cond_t cond = MARCEL_COND_INITIALIZER;
static marcel_sem_t sem;
static marcel_completion_t completion = MARCEL_COMPLETION_INITIALIZER;
static marcel_t blocked;
static _Atomic(int) cleaned, begun;

static void clean(void *arg)
{
    cleaned += (int)(intptr_t)arg;
}

static void unlock_mutex(void *arg)
{
    CHECK_EQ(marcel_mutex_unlock(arg), 0);
}

static marcel_mutex_t checked = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;

static void wait_for_ever(int how)
{
    struct timespec never = {100000, 0}, until = after_ms(CLOCK_MONOTONIC, 100000000);
    switch (how) {
    case 0: marcel_sem_wait(&sem); break;
    case 1: marcel_sem_clockwait(&sem, CLOCK_MONOTONIC, &until); break;
    case 2:
    case 3:
        marcel_mutex_lock(&checked);
        marcel_cleanup_push(unlock_mutex, &checked);
        if (how == 2)
            marcel_cond_wait(&cond, &checked);
        else
            marcel_cond_clockwait(&cond, &checked, CLOCK_MONOTONIC, &until);
        marcel_cleanup_pop(1);
        break;
    case 4: marcel_join(blocked, NULL); break;
    case 5: marcel_clockjoin(blocked, NULL, CLOCK_MONOTONIC, &until); break;
    case 6: marcel_nanosleep(&never, NULL); break;
    case 7: marcel_completion_wait(&completion); break;
    case 8: marcel_completion_clockwait(&completion, CLOCK_MONOTONIC, &until); break;
    default:
        for (;;) {
            marcel_testcancel();
            marcel_yield();
        }
    }
}

static void *be_cancelled(void *arg)
{
    marcel_cleanup_push(clean, (void *)100);
    marcel_cleanup_push(clean, (void *)10);
    marcel_cleanup_push(clean, (void *)1);
    marcel_cleanup_pop(0);
    begun++;
    wait_for_ever((int)(intptr_t)arg);
    CHECK_MSG(false, "it went on after wait %d", (int)(intptr_t)arg);
    marcel_cleanup_pop(0);
    marcel_cleanup_pop(0);
    return NULL;
}

static void cancel_one(bool plain, int how, int when)
{
    any_t any;
    cleaned = begun = 0;
    any_start(&any, plain, be_cancelled, (void *)(intptr_t)how);
    if (when == 1)
        while (!begun)
            yield_some();
    else if (when == 2)
        pause_ms(1);
    CHECK_EQ(marcel_cancel(any.thread), 0);
    CHECK_EQ(marcel_cancel(any.thread), 0); /* the second cancel has no effect */
    void *result = any_end(&any);
    CHECK_MSG(result == MARCEL_CANCELED && cleaned == 110, "wait %d of a %s thread, case %d: %p, cleaned %d", how,
              plain ? "plain" : "user-level", when, result, cleaned);
}

static void *cancel_all_ways(void *arg)
{
    for (int how = 0; how < 10; how++)
        for (int when = 0; when < 3; when++)
            for (int plain = 0; plain < 2; plain++)
                cancel_one(plain, how, when);
    return arg;
}

void test_cancel_ends_every_wait(void)
{
    marcel_completion_t end = MARCEL_COMPLETION_INITIALIZER;
    marcel_sem_init(&sem, 0, 0);
    marcel_completion_init(&completion);
    CHECK_EQ(marcel_create(&blocked, NULL, wait_done, &end), 0);
    everywhere(cancel_all_ways);
    marcel_completion_complete(&end);
    CHECK_EQ(marcel_join(blocked, NULL), 0);
    CHECK_EQ(marcel_sem_destroy(&sem), 0);
    CHECK_EQ(marcel_cond_destroy(&cond), 0);
    CHECK_EQ(marcel_completion_destroy(&completion), 0);
    CHECK_EQ(marcel_mutex_destroy(&checked), 0);
}

static void *begin_and_wait(void *arg)
{
    begun++;
    return wait_done(arg);
}

static void *join_seed(void *arg)
{
    marcel_t seed, *out = arg;
    marcel_create(&seed, NULL, begin_and_wait, &completion);
    *out = seed;
    marcel_join(seed, NULL); /* the seed runs at once, in place of this thread, and blocks */
    CHECK_MSG(false, "the join of a seed went on");
    return NULL;
}

/* A join in place is a cancellation point like others as soon as the joined thread waits. */
void test_join_in_place_can_be_cancelled(void)
{
    marcel_t joiner, seed = NULL;
    void *result = NULL;
    marcel_completion_init(&completion);
    begun = 0;
    CHECK_EQ(marcel_create(&joiner, NULL, join_seed, &seed), 0);
    while (!begun)
        yield_some();
    CHECK_EQ(marcel_cancel(joiner), 0);
    CHECK_EQ(marcel_join(joiner, &result), 0);
    CHECK(result == MARCEL_CANCELED);
    marcel_completion_complete(&completion);
    CHECK_EQ(marcel_join(seed, &result), 0);
    CHECK(result == &completion);
}

static void *not_now(void *arg)
{
    int old = -1;
    CHECK_EQ(marcel_setcancelstate(77, NULL), EINVAL);
    CHECK_EQ(marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old), 0);
    CHECK_EQ(old, MARCEL_CANCEL_ENABLE);
    begun++;
    CHECK_EQ(marcel_sem_wait(arg), 0); /* cancellation is disabled, so this wait succeeds */
    struct timespec until = after_ms(CLOCK_MONOTONIC, 5);
    CHECK_EQ(marcel_sem_clockwait(arg, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    marcel_testcancel();
    cleaned++;
    CHECK_EQ(marcel_setcancelstate(MARCEL_CANCEL_ENABLE, &old), 0);
    CHECK_EQ(old, MARCEL_CANCEL_DISABLE);
    cleaned++;
    marcel_sem_post(arg);
    marcel_sem_wait(arg); /* a cancellation point, although the semaphore has a unit */
    cleaned += 100;
    return NULL;
}

void test_cancel_disabled_takes_effect_later(void)
{
    for (int plain = 0; plain < 2; plain++) {
        any_t any;
        int value = 0;
        marcel_sem_init(&sem, 0, 0);
        cleaned = begun = 0;
        any_start(&any, plain, not_now, &sem);
        while (!begun)
            yield_some();
        CHECK_EQ(marcel_cancel(any.thread), 0);
        pause_ms(2);
        marcel_sem_post(&sem);
        CHECK(any_end(&any) == MARCEL_CANCELED);
        CHECK_EQ(cleaned, 2);
        CHECK_EQ(marcel_sem_getvalue(&sem, &value), 0);
        CHECK_EQ(value, 1);
        CHECK_EQ(marcel_sem_destroy(&sem), 0);
    }
}

static marcel_once_t only = MARCEL_ONCE_INIT;
static int times;

static void run_once(void)
{
    if (times++ == 0)
        marcel_exit((void *)5);
}

static void *call_once(void *arg)
{
    CHECK_EQ(marcel_once(&only, run_once), 0);
    return arg;
}

void test_once_left_by_exit_runs_again(void)
{
    any_t any;
    any_start(&any, false, call_once, NULL);
    CHECK(any_end(&any) == (void *)5);
    any_start(&any, true, call_once, &any);
    CHECK(any_end(&any) == &any);
    CHECK_EQ(times, 2);
}
