/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks of wait queues that only one worker uses.
 *
 * A biased queue is one whose lock word names a worker.  The named worker enters and leaves without an atomic
 * read-modify-write; every other thread first revokes the bias.  The word of a queue's lock is
 *   0                  free
 *   MADI_BIAS_LOCKED   held by a thread that took it by an exchange
 *   worker->bias       biased to that worker: an even number, 2 for worker 0
 *
 *   the worker                                 another thread
 *   holds = queue                              word = exchange(LOCKED)       finds the worker's bias
 *   compiler barrier                           barrier of all threads        (membarrier)
 *   word == bias: enter                        wait while holds == queue
 *   ... leave: holds = NULL (release)          it has the lock               (acquire)
 *
 * Either the worker sees LOCKED, or the other thread sees `holds` after its barrier.  Without membarrier no queue is
 * biased.  Two threads of one worker are never in the section together: a thread that switches inside it has the exit
 * from the section as its post-switch function (sched.h).  Sections are never nested: only semaphores are biased, and
 * none is used under the lock of another.
 *
 * All waiters of a biased queue are threads of its worker: a queue becomes biased only while it is empty, and every
 * other thread first revokes the bias.  So in the child of a fork, a queue whose section was occupied by a worker of
 * the parent has no surviving waiters (madi_bias_forked). */
#ifndef MADI_BIAS_H
#define MADI_BIAS_H

#include "marcel/cancel.h"
#include "marcel/waitq.h"
#include "marcel/worker.h"

#pragma GCC visibility push(hidden)

/* Value of a lock word that is biased to this worker; MADI_BIAS_NONE if the host has no membarrier, a value that no lock
 * word has. */
uint32_t madi_bias_of(int index);

/* Wait until the worker has left the section that it is in, if any.  The caller has already executed a barrier of all
 * threads. */
void madi_bias_pass(madi_worker_t *worker);

/* Repair biased queues in the child of a fork: end the sections of all workers but the survivor, and repair the queues
 * that they left half changed.  survivor: the worker whose kernel thread forked; NULL if none. */
void madi_bias_forked(madi_worker_t *survivor);

#pragma GCC visibility pop

/* Enter the section of a queue that is biased to the caller's worker.  Return false if the queue is not biased to that
 * worker. */
static inline bool madi_bias_enter(madi_worker_t *worker, madi_waitq_t *queue)
{
    atomic_store_explicit(&worker->holds, queue, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* this fence pairs with the barrier of all threads in bias.c */
    if (MADI_LIKELY((uint32_t)atomic_load_explicit(&queue->lock.held, memory_order_relaxed) == worker->bias))
        return true;
    atomic_store_explicit(&worker->holds, NULL, memory_order_release);
    return false;
}

static inline void madi_bias_leave(madi_worker_t *worker)
{
    atomic_store_explicit(&worker->holds, NULL, memory_order_release); /* this release pairs with the acquire in bias.c */
}

/* Like madi_waitq_take, but inside the section.  There a plain store decides how the wait ends: only this worker ends
 * waits by the clock, and a canceller first sets BUSY and waits until this section is over (madi_bias_pass). */
static inline madi_party_t *madi_bias_take(madi_waitq_t *queue)
{
    madi_party_t *party = queue->first;
    if (!party)
        return NULL;
    if (MADI_UNLIKELY(MADI_PARTY_ULT(party)->moves || !madi_waitq_waits(party) ||
                      atomic_load_explicit(&party->thread->cancel, memory_order_relaxed) & MADI_CANCEL_BUSY))
        return madi_waitq_take(queue);
    if (atomic_load_explicit(&party->wait, memory_order_relaxed) != MADI_WAIT_PLAIN)
        atomic_store_explicit(&party->wait, MADI_WAIT_WOKEN, memory_order_relaxed);
    madi_waitq_remove(queue, party);
    return party;
}

/* Leave a queue that the caller, a user-level thread, has entered by its bias or by its lock. */
static inline void madi_waitq_leave(madi_worker_t *worker, madi_waitq_t *queue)
{
    if (atomic_load_explicit(&worker->holds, memory_order_relaxed))
        madi_bias_leave(worker);
    else
        madi_unlock(&queue->lock);
}

#endif
