/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler: how a thread stops running, and how it becomes ready again.  Everything that waits is built on this.
 *
 * The rule of the post-switch function.  A thread that blocks may be woken only when its registers are saved: before
 * that, another worker could run it on a stack that is still in use.  So the thread does not make itself visible before
 * the switch.  The function worker->post makes it visible (by releasing the lock of the queue).  The thread that is
 * switched to runs this function on its own stack, immediately after the switch (madi_arrive).
 *
 * To wait, with queue->lock held, and after a last check of the awaited condition:
 *     madi_waitq_add(queue, party);
 *     rc = madi_block(party, queue, deadline);         releases the lock, comes back woken (0) or late (ETIMEDOUT)
 * To wake:
 *     madi_lock(&queue->lock);
 *     party = madi_waitq_take(queue);                  the thread that takes it out must wake it
 *     madi_unlock(&queue->lock);
 *     if (party)
 *         madi_wake(party);                            never with the lock held: it may make a system call
 * A wake is never lost, since the lock is held from the check until the waiter can be taken out; and it is never
 * spurious.  A party is a user-level thread or a plain pthread.
 *
 * The lock is held while the next thread is chosen, so the choice takes no lock and allocates nothing.  Work that needs a
 * lock or memory is done by the scheduler on its own stack, `base`, which is switched to like a thread: reading the
 * inbox, expired timers, a seed for which no slot is free, and sleep.
 *
 * Deadlines are madi_now's nanoseconds, INT64_MAX: none.  A party whose deadline has passed is taken out of its queue under
 * the queue's lock: by its own worker, by any worker if it may move (timer_shared.h), by itself if it is a plain pthread.
 * One compare-and-swap on party->wait decides whether it expired or was woken, so it is not both.  The queue must exist
 * until madi_block returns.
 *
 * A ready thread goes to its worker: to the end of a private queue if the caller runs on the same worker, otherwise to
 * the inbox.  The worker is woken if it sleeps. */
#ifndef MADI_SCHED_H
#define MADI_SCHED_H

#include "marcel/waitq.h"
#include "marcel/worker.h"

#include <errno.h>

#define MADI_NEVER INT64_MAX

#pragma GCC visibility push(hidden)

/* Return the calling thread as a party; a plain pthread gets its record at the first call.  Return NULL if there is no
 * memory for the record. */
madi_party_t *madi_party_self(void);

/* Block and wake, as described above.  The caller of madi_block is `party`, which is in the queue and holds the queue's
 * lock. */
int madi_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline);
void madi_wake(madi_party_t *party);

/* Like madi_block, but a cancellation point (cancel.h).  Return ECANCELED if a cancel ended the wait: the party is out of
 * the queue, and no thread woke it.  The caller undoes what it has begun, and calls madi_cancel_act. */
int madi_block_point(madi_party_t *party, madi_waitq_t *queue, int64_t deadline);

/* End the wait of a party other than by a wake.  how: MADI_WAIT_EXPIRED or MADI_WAIT_CANCELLED.  Return true if the party
 * has left its queue; the caller must then make the party ready.  Return false if the party was woken, does not wait, or
 * waits in a way that `how` may not end. */
bool madi_claim(madi_party_t *party, unsigned how);

/* Like madi_claim, but in two steps: begin decides, without a lock; end takes the party out of its queue (NULL if it was
 * in none). */
bool madi_claim_begin(madi_party_t *party, unsigned how, madi_waitq_t **queue);
void madi_claim_end(madi_party_t *party, madi_waitq_t *queue);

/* Wake all parties of a queue.  The caller holds the queue's lock, which is released. */
void madi_wake_all(madi_waitq_t *queue);

/* Wait until the threads whose wait ended by the clock or by a cancel have left the queue, which no other thread uses any
 * more.  Return 0, or EBUSY if a thread still waits. */
int madi_waitq_close(madi_waitq_t *queue);

/* Let other threads run.  The caller is worker->current, and stays ready.  Once in a period the clock and the seeds are
 * checked. */
void madi_yield(madi_worker_t *worker);

/* Like madi_yield, but run `to`, which is suspended on this worker, ready, and in no queue. */
void madi_yield_now(madi_worker_t *worker, madi_ult_t *to);

/* Block the caller, worker->current.  post(arg) runs on the next thread's stack, and makes the caller visible to wakers. */
void madi_suspend(madi_worker_t *worker, madi_post_t post, void *arg);

/* Block the caller until the deadline; a point of cancellation.  Return ETIMEDOUT or ECANCELED. */
int madi_sleep_until(madi_party_t *self, int64_t deadline);

/* Like madi_suspend, but until the deadline at the latest; madi_ult_wake ends the wait, at most once.  Call
 * madi_suspend_end afterwards.  woken: madi_ult_wake has been or will be called.  If the deadline came first,
 * madi_suspend_end waits for that call, which would otherwise make a running thread ready. */
void madi_suspend_until(madi_ult_t *self, madi_post_t post, void *arg, int64_t deadline);
void madi_suspend_end(madi_ult_t *self, bool woken);
void madi_ult_wake(madi_ult_t *ult);

/* True if the calling user-level thread, which is about to wait, has no other thread to which it could leave its worker.
 * The thread may then first check MADI_SPINS times whether another worker ends its wait.  These checks take about 3 us,
 * several times as long as a wake by another worker. */
#define MADI_SPINS 150
bool madi_may_spin(madi_worker_t *worker);

/* Record that the calling thread begins to wait for the clock or the polling server.  If no thread of its worker has done
 * so lately, the duration of switches is unknown, and the next switches are timed. */
void madi_clock_looks_begin(madi_worker_t *worker);

/* Bracket a suspension by the thread, whose `wait` is set: arm its timer; then disarm the timer and return as
 * madi_wait_end does. */
void madi_clock_begin(madi_ult_t *self, int64_t deadline);
int madi_clock_end(madi_ult_t *self);

/* Make a suspended thread ready.  Any thread may call. */
void madi_ready(madi_ult_t *ult);

/* Put the thread into the queue of its worker.  Called on that worker. */
void madi_ready_here(madi_worker_t *worker, madi_ult_t *ult);

/* Give a taken seed a slot; the thread is then suspended, ready to be switched to.  Called on the worker.  Return NULL
 * if there is no memory. */
madi_ult_t *madi_ult_start(madi_worker_t *worker, struct marcel_thread *thread);

/* Give the worker a new thread from outside, or a thread that must not be taken as a seed. */
void madi_send(madi_worker_t *worker, struct marcel_thread *thread);

/* Return how a join, or a wait that was not PLAIN, ended, as madi_block_point does.  Called by the party afterwards. */
static inline int madi_wait_end(madi_party_t *party)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_relaxed);
    atomic_store_explicit(&party->wait, MADI_WAIT_PLAIN, memory_order_relaxed);
    return wait == MADI_WAIT_EXPIRED ? ETIMEDOUT : wait == MADI_WAIT_CANCELLED ? ECANCELED : 0;
}

/* The outermost function of every user-level thread. */
void madi_ult_main(void);

/* End the calling user-level thread, on an empty stack: all its functions have ended. The result of the thread is
 * thread->value. */
_Noreturn void madi_ult_end_anew(madi_ult_t *self);

/* Return the thread that runs next, after checking all sources; NULL if none.  Called on `base`. */
madi_ult_t *madi_pick_all(madi_worker_t *worker);

/* Rare parts of the functions below.  madi_switch_extra also turns a join in place into a usual join. */
madi_ult_t *madi_pick_other(madi_worker_t *worker);
madi_ult_t *madi_pick_by_priority(madi_worker_t *worker); /* used when there are priorities other than the usual one */
void madi_switch_extra(madi_worker_t *worker, madi_ult_t *from, madi_ult_t *to);

#pragma GCC visibility pop

/* ---- The fast path -------------------------------------------------------------------------------------------- */

static inline void madi_queue_put(madi_worker_t *worker, madi_ult_t *ult)
{
    madi_ring_link_t *queue = &worker->queue[ult->priority], *last = queue->prev, *link = &ult->link;
    ult->state = MADI_ULT_READY;
    link->next = queue;
    link->prev = last;
    last->next = link;
    queue->prev = link;
    if (MADI_UNLIKELY(ult->priority != MADI_USUAL))
        worker->odd |= 1u << ult->priority;
}

static inline void madi_queue_out(madi_worker_t *worker, madi_ult_t *ult)
{
    madi_ring_link_t *next = ult->link.next, *prev = ult->link.prev;
    prev->next = next;
    next->prev = prev;
    if (MADI_UNLIKELY(ult->priority != MADI_USUAL) && next == prev) /* the queue is empty: only the queue's head is left */
        worker->odd &= ~(1u << ult->priority);
}

/* First thread of the highest level that has one; NULL if none.  A predicted branch on the priorities is used instead of
 * an index that must be loaded, which halves the cost of a yield. */
static inline madi_ult_t *madi_queue_first(madi_worker_t *worker)
{
    madi_ring_link_t *usual = &worker->queue[MADI_USUAL], *first = usual->next;
    if (MADI_UNLIKELY(worker->odd)) {
        unsigned level = (unsigned)__builtin_ctz(worker->odd | (first != usual ? 1u << MADI_USUAL : 0));
        return MADI_RING_ULT(worker->queue[level].next);
    }
    return first != usual ? MADI_RING_ULT(first) : NULL;
}

static inline madi_ult_t *madi_queue_take(madi_worker_t *worker)
{
    madi_ult_t *ult = madi_queue_first(worker);
    if (ult)
        madi_queue_out(worker, ult);
    return ult;
}

/* Seeds and migratable threads all have the usual priority, so threads of a lower priority run after them. */
static inline bool madi_usual_waits(madi_worker_t *worker)
{
    return !madi_deque_empty(&worker->deque) || !madi_movable_empty(worker);
}

/* Return the thread that runs next: `base` if none is ready, or if something rare has to be done. */
static inline madi_ult_t *madi_pick(madi_worker_t *worker)
{
    madi_ring_link_t *usual = &worker->queue[MADI_USUAL], *first = usual->next;
    if (MADI_UNLIKELY(--worker->tick == 0 || !madi_inbox_empty(&worker->inbox)))
        return worker->base;
    if (MADI_UNLIKELY(worker->odd))
        return madi_pick_by_priority(worker);
    if (MADI_LIKELY(first != usual)) {
        usual->next = first->next;
        first->next->prev = usual;
        return MADI_RING_ULT(first);
    }
    return madi_usual_waits(worker) ? madi_pick_other(worker) : worker->base;
}

/* True if the worker has another thread to run. */
static inline bool madi_has_others(madi_worker_t *worker)
{
    return madi_queue_first(worker) || !madi_inbox_empty(&worker->inbox) || !madi_deque_empty(&worker->deque) ||
           !madi_movable_empty(worker);
}

/* Run the post-switch function: the first call on every stack after a switch to it, here on the stack of self. */
static inline void madi_arrive(madi_ult_t *self)
{
    madi_worker_t *worker = madi_worker_self();
    madi_post_t post = worker->post;
    madi_sanitizer_arrive(&self->sanitizer);
    if (post) {
        worker->post = NULL;
        post(worker->post_arg);
    }
}

/* Switch from self, the caller, to another thread.  self is in a queue, or known to a waker.  Returns when a thread has
 * switched back to self, perhaps on another worker. */
static inline void madi_switch_to(madi_worker_t *worker, madi_ult_t *self, madi_ult_t *to)
{
    to->state = MADI_ULT_RUNNING;
    worker->current = to;
    if (MADI_UNLIKELY((self->flags | (to->flags & MADI_ULT_BOTH)) | madi_cxx_held(&worker->cxx)))
        madi_switch_extra(worker, self, to);
    madi_sanitizer_leave(&self->sanitizer, &to->sanitizer, 0);
    madi_switch(&self->sp, to->sp);
    madi_arrive(self);
}

#endif
