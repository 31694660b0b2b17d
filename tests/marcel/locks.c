/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits with deadlines, rwlocks, barriers, completions, cancellation: each by user-level threads, by plain pthreads, and
 * between both: locks [TEST...]. */
#include "support.h"

#include <sched.h>

/* ---- Either kind of thread ---------------------------------------------------------------------------------------- */

typedef struct any {
    bool plain;
    marcel_t thread;
    pthread_t pthread;
    void *(*run)(void *);
    void *arg, *result;
    marcel_sem_t known; /* plain: thread is set */
    marcel_sem_t gone;  /* plain: it may end */
} any_t;

static void let_go(void *any)
{
    marcel_sem_wait(&((any_t *)any)->gone);
}

static void *plain_main(void *arg)
{
    any_t *any = arg;
    void *result;
    any->thread = marcel_self();
    marcel_sem_post(&any->known);
    marcel_cleanup_push(let_go, any); /* a canceller must be through */
    result = any->run(any->arg);
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, NULL);
    marcel_cleanup_pop(1);
    return result;
}

static void any_start(any_t *any, bool plain, void *(*run)(void *), void *arg)
{
    *any = (any_t){.plain = plain, .run = run, .arg = arg};
    marcel_sem_init(&any->known, 0, 0);
    marcel_sem_init(&any->gone, 0, 0);
    if (plain) {
        CHECK_EQ(pthread_create(&any->pthread, NULL, plain_main, any), 0);
        marcel_sem_wait(&any->known);
    } else {
        CHECK_EQ(marcel_create(&any->thread, NULL, run, arg), 0);
    }
}

static void *any_end(any_t *any)
{
    if (any->plain) {
        marcel_sem_post(&any->gone);
        pthread_join(any->pthread, &any->result);
    } else {
        CHECK_EQ(marcel_join(any->thread, &any->result), 0);
    }
    return any->result;
}

/* Run it as the main thread, in a user-level thread, and in a plain pthread. */
static void everywhere(void *(*run)(void *))
{
    any_t any;
    run(NULL);
    for (int plain = 0; plain < 2; plain++) {
        any_start(&any, plain, run, NULL);
        any_end(&any);
    }
}

static bool passed(clockid_t clock, const struct timespec *until)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > until->tv_sec || (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec - MS);
}

/* Others run, of this worker and of others. */
static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * MS};
    marcel_nanosleep(&t, NULL);
}

static void yield_some(void)
{
    for (int i = 0; i < 5; i++) {
        marcel_yield();
        sched_yield();
    }
}

/* ---- Deadlines ----------------------------------------------------------------------------------------------------- */

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static marcel_cond_t cond = MARCEL_COND_INITIALIZER;
static marcel_sem_t sem;
static marcel_rwlock_t rwlock = MARCEL_RWLOCK_INITIALIZER;
static marcel_barrier_t barrier;
static marcel_completion_t completion = MARCEL_COMPLETION_INITIALIZER;
static marcel_t blocked;

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

static int cond_clock(int clock, const struct timespec *t)
{
    marcel_mutex_t own = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
    CHECK_EQ(marcel_mutex_lock(&own), 0);
    int rc = marcel_cond_clockwait(&cond, &own, clock, t);
    CHECK_EQ(marcel_mutex_unlock(&own), 0); /* the caller has it again */
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

static const struct {
    const char *name;
    int (*timed)(const struct timespec *until);
    int (*by_clock)(int clock, const struct timespec *until);
} waits[] = {
    {"mutex", mutex_timed, mutex_clock},       {"rdlock", rd_timed, rd_clock},    {"wrlock", wr_timed, wr_clock},
    {"sem", sem_timed, sem_clock},             {"cond", cond_timed, cond_clock},  {"barrier", barrier_timed, barrier_clock},
    {"completion", done_timed, done_clock},    {"join", join_timed, join_clock},
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

static void *wait_done(void *arg)
{
    marcel_completion_wait(arg);
    return arg;
}

static void test_deadlines(void)
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
    /* Nothing is left of those that were late. */
    CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(marcel_rwlock_destroy(&rwlock), 0);
    CHECK_EQ(marcel_mutex_unlock(&mutex), 0);
    CHECK_EQ(marcel_mutex_destroy(&mutex), 0);
    CHECK_EQ(marcel_cond_destroy(&cond), 0);
    CHECK_EQ(marcel_barrier_destroy(&barrier), 0);
    CHECK_EQ(marcel_sem_destroy(&sem), 0);
}

/* What can be had is had, whatever the time. */
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

static void test_in_time(void)
{
    everywhere(in_time);
}

/* ---- Rwlock --------------------------------------------------------------------------------------------------------- */

static _Atomic(int) readers, writers;
static long written;

static void *read_and_write(void *arg)
{
    unsigned random = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 400; i++) {
        random = random * 1103515245 + 12345;
        if (random >> 16 & 3) {
            CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
            ++readers;
            CHECK_EQ(writers, 0);
            if (random >> 18 & 1)
                marcel_yield();
            if (random >> 19 & 1) { /* twice: not behind the writers that wait for the first */
                CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
                marcel_yield();
                CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
            }
            CHECK_EQ(writers, 0);
            readers--;
        } else {
            CHECK_EQ(marcel_rwlock_wrlock(&rwlock), 0);
            CHECK_EQ(writers++, 0);
            CHECK_EQ(readers, 0);
            marcel_yield();
            written++;
            writers--;
        }
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        if (random >> 20 & 1)
            marcel_yield();
    }
    return NULL;
}

static void *read_beside(void *arg)
{
    CHECK_EQ(marcel_rwlock_tryrdlock(&rwlock), 0);
    CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    return arg;
}

static void test_rwlock(void)
{
    any_t any[8];
    for (size_t i = 0; i < COUNT(any); i++)
        any_start(&any[i], i >= 6, read_and_write, (void *)(i + 1));
    for (size_t i = 0; i < COUNT(any); i++)
        any_end(&any[i]);
    CHECK(written > 100);
    /* Two read at the same time, one of each kind. */
    CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
    any_start(&any[0], false, read_beside, NULL);
    any_start(&any[1], true, read_beside, NULL);
    any_end(&any[0]);
    any_end(&any[1]);
    CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(marcel_rwlock_destroy(&rwlock), 0);
}

static void *rw_errors(void *arg)
{
    marcel_rwlock_t l = MARCEL_RWLOCK_INITIALIZER;
    CHECK_EQ(marcel_rwlock_init(&l, &l), EINVAL);
    CHECK_EQ(marcel_rwlock_init(&l, NULL), 0);
    CHECK_EQ(marcel_rwlock_unlock(&l), EPERM);
    CHECK_EQ(marcel_rwlock_rdlock(&l), 0);
    CHECK_EQ(marcel_rwlock_tryrdlock(&l), 0);
    CHECK_EQ(marcel_rwlock_trywrlock(&l), EBUSY);
    CHECK_EQ(marcel_rwlock_destroy(&l), EBUSY);
    CHECK_EQ(marcel_rwlock_unlock(&l), 0);
    CHECK_EQ(marcel_rwlock_unlock(&l), 0);
    CHECK_EQ(marcel_rwlock_trywrlock(&l), 0);
    CHECK_EQ(marcel_rwlock_tryrdlock(&l), EBUSY);
    CHECK_EQ(marcel_rwlock_trywrlock(&l), EBUSY);
    CHECK_EQ(marcel_rwlock_rdlock(&l), EDEADLK);
    CHECK_EQ(marcel_rwlock_wrlock(&l), EDEADLK);
    CHECK_EQ(marcel_rwlock_unlock(&l), 0);
    CHECK_EQ(marcel_rwlock_destroy(&l), 0);
    return arg;
}

static void test_rwlock_errors(void)
{
    everywhere(rw_errors);
}

static _Atomic(bool) stop;
static _Atomic(int) got_it;

static void *keep_reading(void *arg)
{
    while (!stop) {
        CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
        yield_some();
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        if (arg)
            sched_yield();
    }
    return NULL;
}

static void *write_some(void *arg)
{
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(marcel_rwlock_wrlock(&rwlock), 0);
        got_it++;
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    }
    return arg;
}

/* Readers that follow each other without a gap do not keep writers out. */
static void test_rwlock_starvation(void)
{
    any_t reader[5], writer[2];
    stop = false;
    got_it = 0;
    for (size_t i = 0; i < COUNT(reader); i++)
        any_start(&reader[i], i == 4, keep_reading, NULL);
    for (size_t i = 0; i < COUNT(writer); i++)
        any_start(&writer[i], i == 1, write_some, NULL);
    for (size_t i = 0; i < COUNT(writer); i++)
        any_end(&writer[i]);
    stop = true;
    for (size_t i = 0; i < COUNT(reader); i++)
        any_end(&reader[i]);
    CHECK_EQ(got_it, 40);
}

static void *read_behind(void *arg)
{
    CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
    got_it++;
    CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
    return arg;
}

static void *write_late(void *arg)
{
    struct timespec until = after_ms(CLOCK_MONOTONIC, 60);
    CHECK_EQ(marcel_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    return arg;
}

/* A writer whose time is over lets those in that waited behind it. */
static void test_rwlock_late_writer(void)
{
    for (int plain = 0; plain < 4; plain++) {
        any_t writer, reader;
        got_it = 0;
        CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
        any_start(&writer, plain & 1, write_late, NULL);
        pause_ms(10);
        CHECK_EQ(marcel_rwlock_tryrdlock(&rwlock), 0); /* who reads already passes the writer */
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        any_start(&reader, plain >> 1, read_behind, NULL);
        any_end(&reader);
        any_end(&writer);
        CHECK_EQ(got_it, 1);
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        CHECK_EQ(marcel_rwlock_destroy(&rwlock), 0);
    }
}

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

static void test_barrier(void)
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

/* Who has left does not count; and the last may free the barrier. */
static void test_barrier_late(void)
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

/* On the stack of who waits, which is used for something else at once. */
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

static void test_completion(void)
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

/* ---- Cancellation ---------------------------------------------------------------------------------------------------- */

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
    CHECK_EQ(marcel_cancel(any.thread), 0); /* no more than once */
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

static void test_cancel(void)
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

static void *join_seed(void *arg)
{
    marcel_t seed, *out = arg;
    marcel_create(&seed, NULL, wait_done, &completion);
    *out = seed;
    begun++;
    marcel_join(seed, NULL); /* in place: it runs at once, and blocks */
    CHECK_MSG(false, "the join of a seed went on");
    return NULL;
}

/* A join that began in place is a point like others, as soon as the other thread waits. */
static void test_cancel_in_place(void)
{
    marcel_t joiner, seed = NULL;
    void *result = NULL;
    marcel_completion_init(&completion);
    begun = 0;
    CHECK_EQ(marcel_create(&joiner, NULL, join_seed, &seed), 0);
    pause_ms(10);
    CHECK_EQ(begun, 1);
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
    CHECK_EQ(marcel_sem_wait(arg), 0); /* not cancelled here */
    struct timespec until = after_ms(CLOCK_MONOTONIC, 5);
    CHECK_EQ(marcel_sem_clockwait(arg, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    marcel_testcancel();
    cleaned++;
    CHECK_EQ(marcel_setcancelstate(MARCEL_CANCEL_ENABLE, &old), 0);
    CHECK_EQ(old, MARCEL_CANCEL_DISABLE);
    cleaned++;
    marcel_sem_post(arg);
    marcel_sem_wait(arg); /* although there is one */
    cleaned += 100;
    return NULL;
}

static void test_cancel_off(void)
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

static void test_once_left(void)
{
    any_t any;
    any_start(&any, false, call_once, NULL);
    CHECK(any_end(&any) == (void *)5);
    any_start(&any, true, call_once, &any);
    CHECK(any_end(&any) == &any);
    CHECK_EQ(times, 2);
}

/* ---- All ------------------------------------------------------------------------------------------------------------- */

static const test_case_t cases[] = {
    {"deadlines", test_deadlines}, {"in_time", test_in_time}, {"rwlock", test_rwlock},
    {"rwlock_errors", test_rwlock_errors}, {"rwlock_starvation", test_rwlock_starvation},
    {"rwlock_late_writer", test_rwlock_late_writer}, {"barrier", test_barrier}, {"barrier_late", test_barrier_late},
    {"completion", test_completion}, {"cancel", test_cancel}, {"cancel_in_place", test_cancel_in_place},
    {"cancel_off", test_cancel_off}, {"once_left", test_once_left}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_now);
}
