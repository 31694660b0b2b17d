/* SPDX-License-Identifier: BSD-3-Clause */
/* The scheduler: how a thread stops running, and how it becomes ready again.  Everything that waits is built on this.
 *
 * The rule of the post-switch function.  A thread that blocks may be woken only when its registers are saved: before that,
 * another worker could run it on a stack that is still in use.  So the thread does not make itself visible before the
 * switch.  The function worker->post does that (it releases the lock of the queue), on the next stack, first thing after
 * the switch.  The thread that arrives there runs it (madi_arrive).
 *
 * To wait, with queue->lock held, and after a last look at what is waited for:
 *     madi_waitq_add(queue, party);
 *     rc = madi_block(party, queue, deadline);         releases the lock, comes back woken (0) or late (ETIMEDOUT)
 * To wake:
 *     madi_lock(&queue->lock);
 *     party = madi_waitq_take(queue);                  the thread that takes it out must wake it
 *     madi_unlock(&queue->lock);
 *     if (party)
 *         madi_wake(party);                            never with the lock held: it may make a system call
 * A wake is never lost, since the lock is held from the look until the waiter can be taken out; and it is never
 * spurious.  Parties are user-level threads and plain pthreads alike.
 *
 * The lock is held during the choice of the next thread, so that choice takes no lock and allocates nothing.  What needs
 * either is done by the scheduler on its own stack, `base`, which is switched to like a thread: the inbox, expired timers,
 * a seed for which no slot is at hand, and sleep.
 *
 * Deadlines are madi_now's nanoseconds, INT64_MAX: none.  A party whose deadline has passed is taken out of its queue under
 * the queue's lock: by its own worker, by any worker if it may move (timer_shared.h), by itself if it is a plain pthread.
 * One compare-and-swap on party->wait decides whether it expired or was woken, so it is not both.  The queue must exist
 * until madi_block returns.
 *
 * A ready thread goes to its worker: at the end of a private queue when the caller runs there too, else through the
 * inbox, and the worker is woken if it sleeps. */
#ifndef MADI_SCHED_H
#define MADI_SCHED_H

#include "marcel/waitq.h"
#include "marcel/worker.h"

#include <errno.h>

#define MADI_NEVER INT64_MAX

#pragma GCC visibility push(hidden)

/* The calling thread as a party; a plain pthread gets its record at the first call.  NULL: no memory for it. */
madi_party_t *madi_party_self(void);

/* Block and wake, as described above.  The caller of madi_block is `party`, which is in the queue, whose lock it holds. */
int madi_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline);
void madi_wake(madi_party_t *party);

/* Like madi_block, but a point of cancellation (cancel.h).  Return ECANCELED if a cancel ended the wait: the party is
 * out of the queue, and no thread woke it.  The caller puts in order what it has begun, and calls madi_cancel_act. */
int madi_block_point(madi_party_t *party, madi_waitq_t *queue, int64_t deadline);

/* End the wait of a party other than by a wake: `how` is MADI_WAIT_EXPIRED or MADI_WAIT_CANCELLED.  If true, the party is
 * out of its queue, and the caller must make it ready.  False if it was woken, does not wait, or waits in a way that this
 * may not end. */
bool madi_claim(madi_party_t *party, unsigned how);

/* Like madi_claim, but in two steps: begin decides, without a lock; end takes the party out of its queue, NULL if it
 * was in none. */
bool madi_claim_begin(madi_party_t *party, unsigned how, madi_waitq_t **queue);
void madi_claim_end(madi_party_t *party, madi_waitq_t *queue);

/* Wake all of a queue, whose lock the caller holds, and which is released. */
void madi_wake_all(madi_waitq_t *queue);

/* Wait until the threads whose wait the clock or a cancel has ended have left the queue, which no other thread uses any
 * more.  Return 0, or EBUSY if a thread waits. */
int madi_waitq_close(madi_waitq_t *queue);

/* Let others run.  The caller is worker->current, and stays ready.  Now and then this looks at the clock and at seeds. */
void madi_yield(madi_worker_t *worker);

/* Like madi_yield, but run `to`, which is suspended on this worker, ready, and in no queue. */
void madi_yield_now(madi_worker_t *worker, madi_ult_t *to);

/* Block the caller, worker->current.  post(arg) runs on the next stack, and makes the caller visible to wakers. */
void madi_suspend(madi_worker_t *worker, madi_post_t post, void *arg);

/* Block the caller until the deadline; a point of cancellation.  Return ETIMEDOUT or ECANCELED. */
int madi_sleep_until(madi_party_t *self, int64_t deadline);

/* Like madi_suspend, but until the deadline at the latest; madi_ult_wake ends it, at most once.  Call madi_suspend_end
 * afterwards.  woken: there has been, or will be, a madi_ult_wake.  If the clock was first, the end waits for that wake,
 * which would else make a running thread ready. */
void madi_suspend_until(madi_ult_t *self, madi_post_t post, void *arg, int64_t deadline);
void madi_suspend_end(madi_ult_t *self, bool woken);
void madi_ult_wake(madi_ult_t *ult);

/* True if the calling user-level thread, which is about to wait, has no other thread to leave its worker to.  Then it may
 * first look MADI_SPINS times whether another worker ends its wait.  That is about 3 us, several times what it takes. */
#define MADI_SPINS 150
bool madi_may_spin(madi_worker_t *worker);

/* Note that the calling thread begins to wait for the clock or the polling server.  If no thread of its worker has done so
 * lately, it is not known how long switches take, and the next ones are timed. */
void madi_clock_looks_begin(madi_worker_t *worker);

/* Put around a suspension by the thread, with its `wait` set: arm its timer; disarm it, and return as madi_wait_end does. */
void madi_clock_begin(madi_ult_t *self, int64_t deadline);
int madi_clock_end(madi_ult_t *self);

/* Make a suspended thread ready, from anywhere. */
void madi_ready(madi_ult_t *ult);

/* On the thread's own worker: put it into its queue. */
void madi_ready_here(madi_worker_t *worker, madi_ult_t *ult);

/* On the worker: give a taken seed a slot; it is then suspended, ready to be switched to.  NULL: no memory. */
madi_ult_t *madi_ult_start(madi_worker_t *worker, struct marcel_thread *thread);

/* Give the worker a new thread from outside, or one that must not be taken as a seed. */
void madi_send(madi_worker_t *worker, struct marcel_thread *thread);

/* After a join or a wait that is not PLAIN, by the party: how it ended, as madi_block_point says. */
static inline int madi_wait_end(madi_party_t *party)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_relaxed);
    atomic_store_explicit(&party->wait, MADI_WAIT_PLAIN, memory_order_relaxed);
    return wait == MADI_WAIT_EXPIRED ? ETIMEDOUT : wait == MADI_WAIT_CANCELLED ? ECANCELED : 0;
}

/* The outermost function of every user-level thread: its life. */
void madi_ult_main(void);

/* The calling user-level thread ends, on an empty stack: what is on its stack is over.  Its result is thread->value. */
_Noreturn void madi_ult_end_anew(madi_ult_t *self);

/* On `base`: return the thread that runs next, after a look at all there is; NULL if none. */
madi_ult_t *madi_pick_all(madi_worker_t *worker);

/* Rare parts of the functions below.  madi_switch_extra also turns a join in place into a usual one. */
madi_ult_t *madi_pick_other(madi_worker_t *worker);
madi_ult_t *madi_pick_by_priority(madi_worker_t *worker); /* where there are other priorities than the usual one */
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
    if (MADI_UNLIKELY(ult->priority != MADI_USUAL) && next == prev) /* only the head is left */
        worker->odd &= ~(1u << ult->priority);
}

/* First thread of the highest level that has one; NULL if none.  A predicted branch on the priorities, and not an index that
 * must be loaded: that halves the cost of a yield. */
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

/* Seeds and threads that move are all of the usual priority: a thread of a lower one runs after them. */
static inline bool madi_usual_waits(madi_worker_t *worker)
{
    return !madi_deque_empty(&worker->deque) || !madi_movable_empty(worker);
}

/* Return the thread that runs next: `base` when none is ready, and for all that is rare. */
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

/* Run the post-switch function: the first thing on every stack that was switched to, here that of self. */
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
 * switched back, maybe on another worker. */
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
