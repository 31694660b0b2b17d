/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait objects: conditions that the program's handlers and callbacks make true.  A thread waits for a condition as it
 * waits for a message.  No wake-up is lost: the waiting thread enters the list, and is counted, before it tests the
 * condition.  The waking thread changes the condition, then reads the count.  Each side has a fence between its two
 * steps. */
#include "base/clock.h"
#include "engine/engine.h"
#include <madeleine.h>

#include <stdlib.h>

struct mad_cond {
    madi_lock_t lock;
    marceli_waiters_t waiters; /* the threads that wait; protected by the lock */
    _Atomic(int) n_waiters;
};

typedef struct cond_test {
    int (*test)(void *arg);
    void *arg;
} cond_test_t;

mad_cond_t *mad_cond_new(void)
{
    return marceli_server_open() ? NULL : calloc(1, sizeof(mad_cond_t));
}

void mad_cond_free(mad_cond_t *cond)
{
    free(cond);
}

static bool cond_is_true(void *arg)
{
    cond_test_t *ready = arg;
    return ready->test(ready->arg);
}

mad_status_t mad_cond_wait(mad_cond_t *cond, int (*test)(void *arg), void *arg, int64_t timeout_ns)
{
    cond_test_t ready = {test, arg};
    marceli_waiter_t w;
    bool good;
    marceli_waiter_init(&w);
    w.returns = true;
    madi_lock(&cond->lock);
    marceli_waiters_add(&cond->waiters, &w);
    atomic_fetch_add_explicit(&cond->n_waiters, 1, memory_order_seq_cst);
    madi_unlock(&cond->lock);
    atomic_thread_fence(memory_order_seq_cst); /* pairs with mad_cond_wake */
    good = marceli_wait(&w, cond_is_true, &ready, madi_deadline(timeout_ns));
    madi_lock(&cond->lock);
    marceli_waiters_del(&w);
    atomic_fetch_sub_explicit(&cond->n_waiters, 1, memory_order_relaxed);
    madi_unlock(&cond->lock);
    return good ? MAD_OK : MAD_ERR_TIMEOUT;
}

void mad_cond_wake(mad_cond_t *cond)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with mad_cond_wait */
    if (!atomic_load_explicit(&cond->n_waiters, memory_order_relaxed))
        return;
    madi_lock(&cond->lock);
    marceli_waiters_wake_all(&cond->waiters);
    madi_unlock(&cond->lock);
}
