/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that any worker may run: seeds (deque.h), started threads that may move, and seeds made by plain pthreads.
 *
 *   deque     seeds of a worker; the owner takes the youngest, others the oldest
 *   movable   ready threads of a worker that were created migratable; each takes the one that waits longest.  A thread is in
 *             it only off its stack.
 *   outside   one list for all: seeds made by plain pthreads
 *
 * A worker with nothing of its own looks at those of others, the nearest first (placement.h).  While it spins it looks now
 * and then only, to leave them their cache lines; before it sleeps it looks at everything.
 *
 * Why none is left behind while a worker sleeps: a thread that puts something in looks afterwards whether a worker
 * sleeps, and wakes the nearest.  A worker that goes to sleep announces that (idle, n_asleep), then looks at everything.
 * Between its two steps the sleeper executes a barrier of all threads, so the creation of a seed needs none (madi_shared
 * pairs with madi_worker_sleeps). */
#ifndef MADI_SHARE_H
#define MADI_SHARE_H

#include "marcel/marcel.h"

#pragma GCC visibility push(hidden)

/* Started threads that may move, all of the usual priority.  put: any thread, the context is saved; take: the one that waits
 * longest; NULL: none. */
void madi_movable_put(madi_worker_t *worker, madi_ult_t *ult);
madi_ult_t *madi_movable_take(madi_worker_t *worker);
/* Make a thread of another worker ready.  It stays with that worker if that sleeps, and is woken, or looks soon. */
void madi_movable_send(madi_worker_t *worker, madi_ult_t *ult);

/* Put and take seeds made by plain pthreads. */
void madi_outside_put(struct marcel_thread *thread);
struct marcel_thread *madi_outside_take(void);

/* Find a thread elsewhere, and store it in worker->pending or worker->stolen; called on the worker's base.  all: look at
 * everything, not only where there is likely to be one. */
bool madi_share_find(madi_worker_t *worker, bool all);

/* Wake a sleeping worker, since there may be work for one more: the nearest to `worker`, any if that is NULL. */
void madi_share_wake(madi_worker_t *worker);

/* Wake another sleeper if there is more to run.  Called by a woken worker that is about to run a thread, which may not be
 * the one for which it was woken. */
void madi_share_pass_on(madi_worker_t *worker);

#pragma GCC visibility pop

/* Wake a worker if one sleeps; called after something was put in. */
static inline void madi_shared(madi_worker_t *worker)
{
    if (MADI_UNLIKELY(madi_marcel.fences))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (MADI_UNLIKELY(atomic_load_explicit(&madi_marcel.n_asleep, memory_order_relaxed)))
        madi_share_wake(worker);
}

static inline bool madi_outside_empty(void)
{
    return !atomic_load_explicit(&madi_marcel.outside, memory_order_relaxed);
}

#endif
