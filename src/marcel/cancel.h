/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancellation at points: a cancelled thread ends at its next cancellation point, that is, at its next waiting call.
 *
 * Bits of the word `cancel` of a record:
 *   PENDING  set by marcel_cancel, for good
 *   OFF      set by the thread itself while cancellation is disabled
 *   ENDS     set by the thread itself, for good, once it has begun to end
 *   BUSY     a thread is in marcel_cancel, and may touch the control block of this one
 *
 * A cancellation point reads the word when it begins (madi_cancel_point), and waits by madi_block_point.  Why no cancel
 * is lost: a waiter announces its wait (MADI_WAIT_OPEN), and then reads the word; a canceller writes the word, and then
 * checks whether the thread waits (madi_claim).  Between these two steps the canceller executes a barrier of all threads,
 * so the waiter needs none: waits are frequent, cancels are rare.  In the same way, a thread that ends first withdraws
 * its control block, and then checks for BUSY. */
#ifndef MADI_CANCEL_H
#define MADI_CANCEL_H

#include "engine/leader.h"
#include "marcel/waitq.h"

enum { MADI_CANCEL_PENDING = 1, MADI_CANCEL_OFF = 2, MADI_CANCEL_BUSY = 4, MADI_CANCEL_ENDS = 8 };

#pragma GCC visibility push(hidden)

/* End the calling thread, whose party is `self`.  Locks and queues must be in a state that the program may see. */
_Noreturn void madi_cancel_act(madi_party_t *self);

/* Wait until no canceller touches the control block of the calling thread, which is about to end.  May switch. */
void madi_cancel_settle(struct marcel_thread *thread);

/* Hide the party of a plain pthread that ends from cancellers. */
void madi_cancel_forget(madi_party_t *party);

/* Bracket a wait in the polling server (waiter.h) that a cancel may end.  A cancel wakes the waiter, whose test must then
 * check whether a cancel is pending.  After madi_interrupt_end no canceller touches the waiter. */
struct marceli_waiter;
void madi_interrupt_begin(madi_party_t *self, struct marceli_waiter *w);
void madi_interrupt_end(madi_party_t *self);

/* Take the calling party out of its queue before it blocks.  The caller holds the queue's lock.  Return false if a
 * canceller was faster; the canceller will then make the party ready. */
bool madi_cancel_back_out(madi_party_t *party);

#pragma GCC visibility pop

static inline __attribute__((always_inline)) void madi_cancel_fence(void)
{
    if (MADI_LIKELY(madi_server.asymmetric))
        atomic_signal_fence(memory_order_seq_cst); /* this fence pairs with the barrier in marcel_cancel */
    else
        atomic_thread_fence(memory_order_seq_cst);
}

static inline bool madi_cancel_pending(const struct marcel_thread *thread)
{
    unsigned word = atomic_load_explicit(&((struct marcel_thread *)thread)->cancel, memory_order_relaxed);
    return (word & (MADI_CANCEL_PENDING | MADI_CANCEL_OFF | MADI_CANCEL_ENDS)) == MADI_CANCEL_PENDING;
}

static inline bool madi_cancel_off(const struct marcel_thread *thread)
{
    return atomic_load_explicit(&((struct marcel_thread *)thread)->cancel, memory_order_relaxed) &
           (MADI_CANCEL_OFF | MADI_CANCEL_ENDS);
}

static inline void madi_cancel_point(madi_party_t *self)
{
    if (MADI_UNLIKELY(madi_cancel_pending(self->thread)))
        madi_cancel_act(self);
}

/* True if a cancel is pending.  Called after the thread has announced that it is about to wait. */
static inline bool madi_cancel_pending_now(const struct marcel_thread *thread)
{
    madi_cancel_fence();
    return MADI_UNLIKELY(madi_cancel_pending(thread));
}

/* True if a cancel came before the calling party announced a wait that has no queue.  The wait is over then, and the
 * caller makes the party ready. */
#define madi_cancel_missed(party) (madi_cancel_pending_now((party)->thread) && madi_claim((party), MADI_WAIT_CANCELLED))

/* Like madi_cancel_missed, but for a party in a queue, whose lock the caller holds. */
static inline bool madi_cancel_missed_here(madi_party_t *party)
{
    return madi_cancel_pending_now(party->thread) && madi_cancel_back_out(party);
}

static inline __attribute__((always_inline)) bool madi_cancel_busy(const struct marcel_thread *thread)
{
    madi_cancel_fence();
    /* acquire: pairs with marcel_cancel, which no longer uses the party */
    return atomic_load_explicit(&((struct marcel_thread *)thread)->cancel, memory_order_acquire) & MADI_CANCEL_BUSY;
}

#endif
