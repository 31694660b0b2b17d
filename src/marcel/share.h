/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that any worker may run: seeds (deque.h), started threads that may move, and seeds made by plain pthreads.
 *
 *   deque     seeds of a worker; the owner takes the youngest, others the oldest
 *   movable   ready threads of a worker that were created migratable; any worker takes the longest waiting one.  A thread is
 *             in this list only after it has left its stack.
 *   outside   one list for all: seeds made by plain pthreads
 *
 * A worker with no thread of its own checks the lists of other workers, the nearest first (placement.h).  A spinning
 * worker checks these lists only now and then, so as not to take their cache lines; before it sleeps, the worker checks
 * everything.
 *
 * Why no thread is left behind while a worker sleeps: a thread that puts an entry into a list checks afterwards whether a
 * worker sleeps, and wakes the nearest.  A worker that goes to sleep announces it (idle, n_asleep), then checks
 * everything.  Between its two steps the sleeper executes a barrier of all threads, so the creation of a seed needs none
 * (madi_shared pairs with madi_worker_sleeps). */
#ifndef MADI_SHARE_H
#define MADI_SHARE_H

#include "marcel/marcel.h"

#pragma GCC visibility push(hidden)

/* Put and take started threads that may move; all have the usual priority.  put: any thread may call; the context of
 * `ult` is saved.  take: return the longest waiting thread; NULL if none. */
void madi_movable_put(madi_worker_t *worker, madi_ult_t *ult);
madi_ult_t *madi_movable_take(madi_worker_t *worker);
/* Make a thread of another worker ready.  The thread stays with that worker if the worker sleeps (the worker is then
 * woken), or if the worker checks its lists soon. */
void madi_movable_send(madi_worker_t *worker, madi_ult_t *ult);

/* Put and take seeds made by plain pthreads. */
void madi_outside_put(struct marcel_thread *thread);
struct marcel_thread *madi_outside_take(void);

/* Find a thread elsewhere, and store it in worker->pending or worker->stolen; called on the worker's base.  all: check
 * everything, not only where a thread is likely. */
bool madi_share_find(madi_worker_t *worker, bool all);

/* Wake a sleeping worker, since there may be work for it: the one nearest to `worker`, or any if `worker` is NULL. */
void madi_share_wake(madi_worker_t *worker);

/* Wake another sleeping worker if there is more to run.  Called by a woken worker that is about to run a thread, which
 * may not be the thread for which it was woken. */
void madi_share_pass_on(madi_worker_t *worker);

#pragma GCC visibility pop

/* Wake a worker if one sleeps; called after an entry was put into a list. */
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
