/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/bias.h"
#include "engine/leader.h"
#include "marcel/marcel.h"

#include <marcel.h>

uint32_t madi_bias_of(int index)
{
    return madi_server.asymmetric ? 2 * (uint32_t)index + 2 : MADI_BIAS_NONE;
}

static void section_wait_end(madi_worker_t *worker, madi_waitq_t *queue)
{
    for (unsigned n = 0; atomic_load_explicit(&worker->holds, memory_order_acquire) == queue; n++)
        madi_pause(n);
}

/* Revoke a bias.  The lock word was `bias` and is now LOCKED.  If the worker belongs to an earlier start of the
 * library, it is in no section, and nothing is left to do. */
static void bias_take_away(madi_waitq_t *queue, uint32_t bias)
{
    int index = (int)(bias / 2) - 1;
    madi_worker_t *worker = index < marcel_worker_count() ? &madi_marcel.workers[index] : NULL;
    if (!worker || worker == madi_worker_self())
        return;
    marceli_barrier();
    section_wait_end(worker, queue);
}

void madi_waitq_lock_slow(madi_waitq_t *queue, int word)
{
    atomic_int *held = &queue->lock.held;
    for (unsigned n = 0; word == MADI_BIAS_LOCKED; n++) {
        madi_pause(n);
        if (atomic_load_explicit(held, memory_order_relaxed) != MADI_BIAS_LOCKED)
            word = atomic_exchange_explicit(held, MADI_BIAS_LOCKED, memory_order_acquire);
    }
    if (word)
        bias_take_away(queue, (uint32_t)word);
}

void madi_bias_pass(madi_worker_t *worker)
{
    madi_waitq_t *queue = atomic_load_explicit(&worker->holds, memory_order_acquire);
    if (queue)
        section_wait_end(worker, queue);
}

void madi_bias_forked(madi_worker_t *survivor)
{
    for (int i = 0; i < marcel_worker_count(); i++) {
        madi_worker_t *worker = &madi_marcel.workers[i];
        madi_waitq_t *queue = atomic_load_explicit(&worker->holds, memory_order_relaxed);
        if (worker == survivor || !queue)
            continue;
        if ((uint32_t)atomic_load_explicit(&queue->lock.held, memory_order_relaxed) == worker->bias)
            queue->first = NULL;
        madi_bias_leave(worker);
    }
}
