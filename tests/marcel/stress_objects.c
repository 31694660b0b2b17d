/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects that the threads use, and the check of their counts at the end. */
#include "stress.h"

#include <string.h>

struct a_mutex mutexes[MUTEXES];
struct an_rwlock rwlocks[RWLOCKS];
struct a_sem sems[SEMS];
struct a_queue queues[QUEUES];
struct a_barrier barriers[BARRIERS];
marcel_once_t once;
_Atomic(int) once_done, once_left;

void objects_init(node_t *me)
{
    memset(mutexes, 0, sizeof mutexes);
    memset(rwlocks, 0, sizeof rwlocks);
    memset(queues, 0, sizeof queues);
    memset(barriers, 0, sizeof barriers);
    for (int i = 0; i < MUTEXES; i++) {
        marcel_mutexattr_t attr;
        marcel_mutexattr_init(&attr);
        mutexes[i].type = i % 3;
        marcel_mutexattr_settype(&attr, mutexes[i].type);
        marcel_mutex_init(&mutexes[i].mutex, &attr);
    }
    for (int i = 0; i < RWLOCKS; i++)
        marcel_rwlock_init(&rwlocks[i].rwlock, NULL);
    for (int i = 0; i < SEMS; i++) {
        sems[i].tokens = 1 + (int)draw(me, 3);
        atomic_store(&sems[i].out, 0);
        marcel_sem_init(&sems[i].sem, 0, (unsigned)sems[i].tokens);
    }
    for (int i = 0; i < QUEUES; i++) {
        marcel_mutex_init(&queues[i].mutex, NULL);
        marcel_cond_init(&queues[i].cond, NULL);
        queues[i].all = 1 + (int)draw(me, ITEMS);
        for (int k = 0; k < queues[i].all; k++)
            queues[i].items[queues[i].n++] = k;
    }
    for (int i = 0; i < BARRIERS; i++) {
        barriers[i].width = 2 + (int)draw(me, 3);
        marcel_barrier_init(&barriers[i].barrier, NULL, (unsigned)barriers[i].width);
    }
    once = (marcel_once_t)MARCEL_ONCE_INIT;
    once_done = once_left = 0;
}

void objects_check(void)
{
    for (int i = 0; i < MUTEXES; i++) {
        if (mutexes[i].count != atomic_load(&mutexes[i].counted))
            fail("mutex %d: counted %ld, not %ld", i, mutexes[i].count, atomic_load(&mutexes[i].counted));
        if (marcel_mutex_destroy(&mutexes[i].mutex))
            fail("mutex %d is locked at the end", i);
    }
    for (int i = 0; i < RWLOCKS; i++) {
        if (rwlocks[i].a != atomic_load(&rwlocks[i].counted))
            fail("rwlock %d: counted %ld, not %ld", i, rwlocks[i].a, atomic_load(&rwlocks[i].counted));
        if (marcel_rwlock_destroy(&rwlocks[i].rwlock))
            fail("rwlock %d is locked at the end", i);
    }
    for (int i = 0; i < SEMS; i++) {
        int value = -1;
        marcel_sem_getvalue(&sems[i].sem, &value);
        if (value != sems[i].tokens)
            fail("semaphore %d: %d tokens at the end, not %d", i, value, sems[i].tokens);
        if (marcel_sem_destroy(&sems[i].sem))
            fail("somebody waits for semaphore %d at the end", i);
    }
    for (int i = 0; i < QUEUES; i++) {
        if (queues[i].n != queues[i].all)
            fail("queue %d: %d items at the end, not %d", i, queues[i].n, queues[i].all);
        if (marcel_cond_destroy(&queues[i].cond) || marcel_mutex_destroy(&queues[i].mutex))
            fail("somebody waits for queue %d at the end", i);
    }
    for (int i = 0; i < BARRIERS; i++) {
        if (atomic_load(&barriers[i].passed) != atomic_load(&barriers[i].serial) * barriers[i].width)
            fail("barrier %d of %d: %ld came through in %ld passes", i, barriers[i].width, atomic_load(&barriers[i].passed),
                 atomic_load(&barriers[i].serial));
        if (marcel_barrier_destroy(&barriers[i].barrier))
            fail("somebody waits at barrier %d at the end", i);
    }
    if (once_done > 1)
        fail("once ran %d times", once_done);
}
