/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks of many readers or one writer. */
#include "locks.h"

#include <sched.h>

static marcel_rwlock_t rwlock = MARCEL_RWLOCK_INITIALIZER;
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
            if (random >> 19 & 1) { /* a second read lock does not wait for writers, which wait for the first one */
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

void test_writers_exclude_and_readers_share(void)
{
    any_t any[8];
    for (size_t i = 0; i < COUNT(any); i++)
        any_start(&any[i], i >= 6, read_and_write, (void *)(i + 1));
    for (size_t i = 0; i < COUNT(any); i++)
        any_end(&any[i]);
    CHECK(written > 100);
    /* Two threads read at the same time, one of each kind. */
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

void test_rwlock_misuse_is_reported(void)
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
void test_readers_do_not_starve_writers(void)
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
    stop = true;
    return arg;
}

/* A new reader is refused as soon as a writer waits. */
static void *see_writer(void *arg)
{
    while (!stop && marcel_rwlock_tryrdlock(&rwlock) == 0) {
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        yield_some();
    }
    return arg;
}

/* A writer whose deadline passes lets the readers behind it enter. */
void test_expired_writer_lets_readers_in(void)
{
    for (int plain = 0; plain < 4; plain++) {
        any_t writer, reader;
        stop = false;
        got_it = 0;
        CHECK_EQ(marcel_rwlock_rdlock(&rwlock), 0);
        any_start(&writer, plain & 1, write_late, NULL);
        any_start(&reader, plain & 1, see_writer, NULL);
        any_end(&reader);
        CHECK_EQ(marcel_rwlock_tryrdlock(&rwlock), 0); /* a thread that already reads passes the writer */
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        any_start(&reader, plain >> 1, read_behind, NULL);
        any_end(&reader);
        any_end(&writer);
        CHECK_EQ(got_it, 1);
        CHECK_EQ(marcel_rwlock_unlock(&rwlock), 0);
        CHECK_EQ(marcel_rwlock_destroy(&rwlock), 0);
    }
}
