/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancellation at points: a thread that is asked to end does so where it next calls one of the waiting calls.
 *
 * The word `cancel` of a record: PENDING, set by marcel_cancel for good; OFF, changed by the thread itself alone, while
 * cancellation is disabled; ENDS, set by itself for good, once it has begun to end; BUSY, somebody is in marcel_cancel
 * and may touch the thread's control block.
 *
 * A point looks at the word when it begins (madi_cancel_point), and waits as madi_block_point does.  Why no cancel is
 * lost: a waiter says so (MADI_WAIT_OPEN), and then looks at the word; a canceller writes the word, and then looks
 * whether the thread waits (madi_claim).  Between the two steps of the canceller is a barrier of all threads, so that
 * those of the waiter need none: waits are many, cancels few.  In the same way a thread that ends first forgets its
 * control block, and then looks for BUSY. */
#ifndef MADI_CANCEL_H
#define MADI_CANCEL_H

#include "engine/leader.h"
#include "marcel/waitq.h"

enum { MADI_CANCEL_PENDING = 1, MADI_CANCEL_OFF = 2, MADI_CANCEL_BUSY = 4, MADI_CANCEL_ENDS = 8 };

#pragma GCC visibility push(hidden)

/* End the calling thread, whose party this is; locks and queues are as the program may see them. */
_Noreturn void madi_cancel_act(madi_party_t *self);

/* The thread, the caller, is at its end: wait until nobody touches its control block.  May switch. */
void madi_cancel_settle(struct marcel_thread *thread);

/* A plain pthread ends: nobody finds its party any more. */
void madi_cancel_forget(madi_party_t *party);

/* Around a wait in the polling server (waiter.h) that a cancel may end: it wakes the waiter, whose test then has to look
 * whether one is pending.  end: no canceller touches the waiter any more. */
struct marceli_waiter;
void madi_interrupt_begin(madi_party_t *self, struct marceli_waiter *w);
void madi_interrupt_end(madi_party_t *self);

/* With the lock of its queue held by the caller, the party, which has not blocked yet.  False: a canceller was first, and
 * will make it ready. */
bool madi_cancel_back_out(madi_party_t *party);

#pragma GCC visibility pop

static inline __attribute__((always_inline)) void madi_cancel_fence(void)
{
    if (MADI_LIKELY(madi_server.asymmetric))
        atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier in marcel_cancel */
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

/* After the thread has said that it is about to wait. */
static inline bool madi_cancel_pending_now(const struct marcel_thread *thread)
{
    madi_cancel_fence();
    return MADI_UNLIKELY(madi_cancel_pending(thread));
}

/* After the party, the caller, has said that it waits without a queue: true if a cancel came before.  The wait is over
 * then, and the caller makes the party ready. */
#define madi_cancel_missed(party) (madi_cancel_pending_now((party)->thread) && madi_claim((party), MADI_WAIT_CANCELLED))

/* Like madi_cancel_missed, but for a party in a queue, whose lock it holds. */
static inline bool madi_cancel_missed_here(madi_party_t *party)
{
    return madi_cancel_pending_now(party->thread) && madi_cancel_back_out(party);
}

static inline __attribute__((always_inline)) bool madi_cancel_busy(const struct marcel_thread *thread)
{
    madi_cancel_fence();
    /* acquire: pairs with marcel_cancel, which has let go of the party */
    return atomic_load_explicit(&((struct marcel_thread *)thread)->cancel, memory_order_acquire) & MADI_CANCEL_BUSY;
}

#endif
