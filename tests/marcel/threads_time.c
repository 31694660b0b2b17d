/* SPDX-License-Identifier: BSD-3-Clause */
/* Semaphores, deadlines, sleep. */
#include "threads.h"

#include <sched.h>

static marcel_sem_t ping, pong;

static void *answer(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        marcel_sem_wait(&ping);
        marcel_sem_post(&pong);
    }
    return arg;
}

void test_sem_counts_posts(void)
{
    marcel_t thread;
    int value = -1;
    CHECK_EQ(marcel_sem_init(&ping, 0, MARCEL_SEM_VALUE_MAX + 1u), EINVAL);
    CHECK_EQ(marcel_sem_init(&ping, 0, MARCEL_SEM_VALUE_MAX), 0);
    CHECK_EQ(marcel_sem_post(&ping), EOVERFLOW);
    CHECK_EQ(marcel_sem_init(&ping, 0, 2), 0);
    CHECK_EQ(marcel_sem_trywait(&ping), 0);
    CHECK_EQ(marcel_sem_getvalue(&ping, &value), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(marcel_sem_wait(&ping), 0);
    CHECK_EQ(marcel_sem_trywait(&ping), EAGAIN);
    CHECK_EQ(marcel_sem_init(&pong, 0, 0), 0);
    CHECK_EQ(marcel_create(&thread, NULL, answer, NULL), 0);
    for (int i = 0; i < 5000; i++) { /* the plain pthread posts, and the user-level thread answers */
        marcel_sem_post(&ping);
        marcel_sem_wait(&pong);
    }
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(marcel_sem_destroy(&ping), 0);
    CHECK_EQ(marcel_sem_destroy(&pong), 0);
}

static void *late(void *arg)
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};
    marcel_sem_t sem;
    struct timespec bad = {0, 1000000000}, long_ago = {1, 0};
    marcel_sem_init(&sem, 0, 0);
    CHECK_EQ(marcel_sem_clockwait(&sem, CLOCK_MONOTONIC, &bad), EINVAL);
    CHECK_EQ(marcel_sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &long_ago), EINVAL);
    for (size_t c = 0; c < COUNT(clocks); c++) {
        struct timespec until = after_ms(clocks[c], 20), now;
        CHECK_EQ(marcel_sem_clockwait(&sem, clocks[c], &long_ago), ETIMEDOUT);
        CHECK_EQ(marcel_sem_clockwait(&sem, clocks[c], &until), ETIMEDOUT);
        clock_gettime(clocks[c], &now);
        CHECK_MSG(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec - MS),
                  "too early by clock %zu", c);
        until = after_ms(clocks[c], 20000);
        marcel_sem_post(&sem);
        CHECK_EQ(marcel_sem_clockwait(&sem, clocks[c], &until), 0);
    }
    CHECK_EQ(marcel_sem_destroy(&sem), 0);
    return arg;
}

void test_wait_ends_at_its_deadline(void)
{
    late(NULL);
    in_thread(late, NULL);
}

/* Posts and deadlines at the same time: each post is taken once, or is still there at the end. */
static marcel_sem_t race;
static _Atomic(int) got, missed;

static void *race_wait(void *arg)
{
    unsigned step = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 300; i++) {
        struct timespec until = after_ms(CLOCK_MONOTONIC, 0);
        step = step * 1103515245 + 12345;
        until.tv_nsec += step % 100000;
        if (until.tv_nsec >= 1000000000)
            until.tv_nsec -= 1000000000, until.tv_sec++;
        if (marcel_sem_clockwait(&race, CLOCK_MONOTONIC, &until) == 0)
            got++;
        else
            missed++;
    }
    return NULL;
}

void test_post_at_the_deadline_counts_once(void)
{
    marcel_t thread[10];
    pthread_t plain[2];
    int value = -1, posts = 2000;
    marcel_sem_init(&race, 0, 0);
    got = missed = 0;
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, race_wait, (void *)(i + 1)), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        CHECK_EQ(pthread_create(&plain[i], NULL, race_wait, (void *)(i + 100)), 0);
    for (int i = 0; i < posts; i++) {
        marcel_sem_post(&race);
        if (i % 4 == 0)
            sched_yield();
    }
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(got + missed, 3600);
    CHECK_EQ(marcel_sem_getvalue(&race, &value), 0);
    CHECK_EQ(got + value, posts);
    CHECK_EQ(marcel_sem_destroy(&race), 0);
}

static int awake[8], n_awake;

static void *sleep_a_while(void *arg)
{
    int n = (int)(intptr_t)arg;
    struct timespec time = {0, n * 30L * MS}, left = {9, 9}, bad = {-1, 0};
    CHECK_EQ(marcel_nanosleep(&bad, NULL), EINVAL);
    CHECK_EQ(marcel_nanosleep(&time, &left), 0);
    CHECK_EQ(left.tv_sec + left.tv_nsec, 0);
    awake[n_awake++] = n;
    return NULL;
}

void test_sleepers_wake_in_order(void)
{
    static const int times_30ms[] = {4, 1, 3, 0, 2};
    marcel_t thread[COUNT(times_30ms)];
    n_awake = 0;
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, sleep_a_while, (void *)(intptr_t)times_30ms[i]), 0);
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    for (int i = 0; i < n_awake; i++)
        CHECK_EQ(awake[i], i);
    CHECK_EQ(n_awake, COUNT(thread));
}
