/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that any worker may run: seeds (deque.h), started threads that may move, and seeds of plain pthreads.
 *
 *   deque     seeds of a worker; the owner takes the youngest, others the oldest
 *   movable   ready threads of a worker that were created migratable; each takes the one that waits longest.  A thread is in
 *             it only off its stack.
 *   outside   one list for all: seeds made by plain pthreads
 *
 * A worker with nothing of its own looks at those of others, the nearest first (place.h); now and then while it spins, so
 * that it does not take their lines away all the time, and at everything before it sleeps.
 *
 * Why none is left behind while a worker sleeps: a thread that puts something in looks afterwards whether a worker
 * sleeps, and wakes the nearest; a worker that goes to sleep says so (idle, n_asleep), then looks at everything.
 * Between the two steps of the sleeper is a barrier of all threads, so that there is none in the creation of a seed
 * (madi_shared, pairs with idle in worker.c). */
#ifndef MADI_SHARE_H
#define MADI_SHARE_H

#include "marcel/marcel.h"

#pragma GCC visibility push(hidden)

/* Started threads that may move, all of the usual priority.  put: any thread, the context is saved; take: the one that waits
 * longest; NULL: none. */
void madi_movable_put(madi_worker_t *worker, madi_ult_t *ult);
madi_ult_t *madi_movable_take(madi_worker_t *worker);
/* From elsewhere.  It stays there if that worker sleeps or soon looks. */
void madi_movable_send(madi_worker_t *worker, madi_ult_t *ult);

/* A plain pthread makes a seed. */
void madi_outside_put(struct marcel_thread *thread);
struct marcel_thread *madi_outside_take(void);

/* On the worker's base: find something elsewhere, which is then worker->pending or worker->stolen.  all: look at
 * everything, not only at what is likely. */
bool madi_share_find(madi_worker_t *worker, bool all);

/* One more worker may have something to do: wake one that sleeps, the one nearest to `worker` (or NULL). */
void madi_share_wake(madi_worker_t *worker);

/* Called by a woken worker that is about to run a thread, maybe not the one for which it was woken: if there is more,
 * wake another sleeper. */
void madi_share_pass_on(madi_worker_t *worker);

#pragma GCC visibility pop

/* After something was put in. */
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
