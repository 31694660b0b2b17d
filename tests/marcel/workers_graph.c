/* SPDX-License-Identifier: BSD-3-Clause */
/* Trees of threads, and random graphs of threads that make all kinds of calls. */
#include "workers.h"

static marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;

void test_tree_on_all_workers_adds_up(void)
{
    for (int round = 0; round < 20; round++) {
        void *sum = NULL;
        marcel_t root = create(NULL, tree, (void *)12);
        CHECK_EQ(marcel_join(root, &sum), 0);
        CHECK_EQ((intptr_t)sum, 8191);
    }
}

/* A thread of a graph makes some calls, creates other threads in all ways, and joins those that can be joined. */
static _Atomic(int) begun, over, permits;
static marcel_sem_t pool;
static long counted;
static marcel_key_t key;

static void step(unsigned *seed)
{
    struct timespec until;
    switch (next(seed, 7)) {
    case 0: marcel_yield(); break;
    case 1:
        marcel_mutex_lock(&mutex);
        counted++;
        if (next(seed, 4) == 0)
            marcel_yield();
        marcel_mutex_unlock(&mutex);
        atomic_fetch_add(&permits, 1);
        break;
    case 2:
        marcel_sem_wait(&pool);
        marcel_yield();
        marcel_sem_post(&pool);
        break;
    case 3:
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += next(seed, 50000);
        if (until.tv_nsec >= 1000000000)
            until.tv_nsec -= 1000000000, until.tv_sec++;
        if (marcel_sem_clockwait(&pool, CLOCK_MONOTONIC, &until) == 0)
            marcel_sem_post(&pool);
        break;
    case 4: short_sleep(next(seed, 20000)); break;
    case 5: CHECK_EQ(marcel_setspecific(key, seed), 0); break;
    default: marcel_sem_post(&pool); marcel_sem_wait(&pool);
    }
}

static void *node(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg, depth = seed & 15;
    marcel_t child[8];
    int n = 0, worker = marcel_worker_index();
    bool stays = !(seed & 16);
    atomic_fetch_add(&begun, 1);
    for (unsigned steps = next(&seed, 6); steps > 0; steps--)
        step(&seed);
    for (unsigned i = depth ? next(&seed, 7) : 0; i > 0; i--) {
        unsigned way = next(&seed, 6), traits = way == 1 ? 16 : 0;
        void *its = (void *)(uintptr_t)((next(&seed, 1u << 20) << 5) | traits | (depth - 1));
        marcel_attr_t attr;
        marcel_t detached;
        marcel_attr_init(&attr);
        if (way == 1)
            marcel_attr_setmigratable(&attr, 1);
        else if (way == 2)
            marcel_attr_setplacement(&attr, (int)next(&seed, (unsigned)n_workers));
        else if (way == 3)
            marcel_attr_setpriority(&attr, (int)next(&seed, MARCEL_PRIORITY_MAX + 1));
        if (way == 4) {
            marcel_attr_setdetachstate(&attr, MARCEL_CREATE_DETACHED);
            detached = create(&attr, node, its);
        } else if (way == 5) {
            detached = create(NULL, node, its);
            CHECK_EQ(marcel_detach(detached), 0);
        } else {
            child[n++] = create(way ? &attr : NULL, node, its);
        }
    }
    if (next(&seed, 2))
        step(&seed);
    while (n > 0) { /* join the children in any order */
        int i = (int)next(&seed, (unsigned)n);
        join(child[i]);
        child[i] = child[--n];
    }
    if (stays && worker >= 0)
        CHECK_EQ(marcel_worker_index(), worker);
    atomic_fetch_add(&over, 1);
    return NULL;
}

static void *node_plain(void *arg)
{
    return node(arg);
}

void test_random_graphs_of_threads_end(void)
{
    CHECK_EQ(marcel_key_create(&key, NULL), 0);
    for (int round = 0; round < 3 * rounds; round++) {
        marcel_t root[8];
        pthread_t plain[2];
        atomic_store(&begun, 0);
        atomic_store(&over, 0);
        atomic_store(&permits, 0);
        counted = 0;
        marcel_sem_init(&pool, 0, 3);
        for (unsigned i = 0; i < 2; i++)
            CHECK_EQ(
                pthread_create(&plain[i], NULL, node_plain, (void *)(uintptr_t)(((unsigned)round * 64 + i + 50) << 5 | 3)),
                0);
        for (unsigned i = 0; i < 8; i++)
            root[i] = create(NULL, node, (void *)(uintptr_t)(((unsigned)round * 64 + i) << 5 | 5));
        for (int i = 0; i < 8; i++)
            join(root[i]);
        for (int i = 0; i < 2; i++)
            pthread_join(plain[i], NULL);
        start(n_workers); /* a new start waits for the detached threads */
        CHECK_EQ(atomic_load(&begun), atomic_load(&over));
        CHECK_EQ(counted, atomic_load(&permits));
        int value = -1;
        marcel_sem_getvalue(&pool, &value);
        CHECK_EQ(value, 3);
    }
    CHECK_EQ(marcel_key_delete(key), 0);
}
