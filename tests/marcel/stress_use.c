/* SPDX-License-Identifier: BSD-3-Clause */
/* Uses of the objects by threads, in all forms. */
#include "stress.h"

#include <string.h>

_Atomic(long) lose;

/* ---- Forms of a wait -------------------------------------------------------------------------------------------- */

struct timespec deadline(node_t *me, form_t form)
{
    struct timespec t;
    static const long spans[] = {-1000000, 0, 2000, 20000, 100000, 500000, 2000000, 20000000};
    long ns = spans[draw(me, sizeof spans / sizeof *spans)];
    clock_gettime(form == TIMED ? CLOCK_REALTIME : CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec + (ns > 0 ? (long)draw(me, (unsigned)ns) : 0);
    t.tv_sec += ns / 1000000000 - (ns < 0);
    t.tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
    return t;
}

bool had(const char *what, int rc, form_t form)
{
    if (rc && !(form == TRY && (rc == EBUSY || rc == EAGAIN)) && !(form > TRY && rc == ETIMEDOUT))
        fail("%s gave %s in form %d", what, strerror(rc), form);
    return rc == 0;
}

static void stay(node_t *me)
{
    for (unsigned n = draw(me, 4); n > 1; n--)
        marcel_yield();
}

void nap(node_t *me)
{
    struct timespec t = {0, (long)draw(me, 100000)};
    begin_wait(me, "sleeps", 0);
    marcel_nanosleep(&t, NULL);
    end_wait(me);
}

/* ---- Actions ---------------------------------------------------------------------------------------------------- */

static void mutex_give(void *arg)
{
    int i = (int)(intptr_t)arg;
    if (--mutexes[i].inside)
        fail("mutex %d: somebody else is inside", i);
    if (marcel_mutex_unlock(&mutexes[i].mutex))
        fail("mutex %d cannot be unlocked", i);
}

void use_mutex(node_t *me, int i, bool nested)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_mutex_t *m = &mutexes[i].mutex;
    begin_wait(me, "mutex", i);
    int rc = form == FOREVER ? marcel_mutex_lock(m)
             : form == TRY   ? marcel_mutex_trylock(m)
             : form == TIMED ? marcel_mutex_timedlock(m, &t)
                             : marcel_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
    end_wait(me);
    if (!had("a mutex", rc, form))
        return;
    if (mutexes[i].inside++)
        fail("mutex %d: two inside", i);
    marcel_cleanup_push(mutex_give, (void *)(intptr_t)i);
    mutexes[i].count++;
    atomic_fetch_add(&mutexes[i].counted, 1);
    if (mutexes[i].type == MARCEL_MUTEX_RECURSIVE && (marcel_mutex_lock(m) || marcel_mutex_unlock(m)))
        fail("mutex %d: not recursive", i);
    if (mutexes[i].type == MARCEL_MUTEX_ERRORCHECK && marcel_mutex_timedlock(m, &t) != EDEADLK)
        fail("mutex %d: unchecked", i);
    stay(me);
    if (!nested && i + 1 < MUTEXES && draw(me, 3) == 0) /* only in ascending order, so that there is no cycle */
        use_mutex(me, i + 1 + (int)draw(me, (unsigned)(MUTEXES - i - 1)), true);
    else if (draw(me, 10) == 0)
        nap(me); /* the thread may be cancelled here */
    marcel_cleanup_pop(1);
}

void use_rwlock(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_rwlock_t *l = &rwlocks[i].rwlock;
    bool write = draw(me, 3) == 0;
    int rc;
    begin_wait(me, write ? "rwlock, to write," : "rwlock, to read,", i);
    if (write)
        rc = form == FOREVER ? marcel_rwlock_wrlock(l)
             : form == TRY   ? marcel_rwlock_trywrlock(l)
             : form == TIMED ? marcel_rwlock_timedwrlock(l, &t)
                             : marcel_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t);
    else
        rc = form == FOREVER ? marcel_rwlock_rdlock(l)
             : form == TRY   ? marcel_rwlock_tryrdlock(l)
             : form == TIMED ? marcel_rwlock_timedrdlock(l, &t)
                             : marcel_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t);
    end_wait(me);
    if (!had("a rwlock", rc, form))
        return;
    if (rwlocks[i].a != rwlocks[i].b)
        fail("rwlock %d: %s meets a writer", i, write ? "a writer" : "a reader");
    if (write) {
        rwlocks[i].a++;
        stay(me);
        rwlocks[i].b++;
        atomic_fetch_add(&rwlocks[i].counted, 1);
    } else {
        long before = rwlocks[i].a;
        stay(me);
        if (draw(me, 4) == 0) {
            begin_wait(me, "rwlock, to read again,", i);
            if (marcel_rwlock_rdlock(l) || marcel_rwlock_unlock(l))
                fail("rwlock %d: cannot be read twice", i);
            end_wait(me);
        }
        if (rwlocks[i].a != before || rwlocks[i].b != before)
            fail("rwlock %d: written under a reader", i);
    }
    if (marcel_rwlock_unlock(l))
        fail("rwlock %d cannot be unlocked", i);
}

static void sem_give(void *arg)
{
    int i = (int)(intptr_t)arg;
    atomic_fetch_sub(&sems[i].out, 1);
    if (atomic_load(&lose) > 0 && atomic_fetch_sub(&lose, 1) == 1)
        return;
    if (marcel_sem_post(&sems[i].sem))
        fail("semaphore %d cannot be posted", i);
}

void use_sem(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    marcel_sem_t *s = &sems[i].sem;
    begin_wait(me, "semaphore", i);
    int rc = form == FOREVER ? marcel_sem_wait(s)
             : form == TRY   ? marcel_sem_trywait(s)
             : form == TIMED ? marcel_sem_timedwait(s, &t)
                             : marcel_sem_clockwait(s, CLOCK_MONOTONIC, &t);
    end_wait(me);
    if (!had("a semaphore", rc, form))
        return;
    marcel_cleanup_push(sem_give, (void *)(intptr_t)i);
    if (atomic_fetch_add(&sems[i].out, 1) >= sems[i].tokens)
        fail("semaphore %d: more than %d tokens are out", i, sems[i].tokens);
    stay(me);
    if (draw(me, 3) == 0)
        use_mutex(me, (int)draw(me, MUTEXES), true);
    else if (draw(me, 8) == 0)
        nap(me);
    marcel_cleanup_pop(1);
}

static void queue_unlock(void *arg)
{
    if (marcel_mutex_unlock(&queues[(intptr_t)arg].mutex))
        fail("queue %d cannot be unlocked", (int)(intptr_t)arg);
}

typedef struct taken {
    int queue, item;
    bool many;
} taken_t;

static void item_give(void *arg)
{
    taken_t *taken = arg;
    int i = taken->queue;
    marcel_mutex_lock(&queues[i].mutex);
    if (!queues[i].held[taken->item])
        fail("queue %d: item %d was not out", i, taken->item);
    queues[i].held[taken->item] = false;
    queues[i].items[queues[i].n++] = taken->item;
    if (taken->many)
        marcel_cond_broadcast(&queues[i].cond);
    else
        marcel_cond_signal(&queues[i].cond);
    marcel_mutex_unlock(&queues[i].mutex);
}

void use_queue(node_t *me, int i)
{
    form_t form = draw(me, FORMS);
    struct timespec t = deadline(me, form);
    taken_t taken = {i, -1, draw(me, 4) == 0};
    int rc = 0;
    begin_wait(me, "mutex of queue", i);
    marcel_mutex_lock(&queues[i].mutex);
    begin_wait(me, "queue", i);
    marcel_cleanup_push(queue_unlock, (void *)(intptr_t)i);
    while (!queues[i].n && !rc)
        rc = form == FOREVER ? marcel_cond_wait(&queues[i].cond, &queues[i].mutex)
             : form == TRY   ? EBUSY
             : form == TIMED ? marcel_cond_timedwait(&queues[i].cond, &queues[i].mutex, &t)
                             : marcel_cond_clockwait(&queues[i].cond, &queues[i].mutex, CLOCK_MONOTONIC, &t);
    if (queues[i].n) {
        taken.item = queues[i].items[--queues[i].n];
        if (queues[i].held[taken.item])
            fail("queue %d: item %d is out twice", i, taken.item);
        queues[i].held[taken.item] = true;
        rc = 0;
    }
    marcel_cleanup_pop(1);
    end_wait(me);
    if (!had("a condition", rc, form))
        return;
    marcel_cleanup_push(item_give, &taken);
    stay(me);
    if (draw(me, 8) == 0)
        nap(me);
    marcel_cleanup_pop(1);
}

void use_barrier(node_t *me, int i)
{
    form_t form = TIMED + draw(me, 2);
    struct timespec t = deadline(me, form);
    begin_wait(me, "barrier", i);
    int rc = form == TIMED ? marcel_barrier_timedwait(&barriers[i].barrier, &t)
                           : marcel_barrier_clockwait(&barriers[i].barrier, CLOCK_MONOTONIC, &t);
    end_wait(me);
    if (rc == MARCEL_BARRIER_SERIAL_THREAD)
        atomic_fetch_add(&barriers[i].serial, 1);
    if (rc == 0 || rc == MARCEL_BARRIER_SERIAL_THREAD)
        atomic_fetch_add(&barriers[i].passed, 1);
    else
        had("a barrier", rc, form);
}

static void run_once(void)
{
    if (atomic_fetch_add(&once_left, 1) < 2)
        marcel_testcancel();
    marcel_yield();
    atomic_fetch_add(&once_done, 1);
}

void use_once(node_t *me)
{
    begin_wait(me, "once", 0);
    marcel_once(&once, run_once);
    end_wait(me);
    if (once_done != 1)
        fail("once has run %d times", once_done);
}

/* ---- Completions on a stack ------------------------------------------------------------------------------------- */

static void *complete(void *arg)
{
    int old;
    marcel_setcancelstate(MARCEL_CANCEL_DISABLE, &old);
    marcel_yield();
    marcel_completion_complete(arg);
    return arg;
}

static void join_helper(void *arg)
{
    void *result = NULL;
    marcel_t helper = arg;
    if (marcel_join(helper, &result) || !result)
        fail("a helper did not end well");
}

void use_completion(node_t *me)
{
    form_t form = draw(me, FORMS);
    marcel_completion_t done;
    marcel_t helper;
    int rc;
    marcel_completion_init(&done);
    if (marcel_create(&helper, NULL, complete, &done))
        return;
    marcel_cleanup_push(join_helper, helper);
    begin_wait(me, "completion", 0);
    do {
        struct timespec t = deadline(me, form);
        rc = form == FOREVER ? marcel_completion_wait(&done)
             : form == TRY   ? marcel_completion_trywait(&done)
             : form == TIMED ? marcel_completion_timedwait(&done, &t)
                             : marcel_completion_clockwait(&done, CLOCK_MONOTONIC, &t);
        if (!had("a completion", rc, form))
            marcel_yield();
    } while (rc);
    end_wait(me);
    if (marcel_completion_destroy(&done))
        fail("somebody waits for a completion");
    memset(&done, 0xff, sizeof done);
    begin_wait(me, "join of a helper", 0);
    marcel_cleanup_pop(1);
    end_wait(me);
}
