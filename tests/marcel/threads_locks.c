/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutexes and conditions; threads of both kinds. */
#include "threads.h"

/* ---- Mutex ------------------------------------------------------------------------------------------------------ */

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
static long counter, inside;

static void *count_up(void *arg)
{
    long n = (long)(intptr_t)arg;
    for (long i = 0; i < n; i++) {
        CHECK_EQ(marcel_mutex_lock(&mutex), 0);
        CHECK_EQ(inside++, 0);
        long seen = counter;
        if (i % 3 == 0)
            marcel_yield();
        counter = seen + 1;
        inside--;
        CHECK_EQ(marcel_mutex_unlock(&mutex), 0);
        if (i % 5 == 0)
            marcel_yield();
    }
    return NULL;
}

/* User-level threads and plain pthreads together. */
void test_mutex_excludes_all_kinds_of_threads(void)
{
    marcel_t thread[6];
    pthread_t plain[2];
    counter = 0;
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, count_up, (void *)2000), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        CHECK_EQ(pthread_create(&plain[i], NULL, count_up, (void *)2000), 0);
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(counter, 16000);
    CHECK_EQ(marcel_mutex_destroy(&mutex), 0);
}

static void *try_other(void *arg)
{
    marcel_mutex_t *m = arg;
    CHECK_EQ(marcel_mutex_trylock(m), EBUSY);
    CHECK_EQ(marcel_mutex_destroy(m), EBUSY);
    if (m->marcel_type != MARCEL_MUTEX_NORMAL)
        CHECK_EQ(marcel_mutex_unlock(m), EPERM);
    return NULL;
}

static void *mutex_types(void *arg)
{
    marcel_mutex_t recursive = MARCEL_RECURSIVE_MUTEX_INITIALIZER, check = MARCEL_ERRORCHECK_MUTEX_INITIALIZER, normal;
    marcel_mutexattr_t attr;
    int type = -1;
    marcel_mutexattr_init(&attr);
    CHECK_EQ(marcel_mutexattr_settype(&attr, 9), EINVAL);
    CHECK_EQ(marcel_mutexattr_settype(&attr, MARCEL_MUTEX_RECURSIVE), 0);
    CHECK_EQ(marcel_mutexattr_gettype(&attr, &type), 0);
    CHECK_EQ(type, MARCEL_MUTEX_RECURSIVE);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++)
            CHECK_EQ(i & 1 ? marcel_mutex_trylock(&recursive) : marcel_mutex_lock(&recursive), 0);
        in_thread(try_other, &recursive);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(marcel_mutex_unlock(&recursive), 0);
        CHECK_EQ(marcel_mutex_unlock(&recursive), EPERM);
        CHECK_EQ(marcel_mutex_destroy(&recursive), 0);
        CHECK_EQ(marcel_mutex_init(&recursive, &attr), 0);
    }
    CHECK_EQ(marcel_mutex_lock(&check), 0);
    CHECK_EQ(marcel_mutex_lock(&check), EDEADLK);
    CHECK_EQ(marcel_mutex_trylock(&check), EBUSY);
    in_thread(try_other, &check);
    CHECK_EQ(marcel_mutex_unlock(&check), 0);
    CHECK_EQ(marcel_mutex_unlock(&check), EPERM);
    CHECK_EQ(marcel_mutex_init(&normal, NULL), 0);
    CHECK_EQ(marcel_mutex_lock(&normal), 0);
    in_thread(try_other, &normal);
    CHECK_EQ(marcel_mutex_unlock(&normal), 0);
    CHECK_EQ(marcel_mutex_trylock(&normal), 0);
    CHECK_EQ(marcel_mutex_unlock(&normal), 0);
    return arg;
}

void test_mutex_types_behave_as_named(void)
{
    mutex_types(NULL); /* this thread is a plain pthread */
    in_thread(mutex_types, NULL);
}

/* A thread that holds the mutex most of the time does not keep others from it for ever. */
static void *hog(void *arg)
{
    bool *stop = arg;
    while (!*stop) {
        marcel_mutex_lock(&mutex);
        marcel_yield();
        marcel_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *hogged(void *arg)
{
    bool stop = false;
    marcel_t thread;
    CHECK_EQ(marcel_create(&thread, NULL, hog, &stop), 0);
    marcel_yield();
    for (int i = 0; i < 10; i++) {
        marcel_mutex_lock(&mutex);
        marcel_yield();
        marcel_mutex_unlock(&mutex);
    }
    stop = true;
    CHECK_EQ(marcel_join(thread, NULL), 0);
    return arg;
}

void test_mutex_held_mostly_is_shared(void)
{
    in_thread(hogged, NULL);
}

/* ---- Condition --------------------------------------------------------------------------------------------------- */

static marcel_cond_t cond = MARCEL_COND_INITIALIZER, room = MARCEL_COND_INITIALIZER;
static int queue[4], queued, taken_sum;

static void *produce(void *arg)
{
    for (int i = 1; i <= 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 4)
            CHECK_EQ(marcel_cond_wait(&room, &mutex), 0);
        queue[queued++] = i;
        marcel_cond_signal(&cond);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

static void *consume(void *arg)
{
    for (int i = 1; i <= 1000; i++) {
        marcel_mutex_lock(&mutex);
        while (queued == 0)
            CHECK_EQ(marcel_cond_wait(&cond, &mutex), 0);
        taken_sum += queue[--queued];
        marcel_cond_signal(&room);
        marcel_mutex_unlock(&mutex);
    }
    return arg;
}

void test_cond_loses_no_item(void)
{
    marcel_t thread[4];
    pthread_t plain[2];
    marcel_mutex_t check = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
    queued = taken_sum = 0;
    for (int i = 0; i < 4; i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, i & 1 ? produce : consume, NULL), 0);
    CHECK_EQ(pthread_create(&plain[0], NULL, produce, NULL), 0);
    CHECK_EQ(pthread_create(&plain[1], NULL, consume, NULL), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(taken_sum, 3 * 500500);
    CHECK_EQ(queued, 0);
    CHECK_EQ(marcel_cond_wait(&cond, &check), EPERM);
    CHECK_EQ(marcel_cond_destroy(&cond), 0);
    CHECK_EQ(marcel_cond_destroy(&room), 0);
}

static bool flag;
static int through;

static void *wait_gate(void *arg)
{
    marcel_mutex_lock(&mutex);
    while (!flag)
        marcel_cond_wait(&cond, &mutex);
    through++;
    marcel_mutex_unlock(&mutex);
    return arg;
}

void test_broadcast_wakes_all(void)
{
    marcel_t thread[20];
    pthread_t plain[3];
    flag = false;
    through = 0;
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, wait_gate, NULL), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        CHECK_EQ(pthread_create(&plain[i], NULL, wait_gate, NULL), 0);
    marcel_mutex_lock(&mutex);
    flag = true;
    marcel_cond_broadcast(&cond);
    marcel_mutex_unlock(&mutex);
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    for (size_t i = 0; i < COUNT(plain); i++)
        pthread_join(plain[i], NULL);
    CHECK_EQ(through, 23);
}
