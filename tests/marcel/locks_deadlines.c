/* SPDX-License-Identifier: BSD-3-Clause */
/* Every wait with a deadline: the event comes too late, and in time. */
#include "locks.h"

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t cond = MARCEL_COND_INITIALIZER;
static marcel_sem_t sem;
static marcel_rwlock_t rwlock = MARCEL_RWLOCK_INITIALIZER;
static marcel_barrier_t barrier;
static marcel_completion_t completion = MARCEL_COMPLETION_INITIALIZER;
static marcel_t blocked;

/* clang-format off */
static int mutex_timed(const struct timespec *t) { return marcel_mutex_timedlock(&mutex, t); }
static int mutex_clock(int clock, const struct timespec *t) { return marcel_mutex_clocklock(&mutex, clock, t); }
static int rd_timed(const struct timespec *t) { return marcel_rwlock_timedrdlock(&rwlock, t); }
static int rd_clock(int clock, const struct timespec *t) { return marcel_rwlock_clockrdlock(&rwlock, clock, t); }
static int wr_timed(const struct timespec *t) { return marcel_rwlock_timedwrlock(&rwlock, t); }
static int wr_clock(int clock, const struct timespec *t) { return marcel_rwlock_clockwrlock(&rwlock, clock, t); }
static int sem_timed(const struct timespec *t) { return marcel_sem_timedwait(&sem, t); }
static int sem_clock(int clock, const struct timespec *t) { return marcel_sem_clockwait(&sem, clock, t); }
static int barrier_timed(const struct timespec *t) { return marcel_barrier_timedwait(&barrier, t); }
static int barrier_clock(int clock, const struct timespec *t) { return marcel_barrier_clockwait(&barrier, clock, t); }
static int done_timed(const struct timespec *t) { return marcel_completion_timedwait(&completion, t); }
static int done_clock(int clock, const struct timespec *t) { return marcel_completion_clockwait(&completion, clock, t); }
static int join_timed(const struct timespec *t) { return marcel_timedjoin(blocked, NULL, t); }
static int join_clock(int clock, const struct timespec *t) { return marcel_clockjoin(blocked, NULL, clock, t); }
/* clang-format on */

static int cond_clock(int clock, const struct timespec *t)
{
    marcel_mutex_t own = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
    CHECK_EQ(marcel_mutex_lock(&own), 0);
    int rc = marcel_cond_clockwait(&cond, &own, clock, t);
    CHECK_EQ(marcel_mutex_unlock(&own), 0); /* the caller holds the mutex again */
    return rc;
}

static int cond_timed(const struct timespec *t)
{
    marcel_mutex_t own = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
    CHECK_EQ(marcel_mutex_lock(&own), 0);
    int rc = marcel_cond_timedwait(&cond, &own, t);
    CHECK_EQ(marcel_mutex_unlock(&own), 0);
    return rc;
}

static bool passed(clockid_t clock, const struct timespec *until)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec - MS);
}

static const struct {
    const char *name;
    int (*timed)(const struct timespec *until);
    int (*by_clock)(int clock, const struct timespec *until);
} waits[] = {
    {"mutex", mutex_timed, mutex_clock},    {"rdlock", rd_timed, rd_clock},   {"wrlock", wr_timed, wr_clock},
    {"sem", sem_timed, sem_clock},          {"cond", cond_timed, cond_clock}, {"barrier", barrier_timed, barrier_clock},
    {"completion", done_timed, done_clock}, {"join", join_timed, join_clock},
};

static void *too_late(void *arg)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
    struct timespec bad = {0, 1000000000}, long_ago = {1, 0}, before = {-5, 0};
    for (size_t w = 0; w < COUNT(waits); w++) {
        struct timespec until = after_ms(CLOCK_REALTIME, 12);
        CHECK_MSG(waits[w].timed(&bad) == EINVAL, "%s: bad time", waits[w].name);
        CHECK_MSG(waits[w].by_clock(CLOCK_PROCESS_CPUTIME_ID, &long_ago) == EINVAL, "%s: bad clock", waits[w].name);
        CHECK_MSG(waits[w].timed(&long_ago) == ETIMEDOUT, "%s: long ago", waits[w].name);
        CHECK_MSG(waits[w].timed(&before) == ETIMEDOUT, "%s: before", waits[w].name);
        CHECK_MSG(waits[w].timed(&until) == ETIMEDOUT, "%s: timed", waits[w].name);
        CHECK_MSG(passed(CLOCK_REALTIME, &until), "%s: too early", waits[w].name);
        for (size_t c = 0; c < COUNT(clocks); c++) {
            until = after_ms(clocks[c], 12);
            CHECK_MSG(waits[w].by_clock(clocks[c], &until) == ETIMEDOUT, "%s: clock %zu", waits[w].name, c);
            CHECK_MSG(passed(clocks[c], &until), "%s: too early by clock %zu", waits[w].name, c);
        }
    }
    return arg;
}

void test_passed_deadline_ends_every_wait(void)
{
    marcel_completion_t end;
    void *result;
    marcel_completion_init(&end);
    marcel_sem_init(&sem, 0, 0);
    CHECK_EQ(marcel_barrier_init(&barrier, NULL, 2), 0);
    CHECK_EQ(marcel_mutex_lock(&mutex), 0);
    CHECK_EQ(marcel_rwlock_wrlock(&rwlock), 0);
    CHECK_EQ(marcel_create(&blocked, NULL, wait_done, &end), 0);
    for (int plain = 0; plain < 2; plain++) {
        any_t any;
        any_start(&any, plain, too_late, NULL);
        any_end(&any);
    }
    CHECK_EQ(marcel_tryjoin(blocked, NULL), EBUSY);
    marcel_completion_complete(&end);
    CHECK_EQ(marcel_join(blocked, &result), 0);
    CHECK(result == &end);
    /* The waits whose deadline has passed have changed no object. */
    CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(marcel_rwlock_destroy(&rwlock), 0);
    CHECK_EQ(marcel_mutex_unlock(&mutex), 0);
    CHECK_EQ(marcel_mutex_destroy(&mutex), 0);
    CHECK_EQ(marcel_cond_destroy(&cond), 0);
    CHECK_EQ(marcel_barrier_destroy(&barrier), 0);
    CHECK_EQ(marcel_sem_destroy(&sem), 0);
}

/* A call that can succeed immediately does, even past its deadline. */
static void *in_time(void *arg)
{
    struct timespec long_ago = {1, 0}, soon = after_ms(CLOCK_MONOTONIC, 20000);
    marcel_mutex_t recursive = MARCEL_RECURSIVE_MUTEX_INITIALIZER, check = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
    marcel_rwlock_t own = MARCEL_RWLOCK_INITIALIZER;
    marcel_completion_t done;
    marcel_t thread;
    void *result = NULL;
    CHECK_EQ(marcel_mutex_timedlock(&recursive, &long_ago), 0);
    CHECK_EQ(marcel_mutex_clocklock(&recursive, CLOCK_MONOTONIC, &soon), 0);
    CHECK_EQ(marcel_mutex_unlock(&recursive), 0);
    CHECK_EQ(marcel_mutex_unlock(&recursive), 0);
    CHECK_EQ(marcel_mutex_timedlock(&check, &long_ago), 0);
    CHECK_EQ(marcel_mutex_clocklock(&check, CLOCK_MONOTONIC, &soon), EDEADLK);
    CHECK_EQ(marcel_mutex_unlock(&check), 0);
    CHECK_EQ(marcel_rwlock_timedrdlock(&own, &long_ago), 0);
    CHECK_EQ(marcel_rwlock_unlock(&own), 0);
    CHECK_EQ(marcel_rwlock_timedwrlock(&own, &long_ago), 0);
    CHECK_EQ(marcel_rwlock_clockwrlock(&own, CLOCK_MONOTONIC, &soon), EDEADLK);
    CHECK_EQ(marcel_rwlock_unlock(&own), 0);
    marcel_completion_init(&done);
    marcel_completion_complete(&done);
    CHECK_EQ(marcel_completion_timedwait(&done, &long_ago), 0);
    CHECK_EQ(marcel_create(&thread, NULL, wait_done, &done), 0);
    CHECK_EQ(marcel_clockjoin(thread, &result, CLOCK_MONOTONIC, &soon), 0);
    CHECK(result == &done);
    CHECK_EQ(marcel_create(&thread, NULL, wait_done, &done), 0);
    int rc;
    while ((rc = marcel_tryjoin(thread, &result)) == EBUSY)
        marcel_yield();
    CHECK_EQ(rc, 0);
    CHECK_EQ(marcel_timedjoin(marcel_self(), NULL, &long_ago), EDEADLK);
    return arg;
}

void test_free_object_is_taken_after_the_deadline(void)
{
    everywhere(in_time);
}
