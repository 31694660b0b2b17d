/* SPDX-License-Identifier: BSD-3-Clause */
/* Thread-specific data, and marcel_once. */
#include "threads.h"

static marcel_key_t key[3];
static int destroyed;

static void destroy(void *value)
{
    destroyed++;
    if (destroyed == 1)
        marcel_setspecific(key[0], value); /* sets the value again, so that the destructor runs once more */
}

static void *use_keys(void *arg)
{
    CHECK(marcel_getspecific(key[0]) == NULL);
    CHECK_EQ(marcel_setspecific(key[0], arg), 0);
    CHECK_EQ(marcel_setspecific(key[1], key), 0);
    if (marcel_is_thread())
        marcel_yield();
    CHECK(marcel_getspecific(key[0]) == arg);
    CHECK(marcel_getspecific(key[1]) == key);
    CHECK(marcel_getspecific(key[2]) == NULL);
    return NULL;
}

void test_key_values_are_destroyed_at_the_end(void)
{
    pthread_t plain;
    marcel_key_t all[MARCEL_KEYS_MAX + 1];
    int n = 0;
    CHECK_EQ(marcel_key_create(&key[0], destroy), 0);
    CHECK_EQ(marcel_key_create(&key[1], NULL), 0);
    CHECK_EQ(marcel_key_create(&key[2], destroy), 0);
    destroyed = 0;
    in_thread(use_keys, &n);
    CHECK_EQ(destroyed, 2);
    CHECK_EQ(pthread_create(&plain, NULL, use_keys, &n), 0);
    pthread_join(plain, NULL);
    CHECK_EQ(destroyed, 3);
    /* A key that is created again does not have the old values. */
    CHECK_EQ(marcel_setspecific(key[1], &n), 0);
    CHECK_EQ(marcel_key_delete(key[1]), 0);
    CHECK_EQ(marcel_key_delete(key[1]), EINVAL);
    CHECK_EQ(marcel_setspecific(key[1], &n), EINVAL);
    CHECK_EQ(marcel_key_create(&key[1], NULL), 0);
    CHECK(marcel_getspecific(key[1]) == NULL);
    while (marcel_key_create(&all[n], NULL) == 0)
        if (++n > MARCEL_KEYS_MAX)
            break;
    CHECK_EQ(n, MARCEL_KEYS_MAX - 3);
    while (n > 0)
        CHECK_EQ(marcel_key_delete(all[--n]), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(marcel_key_delete(key[i]), 0);
}

static marcel_once_t only = MARCEL_ONCE_INIT;
static int times, finished;

static void run_once(void)
{
    times++;
    for (int i = 0; i < 10; i++)
        marcel_yield();
    finished = 1;
}

static void *call_once(void *arg)
{
    CHECK_EQ(marcel_once(&only, run_once), 0);
    CHECK_EQ(finished, 1);
    return arg;
}

void test_once_runs_once(void)
{
    marcel_t thread[8];
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, call_once, NULL), 0);
    call_once(NULL);
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    CHECK_EQ(times, 1);
}
