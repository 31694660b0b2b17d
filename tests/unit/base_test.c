/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base: status, copy, lock, mutex, clock, and log. */
#include "unit.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/static_mutex.h"
#include <madeleine/status.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(status_has_text)
{
#define X(name, value, text) \
    ck_assert_int_eq(MAD_##name, value); \
    ck_assert_str_eq(mad_status_name(MAD_##name), "MAD_" #name); \
    ck_assert_str_eq(mad_status_text(MAD_##name), text);
    MAD_STATUS_LIST(X)
#undef X
    ck_assert_str_eq(mad_status_text((mad_status_t)9999), "unknown status");
    ck_assert_str_eq(mad_status_name((mad_status_t)9999), "MAD_ERR_UNKNOWN");
}
END_TEST

/* The numeric values are part of the ABI and never change. */
START_TEST(status_values_are_distinct)
{
    static const int values[] = {
#define X(name, value, text) value,
        MAD_STATUS_LIST(X)
#undef X
    };
    for (size_t i = 0; i < MADI_COUNT(values); i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_int_ne(values[i], values[j]);
}
END_TEST

/* Copy every length, and check that the bytes around the destination stay unchanged. */
START_TEST(copy_moves_every_length)
{
    unsigned char from[600], to[616];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + 1);
    for (size_t n = 0; n <= sizeof from; n++) {
        memset(to, 0xee, sizeof to);
        madi_copy(to + 8, from, n);
        ck_assert_mem_eq(to + 8, from, n);
        ck_assert_mem_eq(to, "\xee\xee\xee\xee\xee\xee\xee\xee", 8);
        ck_assert_mem_eq(to + 8 + n, "\xee\xee\xee\xee\xee\xee\xee\xee", 8);
    }
}
END_TEST

static void (*const long_copies[])(void *to, const void *from, size_t n) = {madi_copy_bulk, madi_copy_across};

/* Copy between any two offsets within a page. */
START_TEST(long_copies_equal_memcpy)
{
    enum { PAGE = 4096, LEN = 5000 };
    unsigned char *from = aligned_alloc(PAGE, 3 * PAGE), *to = aligned_alloc(PAGE, 3 * PAGE);
    ck_assert(from && to);
    for (int i = 0; i < 3 * PAGE; i++)
        from[i] = (unsigned char)(i * 7 + i / PAGE);
    for (int at = 0; at < 40; at++)
        for (int behind = -2; behind < 36; behind++)
            for (size_t i = 0; i < MADI_COUNT(long_copies); i++) {
                unsigned char *d = to + 64 + at + behind;
                memset(to, 0xee, 3 * PAGE);
                long_copies[i](d, from + 64 + at, LEN);
                ck_assert_mem_eq(d, from + 64 + at, LEN);
                ck_assert(d[-1] == 0xee && d[LEN] == 0xee);
            }
    free(from);
    free(to);
}
END_TEST

static madi_lock_t lock;
static long counted;

static void *count_up(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        madi_lock(&lock);
        counted = counted + 1;
        madi_unlock(&lock);
    }
    return arg;
}

/* More threads than cores, so that the slow path of the lock runs, too. */
START_TEST(lock_excludes)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(counted, 8 * 20000);
    ck_assert(madi_trylock(&lock));
    ck_assert(!madi_trylock(&lock));
    madi_unlock(&lock);
    ck_assert(madi_trylock(&lock));
}
END_TEST

START_TEST(deadline_never_overflows)
{
    int64_t before = madi_now(), at = madi_deadline(1000000000), after = madi_now();
    ck_assert_int_ge(at, before + 1000000000);
    ck_assert_int_le(at, after + 1000000000);
    ck_assert_int_eq(madi_deadline(-1), INT64_MAX);
    ck_assert_int_eq(madi_deadline(INT64_MAX), INT64_MAX);
    ck_assert_int_eq(madi_deadline(INT64_MAX - 1), INT64_MAX);
}
END_TEST

START_TEST(log_level_filters_lines)
{
    err_keep();
    madi_log(MADI_LOG_INFO, "part", "not shown");
    madi_log(MADI_LOG_WARN, "part", "number %d", 42);
    ck_assert_str_eq(err_text(), "mad: part: warning: number 42\n");
    madi_log_set_level(MADI_LOG_DEBUG);
    madi_log_set_rank(3);
    madi_log(MADI_LOG_DEBUG, "other", "seen");
    ck_assert_str_eq(err_text(), "mad: part: warning: number 42\nmad: rank 3: other: debug: seen\n");
}
END_TEST

/* A line that is too long is truncated, and still ends as a line. */
START_TEST(log_long_line_is_cut)
{
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    err_keep();
    madi_log(MADI_LOG_ERROR, "part", "%s", text);
    ck_assert_uint_lt(strlen(err_text()), 2000);
    ck_assert_ptr_eq(strchr(err_text(), '\n'), err_text() + strlen(err_text()) - 1);
}
END_TEST

/* Control characters of terminals are escaped, and letters of all languages are kept. */
START_TEST(log_escapes_control_characters)
{
    static const struct {
        const char *from, *to;
    } cases[] = {{"plain: 50 %, \\x1b", "plain: 50 %, \\x1b"},
                 {"\x1b]0;t\a\r\n\t\x7f", "\\x1b]0;t\\x07\\x0d\\x0a\\x09\\x7f"},
                 {"gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2 \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
                 {"\xc2\x9b"
                  "31m",
                  "\\xc2\\x9b31m"}, /* a control character of two bytes */
                 {"\xe2\x80\xae"
                  "evil",
                  "\\xe2\\x80\\xae"
                  "evil"},                                              /* the right-to-left override */
                 {"\xff\xc3", "\\xff\\xc3"},                            /* an invalid byte, and an incomplete character */
                 {"\xc0\x9b\xe0\x82\x9b", "\\xc0\\x9b\\xe0\\x82\\x9b"}, /* overlong encodings */
                 {"\xed\xa0\x80\xf4\x90\x80\x80", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"}};
    char to[100];
    for (size_t i = 0; i < MADI_COUNT(cases); i++) {
        ck_assert_uint_eq(madi_escape(to, sizeof to, cases[i].from, strlen(cases[i].from)), strlen(cases[i].to));
        ck_assert_str_eq(to, cases[i].to);
    }
    ck_assert_uint_eq(madi_escape(to, sizeof to, "a\0b", 3), 6);
    ck_assert_str_eq(to, "a\\x00b");
    ck_assert_uint_eq(madi_escape(to, 5, "a\x1b", 2), 1); /* an escape sequence is never cut */
    ck_assert_str_eq(to, "a");
    ck_assert_uint_eq(madi_escape(to, 1, "a", 1), 0);
    ck_assert_str_eq(to, "");
    err_keep();
    madi_log(MADI_LOG_ERROR, "tcp", "a network called %s", "x\n\x1b[2J");
    ck_assert_str_eq(err_text(), "mad: tcp: error: a network called x\\x0a\\x1b[2J\n");
}
END_TEST

static madi_static_mutex_t held;
static pthread_barrier_t is_held, may_release;

static void *mutex_hold(void *arg)
{
    madi_static_mutex_lock(&held);
    pthread_barrier_wait(&is_held);
    pthread_barrier_wait(&may_release);
    madi_static_mutex_unlock(&held);
    return arg;
}

/* Fork while another thread holds the mutex: it is free in the child, and still held in the parent. */
START_TEST(mutex_is_free_in_child_of_fork)
{
    pthread_t thread;
    int status;
    pid_t child;
    pthread_barrier_init(&is_held, NULL, 2);
    pthread_barrier_init(&may_release, NULL, 2);
    ck_assert_int_eq(pthread_create(&thread, NULL, mutex_hold, NULL), 0);
    pthread_barrier_wait(&is_held);
    child = fork();
    if (child == 0) {
        alarm(10); /* ends a child that waits for ever */
        madi_static_mutex_lock(&held);
        _exit(pthread_mutex_trylock(&held.mutex) == EBUSY ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(pthread_mutex_trylock(&held.mutex), EBUSY);
    pthread_barrier_wait(&may_release);
    pthread_join(thread, NULL);
    madi_static_mutex_lock(&held);
    madi_static_mutex_unlock(&held);
}
END_TEST

Suite *base_suite(void)
{
    const TTest *tests[] = {
        status_has_text,      status_values_are_distinct,     copy_moves_every_length,  long_copies_equal_memcpy,
        lock_excludes,        mutex_is_free_in_child_of_fork, deadline_never_overflows, log_level_filters_lines,
        log_long_line_is_cut, log_escapes_control_characters,
    };
    return SUITE_OF("base", tests);
}
