/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/cancel.h"
#include "base/static_mutex.h"
#include "engine/waiter.h"
#include "marcel/bias.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>
#include <sched.h>

/* Serializes cancellers.  A plain pthread that ends takes it too. */
static madi_static_mutex_t lock = MADI_STATIC_MUTEX;

/* ---- Waits in the polling server ------------------------------------------------------------------------------ */

/* Publish the waiter, which exists as long as a canceller can find it under the lock.  A canceller has set PENDING
 * before it takes the lock, so a waiter that is published later sees that bit. */
void madi_interrupt_begin(madi_party_t *self, struct marceli_waiter *w)
{
    madi_lock(&self->interrupt_lock);
    self->interrupted = w;
    madi_unlock(&self->interrupt_lock);
}

void madi_interrupt_end(madi_party_t *self)
{
    madi_interrupt_begin(self, NULL);
}

static void party_interrupt(madi_party_t *party)
{
    madi_lock(&party->interrupt_lock);
    if (party->interrupted)
        marceli_waiter_wake(party->interrupted);
    madi_unlock(&party->interrupt_lock);
}

/* ---- Cancel --------------------------------------------------------------------------------------------------- */

/* Party of a thread; NULL if the thread is a seed, or has ended. */
static madi_party_t *thread_party(struct marcel_thread *thread)
{
    madi_ult_t *ult = atomic_load_explicit(&thread->ult, memory_order_acquire);
    if (ult)
        return &ult->party;
    return thread->run ? NULL : thread->value; /* a record without a function belongs to a plain pthread (plain_thread.c) */
}

/* True if the party has announced a join, but is not yet in `joiner`.  The party will check for a cancel, or will be
 * there soon. */
static bool party_begins_to_join(madi_party_t *party)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_acquire);
    struct marcel_thread *joins = atomic_load_explicit(&party->joins, memory_order_relaxed);
    return wait == MADI_WAIT_JOINS_SOON ||
           (wait == MADI_WAIT_JOINS_OPEN && atomic_load_explicit(&joins->joiner, memory_order_relaxed) == MADI_JOINER_NONE);
}

/* End the wait of a party as cancelled.  Return false if the party does not wait.  The bit BUSY keeps the party's
 * control block from being freed. */
static bool party_end_wait(madi_party_t *party)
{
    if (!party->plain)
        madi_bias_pass(__atomic_load_n(&MADI_PARTY_ULT(party)->worker, __ATOMIC_RELAXED));
    while (!madi_claim(party, MADI_WAIT_CANCELLED)) {
        if (!party_begins_to_join(party))
            return false;
        sched_yield(); /* if the party were a thread of this worker, it would be in `joiner` by now */
    }
    return true;
}

int marcel_cancel(marcel_t thread)
{
    madi_party_t *self = madi_party_self(), *party;
    if (self && self->thread == thread) {
        atomic_fetch_or_explicit(&thread->cancel, MADI_CANCEL_PENDING, memory_order_relaxed);
        return 0;
    }
    if (madi_gone(thread))
        return ESRCH;
    (void)madi_server_probe(); /* without a server (a knob is wrong) there is no barrier, and waiters execute fences */
    madi_static_mutex_lock(&lock);
    atomic_fetch_or_explicit(&thread->cancel, MADI_CANCEL_PENDING | MADI_CANCEL_BUSY, memory_order_seq_cst);
    marceli_barrier();
    party = thread_party(thread);
    if (party)
        party_interrupt(party);
    if (party && !party_end_wait(party))
        party = NULL;
    /* This release pairs with madi_cancel_settle.  The party does not go away, because it waits for madi_wake below. */
    atomic_fetch_and_explicit(&thread->cancel, ~(unsigned)MADI_CANCEL_BUSY, memory_order_release);
    madi_static_mutex_unlock(&lock);
    if (party)
        madi_wake(party);
    return 0;
}

bool madi_cancel_back_out(madi_party_t *party)
{
    unsigned wait = MADI_WAIT_OPEN;
    if (!atomic_compare_exchange_strong_explicit(&party->wait, &wait, MADI_WAIT_PLAIN, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    madi_waitq_remove(party->queue, party);
    return true;
}

void madi_cancel_settle(struct marcel_thread *thread)
{
    while (atomic_load_explicit(&thread->cancel, memory_order_acquire) & MADI_CANCEL_BUSY) {
        marcel_yield();
        sched_yield(); /* the canceller may run on another kernel thread */
    }
}

void madi_cancel_forget(madi_party_t *party)
{
    madi_static_mutex_lock(&lock);
    party->thread->value = NULL;
    madi_static_mutex_unlock(&lock);
}

/* ---- The thread's own side ------------------------------------------------------------------------------------ */

int marcel_setcancelstate(int state, int *old)
{
    madi_party_t *self = madi_party_self();
    unsigned before;
    if (state != MARCEL_CANCEL_ENABLE && state != MARCEL_CANCEL_DISABLE)
        return EINVAL;
    if (!self)
        return ENOMEM;
    if (state == MARCEL_CANCEL_DISABLE)
        before = atomic_fetch_or_explicit(&self->thread->cancel, MADI_CANCEL_OFF, memory_order_relaxed);
    else
        before = atomic_fetch_and_explicit(&self->thread->cancel, ~(unsigned)MADI_CANCEL_OFF, memory_order_relaxed);
    if (old)
        *old = before & MADI_CANCEL_OFF ? MARCEL_CANCEL_DISABLE : MARCEL_CANCEL_ENABLE;
    return 0;
}

void marcel_testcancel(void)
{
    madi_party_t *self = madi_party_self();
    if (self)
        madi_cancel_point(self);
}

void madi_cancel_act(madi_party_t *self)
{
    (void)self;
    marcel_exit(MARCEL_CANCELED);
}
