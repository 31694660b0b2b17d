/* SPDX-License-Identifier: BSD-3-Clause */
#include "workers.h"

int n_workers;
_Atomic(int) reached;
marcel_sem_t gate, arrived;

marcel_t create(const marcel_attr_t *attr, void *(*run)(void *), void *arg)
{
    marcel_t thread = NULL;
    CHECK_EQ(marcel_create(&thread, attr, run, arg), 0);
    return thread;
}

marcel_t create_at(int worker, void *(*run)(void *), void *arg)
{
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setplacement(&attr, worker), 0);
    return create(&attr, run, arg);
}

marcel_t create_moving(void *(*run)(void *), void *arg)
{
    marcel_attr_t attr;
    marcel_attr_init(&attr);
    CHECK_EQ(marcel_attr_setmigratable(&attr, 1), 0);
    return create(&attr, run, arg);
}

void join(marcel_t thread)
{
    CHECK_EQ(marcel_join(thread, NULL), 0);
}

void start(int workers)
{
    char text[16];
    CHECK_EQ(fini_soon(), 0);
    snprintf(text, sizeof text, "%d", workers);
    setenv("MAD_WORKERS", text, 1);
    CHECK_EQ(marcel_init(), 0);
    CHECK_EQ(marcel_worker_count(), workers);
}

unsigned next(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 8) % below;
}

void short_sleep(long ns)
{
    struct timespec time = {0, ns};
    marcel_nanosleep(&time, NULL);
}

void compute_until(int n)
{
    while (atomic_load(&reached) < n)
        ;
}

void *compute(void *arg)
{
    compute_until((int)(intptr_t)arg);
    return NULL;
}

void *wait_and_reach(void *arg)
{
    marcel_sem_post(&arrived);
    marcel_sem_wait(&gate);
    atomic_fetch_add(&reached, 1);
    marcel_yield();
    atomic_fetch_add(&reached, 1);
    return arg;
}

void *tree(void *arg)
{
    intptr_t depth = (intptr_t)arg, sum = 1;
    marcel_t child[2];
    void *part;
    if (!depth)
        return (void *)1;
    for (int i = 0; i < 2; i++)
        child[i] = create(NULL, tree, (void *)(depth - 1));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(marcel_join(child[(i + depth) % 2], &part), 0);
        sum += (intptr_t)part;
    }
    return (void *)sum;
}

atomic_bool released;
static _Atomic(int) occupied;

static void *occupy(void *arg)
{
    atomic_fetch_add(&occupied, 1);
    while (!atomic_load(&released))
        ;
    return arg;
}

void alone(void *(*run)(void *), void *arg)
{
    marcel_t other[64];
    atomic_store(&occupied, 0);
    atomic_store(&released, false);
    atomic_store(&reached, 0);
    for (int i = 1; i < n_workers; i++)
        other[i] = create_at(i, occupy, NULL);
    while (atomic_load(&occupied) < n_workers - 1)
        short_sleep(10000);
    join(create_at(0, run, arg));
    for (int i = 1; i < n_workers; i++)
        join(other[i]);
}
