/* SPDX-License-Identifier: BSD-3-Clause */
/* What marcel.h promises, on one worker and from plain pthreads: threads [TEST...]. */
#include "support.h"

#include <fenv.h>
#include <sched.h>
#include <sys/wait.h>

/* ---- Create, join, detach, exit -------------------------------------------------------------------------------- */

static void *give_back(void *arg)
{
    return arg;
}

static void *exit_with(void *arg)
{
    marcel_exit(arg);
}

static void *wait_and_give_back(void *arg)
{
    marcel_yield();
    marcel_yield();
    return arg;
}

static void *join_all_ways(void *arg)
{
    static void *(*const ways[])(void *) = {give_back, exit_with, wait_and_give_back};
    (void)arg;
    for (size_t w = 0; w < COUNT(ways); w++) {
        for (int yields = 0; yields < 4; yields++) {
            void *result = NULL;
            marcel_t thread;
            CHECK_EQ(marcel_create(&thread, NULL, ways[w], &thread), 0);
            for (int i = 0; i < yields; i++) /* joined as a seed, started, ended */
                marcel_yield();
            CHECK_EQ(marcel_join(thread, &result), 0);
            CHECK(result == &thread);
        }
    }
    CHECK_EQ(marcel_join(marcel_self(), NULL), EDEADLK);
    return NULL;
}

static void test_join(void)
{
    void *result = NULL;
    marcel_t thread;
    CHECK_EQ(marcel_create(&thread, NULL, exit_with, &thread), 0);
    CHECK_EQ(marcel_join(thread, &result), 0);
    CHECK(result == &thread);
    in_thread(join_all_ways, NULL);
    CHECK_EQ(marcel_join(marcel_self(), NULL), EDEADLK);
}

static void *tree(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    marcel_t child[3];
    intptr_t sum = 1;
    if (!depth)
        return (void *)1;
    for (int i = 0; i < 3; i++)
        if (marcel_create(&child[i], NULL, tree, (void *)(depth - 1)))
            return NULL;
    for (int i = 0; i < 3; i++) { /* the oldest first: out of the middle of the seeds */
        void *part = NULL;
        if (depth & 1)
            marcel_yield();
        marcel_join(child[i], &part);
        sum += (intptr_t)part;
    }
    return (void *)sum;
}

static void test_tree(void)
{
    void *sum = NULL;
    marcel_t root;
    CHECK_EQ(marcel_create(&root, NULL, tree, (void *)8), 0);
    CHECK_EQ(marcel_join(root, &sum), 0);
    CHECK_EQ((intptr_t)sum, 9841); /* (3^9 - 1) / 2 */
}

static marcel_sem_t done;

static void *post_done(void *arg)
{
    if (arg)
        marcel_yield();
    marcel_sem_post(&done);
    return NULL;
}

static void test_detach(void)
{
    marcel_attr_t attr;
    marcel_t thread;
    marcel_sem_init(&done, 0, 0);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setdetachstate(&attr, 7), EINVAL);
    CHECK_EQ(marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(marcel_create(&thread, &attr, post_done, i & 1 ? &done : NULL), 0);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(marcel_create(&thread, NULL, post_done, i & 1 ? &done : NULL), 0);
        CHECK_EQ(marcel_detach(thread), 0);
    }
    for (int i = 0; i < 2000; i++)
        CHECK_EQ(marcel_sem_wait(&done), 0);
    marcel_attr_destroy(&attr);
}

/* ---- Order ----------------------------------------------------------------------------------------------------- */

static char order[256];
static int ordered;

static void *write_order(void *arg)
{
    const char *letter = arg;
    for (int i = 0; i < 3; i++) {
        order[ordered++] = *letter;
        marcel_yield();
    }
    return NULL;
}

static void *by_priority(void *arg)
{
    marcel_attr_t attr;
    marcel_t thread[3];
    static const int priority[3] = {MARCEL_PRIORITY_DEFAULT - 1, MARCEL_PRIORITY_DEFAULT + 1, MARCEL_PRIORITY_DEFAULT + 1};
    marcel_attr_init(&attr);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(marcel_attr_setpriority(&attr, priority[i]), 0);
        CHECK_EQ(marcel_create(&thread[i], &attr, write_order, (char *)arg + i), 0);
    }
    for (int i = 0; i < 3; i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    return NULL;
}

static void test_priority(void)
{
    marcel_attr_t attr;
    int value = 0;
    char letters[] = "abc";
    ordered = 0;
    in_thread(by_priority, letters);
    order[ordered] = 0;
    CHECK_MSG(!strcmp(order, "bcbcbcaaa"), "order %s", order);
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setpriority(&attr, MARCEL_PRIORITY_MAX + 1), EINVAL);
    CHECK_EQ(marcel_attr_setpriority(&attr, MARCEL_PRIORITY_MIN - 1), EINVAL);
    CHECK_EQ(marcel_attr_getpriority(&attr, &value), 0);
    CHECK_EQ(value, MARCEL_PRIORITY_DEFAULT);
}

static bool flag;

static void *set_flag(void *arg)
{
    flag = true;
    return arg;
}

/* A seed runs although others yield without end. */
static void *spin_for_flag(void *arg)
{
    (void)arg;
    while (!flag)
        marcel_yield();
    return NULL;
}

static void *spin_with_others(void *arg)
{
    marcel_t spinner[3], seed;
    flag = false;
    for (int i = 0; i < 3; i++)
        marcel_create(&spinner[i], NULL, spin_for_flag, NULL);
    for (int i = 0; i < 20; i++)
        marcel_yield(); /* they run */
    marcel_create(&seed, NULL, set_flag, NULL);
    for (int i = 0; i < 3; i++)
        marcel_join(spinner[i], NULL);
    CHECK_EQ(marcel_join(seed, NULL), 0);
    flag = false;
    marcel_create(&seed, NULL, set_flag, NULL);
    spin_for_flag(arg);
    CHECK_EQ(marcel_join(seed, NULL), 0);
    return NULL;
}

static void test_fair(void)
{
    in_thread(spin_with_others, NULL);
}

static marcel_t friend[2];

static void *to_friend(void *arg)
{
    marcel_t me = marcel_self();
    (void)arg;
    CHECK_EQ(marcel_create(&friend[0], NULL, write_order, "x"), 0);
    CHECK_EQ(marcel_create(&friend[1], NULL, write_order, "y"), 0);
    marcel_yield_to(friend[0]); /* a seed that is not the youngest */
    CHECK_EQ(order[0], 'x');
    marcel_yield_to(friend[1]);
    marcel_yield_to(friend[1]); /* ready, and not the first */
    order[ordered++] = 'm';
    marcel_yield_to(me); /* nonsense: a yield */
    CHECK_EQ(marcel_join(friend[1], NULL), 0);
    CHECK_EQ(marcel_join(friend[0], NULL), 0);
    return NULL;
}

static void test_yield_to(void)
{
    ordered = 0;
    in_thread(to_friend, NULL);
    CHECK_EQ(ordered, 7);
}

/* ---- Attributes and names --------------------------------------------------------------------------------------- */

static void *use_stack(void *arg)
{
    size_t size = *(size_t *)arg;
    volatile char room[size - size / 8];
    for (size_t i = 0; i < sizeof room; i += 512)
        room[i] = (char)i;
    marcel_yield();
    return (void *)(intptr_t)(room[512] == 0);
}

static void test_stack_size(void)
{
    static size_t sizes[] = {20000, 60000, 300000, 5 << 20, 40 << 20};
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setstacksize(&attr, 0), EINVAL);
    CHECK_EQ(marcel_attr_setstacksize(&attr, (size_t)1 << 40), EINVAL);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            marcel_t thread[3];
            void *result = NULL;
            size_t got = 0;
            CHECK_EQ(marcel_attr_setstacksize(&attr, sizes[i]), 0);
            CHECK_EQ(marcel_attr_getstacksize(&attr, &got), 0);
            CHECK_EQ(got, sizes[i]);
            for (int t = 0; t < 3; t++)
                CHECK_EQ(marcel_create(&thread[t], &attr, use_stack, &sizes[i]), 0);
            for (int t = 0; t < 3; t++) {
                CHECK_EQ(marcel_join(thread[t], &result), 0);
                CHECK_EQ((intptr_t)result, 1);
            }
        }
}

static void *name_self(void *arg)
{
    char name[MARCEL_NAME_MAX];
    CHECK_EQ(marcel_getname(marcel_self(), name), 0);
    CHECK_MSG(!strcmp(name, arg ? arg : ""), "name '%s'", name);
    CHECK_EQ(marcel_setname(marcel_self(), "a name that is far too long for this purpose"), 0);
    CHECK_EQ(marcel_getname(marcel_self(), name), 0);
    CHECK_EQ(strlen(name), MARCEL_NAME_MAX - 1);
    return NULL;
}

static void test_names(void)
{
    char name[MARCEL_NAME_MAX];
    marcel_attr_t attr;
    marcel_t thread;
    int worker = 0;
    marcel_attr_init(&attr);
    marcel_attr_setname(&attr, "walter");
    marcel_attr_getname(&attr, name);
    CHECK(!strcmp(name, "walter"));
    CHECK_EQ(marcel_create(&thread, &attr, name_self, "walter"), 0);
    CHECK_EQ(marcel_join(thread, NULL), 0);
    in_thread(name_self, NULL);
    CHECK_EQ(marcel_attr_setplacement(&attr, -2), EINVAL);
    CHECK_EQ(marcel_attr_setplacement(&attr, 1000), 0);
    CHECK_EQ(marcel_create(&thread, &attr, name_self, NULL), EINVAL);
    CHECK_EQ(marcel_attr_setplacement(&attr, 0), 0);
    CHECK_EQ(marcel_attr_getplacement(&attr, &worker), 0);
    CHECK_EQ(worker, 0);
    CHECK_EQ(marcel_create(&thread, &attr, name_self, "walter"), 0);
    CHECK_EQ(marcel_join(thread, NULL), 0);
}

static void *other_rounding(void *arg)
{
    CHECK_EQ(fegetround(), FE_TONEAREST);
    fesetround(FE_UPWARD);
    marcel_yield();
    CHECK_EQ(fegetround(), FE_UPWARD);
    return arg;
}

static void *watch_rounding(void *arg)
{
    marcel_attr_t attr;
    marcel_t thread;
    marcel_attr_init(&attr);
    marcel_attr_setkeepfp(&attr, 1);
    CHECK_EQ(marcel_create(&thread, &attr, other_rounding, &attr), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(fegetround(), FE_TONEAREST);
        marcel_yield();
    }
    CHECK_EQ(marcel_join(thread, NULL), 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    return arg;
}

static void test_keepfp(void)
{
    in_thread(watch_rounding, NULL);
}

/* ---- Who am I --------------------------------------------------------------------------------------------------- */

static void *identity(void *arg)
{
    marcel_t me = marcel_self();
    CHECK(me != NULL && me != *(marcel_t *)arg);
    CHECK(marcel_is_thread());
    CHECK(marcel_worker() >= 0 && marcel_worker() < marcel_workers());
    CHECK_EQ(marcel_fini(), EPERM);
    marcel_yield();
    CHECK(marcel_equal(me, marcel_self()));
    return NULL;
}

static void test_self(void)
{
    marcel_t me = marcel_self();
    CHECK(me != NULL);
    CHECK(marcel_equal(me, marcel_self()));
    CHECK(!marcel_is_thread());
    CHECK_EQ(marcel_worker(), -1);
    in_thread(identity, &me);
}

/* ---- Keys and once ---------------------------------------------------------------------------------------------- */

static marcel_key_t key[3];
static int destroyed;

static void destroy(void *value)
{
    destroyed++;
    if (destroyed == 1)
        marcel_setspecific(key[0], value); /* once more */
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

static void test_keys(void)
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
    /* A key that is used again does not have the values of before. */
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

static void test_once(void)
{
    marcel_t thread[8];
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_create(&thread[i], NULL, call_once, NULL), 0);
    call_once(NULL);
    for (size_t i = 0; i < COUNT(thread); i++)
        CHECK_EQ(marcel_join(thread[i], NULL), 0);
    CHECK_EQ(times, 1);
}

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
static void test_mutex(void)
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

static void test_mutex_types(void)
{
    mutex_types(NULL); /* a plain pthread */
    in_thread(mutex_types, NULL);
}

/* One that holds the mutex most of the time does not keep it from others for ever. */
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

static void test_mutex_fair(void)
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

static void test_cond(void)
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

static void test_broadcast(void)
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

/* ---- Semaphore and time ------------------------------------------------------------------------------------------ */

static marcel_sem_t ping, pong;

static void *answer(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        marcel_sem_wait(&ping);
        marcel_sem_post(&pong);
    }
    return arg;
}

static void test_sem(void)
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
    for (int i = 0; i < 5000; i++) { /* a plain pthread and a user-level thread */
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

static void test_deadline(void)
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

static void test_deadline_race(void)
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

static void test_sleep(void)
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

/* ---- Many, and the end ------------------------------------------------------------------------------------------- */

static marcel_sem_t gate, arrived;

static void *stand(void *arg)
{
    marcel_sem_post(&arrived);
    marcel_sem_wait(&gate);
    return arg;
}

static void test_many(void)
{
    enum { N = 20000 };
    marcel_t *thread = calloc(N, sizeof *thread);
    int n = 0;
    marcel_sem_init(&gate, 0, 0);
    marcel_sem_init(&arrived, 0, 0);
    while (thread && n < N && CHECK_EQ(marcel_create(&thread[n], NULL, stand, &thread[n]), 0))
        n++;
    for (int i = 0; i < n; i++)
        marcel_sem_wait(&arrived);
    CHECK_EQ(marcel_fini(), EBUSY);
    for (int i = 0; i < n; i++)
        marcel_sem_post(&gate);
    for (int i = 0; i < n; i++) {
        void *result = NULL;
        CHECK_EQ(marcel_join(thread[i], &result), 0);
        CHECK(result == &thread[i]);
    }
    free(thread);
}

static void test_restart(void)
{
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(marcel_init(), 0);
        CHECK_EQ(marcel_init(), 0);
        CHECK(marcel_workers() >= 1);
        in_thread(join_all_ways, NULL);
        CHECK_EQ(fini_soon(), 0);
        CHECK_EQ(marcel_workers(), 0);
        CHECK_EQ(marcel_fini(), 0);
    }
}

/* ---- Overflow of a stack ------------------------------------------------------------------------------------------ */

static int deeper(int n)
{
    volatile char frame[512];
    frame[0] = (char)n;
    if (n % 8 == 0)
        marcel_yield();
    if (n > 1 << 20)
        return 0;
    return deeper(n + 1) + frame[0];
}

static void *overflow(void *arg)
{
    deeper(1);
    return arg;
}

static void *beside(void *arg)
{
    while (arg)
        marcel_yield();
    return NULL;
}

/* In a child: what it says, and how it ends. */
static void overflow_in_child(const char *guards)
{
    int fd[2], status;
    char text[4096];
    size_t n = 0;
    ssize_t got_bytes;
    CHECK_EQ(fini_soon(), 0);
    CHECK_EQ(pipe(fd), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        marcel_attr_t attr;
        marcel_t other, thread;
        dup2(fd[1], 2);
        alarm(20);
        if (guards)
            setenv("MAD_STACK_GUARDS", guards, 1);
        marcel_attr_init(&attr);
        marcel_attr_setname(&attr, "too deep");
        marcel_create(&other, NULL, beside, &other);
        marcel_create(&thread, &attr, overflow, NULL);
        marcel_join(thread, NULL);
        _exit(0);
    }
    close(fd[1]);
    while (n < sizeof text - 1 && (got_bytes = read(fd[0], text + n, sizeof text - 1 - n)) > 0)
        n += (size_t)got_bytes;
    text[n] = 0;
    close(fd[0]);
    waitpid(pid, &status, 0);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %#x", (unsigned)status);
    CHECK_MSG(strstr(text, "the stack of thread 'too deep'"), "it said: %s", text);
}

static void test_overflow(void)
{
    overflow_in_child(NULL);
    overflow_in_child("0"); /* canaries, on kernels without guards that cost no mapping */
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const test_case_t cases[] = {
    {"self", test_self}, {"join", test_join}, {"tree", test_tree}, {"detach", test_detach},
    {"priority", test_priority}, {"fair", test_fair}, {"yield_to", test_yield_to}, {"stack_size", test_stack_size},
    {"names", test_names}, {"keepfp", test_keepfp}, {"keys", test_keys}, {"once", test_once}, {"mutex", test_mutex},
    {"mutex_types", test_mutex_types}, {"mutex_fair", test_mutex_fair}, {"cond", test_cond},
    {"broadcast", test_broadcast}, {"sem", test_sem}, {"deadline", test_deadline},
    {"deadline_race", test_deadline_race}, {"sleep", test_sleep}, {"many", test_many}, {"overflow", test_overflow},
    {"restart", test_restart}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    setenv("MAD_WORKERS", "1", 1);
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_soon);
}
