/* SPDX-License-Identifier: BSD-3-Clause */
/* How a thread stops running, and how it becomes ready again: sched.h has the rules. */
#include "base/clock.h"
#include "engine/leader.h"
#include "marcel/bias.h"
#include "marcel/cancel.h"
#include "marcel/timer_shared.h"
#include "marcel/marcel.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"
#include "marcel/share.h"

#include <errno.h>
#include <marcel.h>
#include <sched.h>

static inline __attribute__((always_inline)) void ult_suspend(madi_worker_t *worker, madi_ult_t *to, madi_post_t post,
                                                              void *arg)
{
    madi_ult_t *self = worker->current;
    self->state = MADI_ULT_BLOCKED;
    worker->post = post;
    worker->post_arg = arg;
    madi_switch_to(worker, self, to);
}

void madi_suspend(madi_worker_t *worker, madi_post_t post, void *arg)
{
    ult_suspend(worker, madi_pick(worker), post, arg);
}

/* Spin for a while before the thread leaves its stack, since no other thread is ready here.  Return true if another
 * thread has woken it.  Wakers find the thread in the queue.  As long as `woken` is SPINS, a waker that takes the thread
 * out of the queue only writes WOKEN there.  A later waker puts the thread into the inbox, which is read only after the
 * thread has left its stack.  Releases the queue's lock. */
static MADI_COLD bool spin_woken(madi_worker_t *worker, madi_ult_t *self, madi_waitq_t *queue)
{
    atomic_uint *woken = &self->party.woken;
    unsigned spins = MADI_PARTY_SPINS;
    atomic_store_explicit(woken, MADI_PARTY_SPINS, memory_order_relaxed);
    madi_waitq_leave(worker, queue);
    for (int i = 0; i < MADI_SPINS && madi_inbox_empty(&worker->inbox); i++) {
        if (atomic_load_explicit(woken, memory_order_acquire) == MADI_PARTY_WOKEN) { /* pairs with wake_spinning */
            __builtin_prefetch(woken, 1); /* fetch the line back from the waker's core, before the next wait writes it */
            return true;
        }
        madi_relax();
    }
    return !atomic_compare_exchange_strong_explicit(woken, &spins, 0, memory_order_acquire, memory_order_acquire);
}

/* Do not spin while other threads of this worker wait for the polling server.  A migratable thread does not spin either:
 * it must have left its stack to be woken, since it is not put into the inbox. */
bool madi_may_spin(madi_worker_t *worker)
{
    if (!worker->n_near || worker->pending || worker->current->moves ||
        atomic_load_explicit(&madi_server.blocked, memory_order_relaxed) || madi_has_others(worker))
        return false;
    if (worker->tick > 1)
        return true;
    if (worker->timers.first || !madi_outside_empty())
        return false; /* the scheduler's own context (base) has to check timers and seeds from outside first */
    worker->tick = MADI_PERIOD;
    madi_count(&worker->periods);
    return true;
}

static void unlock_post(void *lock)
{
    madi_unlock(lock);
}

static void bias_post(void *worker)
{
    madi_bias_leave(worker);
}

/* Suspend the current thread, which holds the queue's lock.  The next thread releases the lock after the switch. */
static inline __attribute__((always_inline)) void suspend_in(madi_worker_t *worker, madi_waitq_t *queue)
{
    madi_ult_t *to = madi_pick(worker);
    bool biased = atomic_load_explicit(&worker->holds, memory_order_relaxed) != NULL;
    madi_post_t post = biased ? bias_post : unlock_post;
    void *arg = biased ? (void *)worker : &queue->lock;
    if (MADI_UNLIKELY(to == worker->base) && madi_may_spin(worker)) {
        if (spin_woken(worker, worker->current, queue))
            return;
        post = NULL;
    }
    ult_suspend(worker, to, post, arg);
}

void madi_clock_looks_begin(madi_worker_t *worker)
{
    if (worker->ticked)
        return;
    if (worker->tick < worker->period)
        worker->switches += worker->period - worker->tick;
    worker->period = worker->tick = 1;
}

void madi_clock_begin(madi_ult_t *self, int64_t deadline)
{
    madi_clock_looks_begin(self->worker);
    if (MADI_UNLIKELY(self->moves)) {
        self->timer.deadline = deadline;
        madi_timer_shared_enter(self);
    } else {
        madi_timer_arm(&self->worker->timers, &self->timer, deadline);
    }
}

static void clock_stop(madi_ult_t *self)
{
    if (MADI_UNLIKELY(self->moves))
        madi_timer_shared_leave(self);
    else if (MADI_UNLIKELY(self->timer.back)) /* the thread was woken before the deadline, so the timer is still armed */
        madi_timer_disarm(&self->worker->timers, &self->timer);
}

int madi_clock_end(madi_ult_t *self)
{
    clock_stop(self);
    return madi_wait_end(&self->party);
}

/* Like suspend_in, but until the deadline at the latest. */
static MADI_COLD int suspend_timed(madi_ult_t *self, madi_waitq_t *queue, int64_t deadline)
{
    self->party.queue = queue;
    atomic_store_explicit(&self->party.wait, MADI_WAIT_TIMED, memory_order_relaxed);
    madi_clock_begin(self, deadline);
    suspend_in(self->worker, queue);
    return madi_clock_end(self);
}

/* Post-switch function of a migratable thread: after it has left its stack, a cancel can find it. */
static void sleep_post(void *arg)
{
    madi_ult_t *ult = arg;
    atomic_store_explicit(&ult->party.wait, MADI_WAIT_OPEN, memory_order_release); /* pairs with madi_claim, as below */
    if (madi_cancel_missed(&ult->party))
        madi_ready(ult);
}

static int sleep_movable(madi_ult_t *self, int64_t deadline, bool off)
{
    atomic_store_explicit(&self->party.wait, off ? MADI_WAIT_TIMED : MADI_WAIT_PLAIN, memory_order_relaxed);
    madi_clock_begin(self, deadline);
    madi_suspend(self->worker, off ? NULL : sleep_post, self);
    return madi_clock_end(self);
}

int madi_sleep_until(madi_party_t *self, int64_t deadline)
{
    madi_ult_t *ult = MADI_PARTY_ULT(self);
    bool off = madi_cancel_off(self->thread);
    if (self->plain)
        return madi_plain_thread_block(self, NULL, deadline, off ? MADI_WAIT_TIMED : MADI_WAIT_OPEN);
    self->queue = NULL;
    if (MADI_UNLIKELY(ult->moves))
        return sleep_movable(ult, deadline, off);
    madi_clock_begin(ult, deadline);
    atomic_store_explicit(&self->wait, off ? MADI_WAIT_TIMED : MADI_WAIT_OPEN, memory_order_release); /* as below */
    if (off || !madi_cancel_missed(self))
        madi_suspend(ult->worker, NULL, NULL);
    return madi_clock_end(ult);
}

void madi_suspend_until(madi_ult_t *self, madi_post_t post, void *arg, int64_t deadline)
{
    if (deadline == MADI_NEVER) {
        madi_suspend(self->worker, post, arg);
        return;
    }
    self->party.queue = NULL;
    atomic_store_explicit(&self->party.wait, MADI_WAIT_TIMED, memory_order_relaxed);
    madi_clock_begin(self, deadline);
    madi_suspend(self->worker, post, arg);
    clock_stop(self);
}

void madi_suspend_end(madi_ult_t *self, bool woken)
{
    while (woken && atomic_load_explicit(&self->party.wait, memory_order_acquire) == MADI_WAIT_EXPIRED)
        sched_yield();
    atomic_store_explicit(&self->party.wait, MADI_WAIT_PLAIN, memory_order_relaxed);
}

void madi_ult_wake(madi_ult_t *ult)
{
    unsigned timed = MADI_WAIT_TIMED;
    if (MADI_LIKELY(atomic_load_explicit(&ult->party.wait, memory_order_relaxed) == MADI_WAIT_PLAIN) ||
        atomic_compare_exchange_strong_explicit(&ult->party.wait, &timed, MADI_WAIT_WOKEN, memory_order_relaxed,
                                                memory_order_relaxed))
        madi_ready(ult);
    else /* the clock has made the thread ready; the thread waits for this store in madi_suspend_end */
        atomic_store_explicit(&ult->party.wait, MADI_WAIT_WOKEN, memory_order_release);
}

int madi_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline)
{
    if (MADI_UNLIKELY(party->plain))
        return madi_plain_thread_block(party, queue, deadline, MADI_WAIT_TIMED);
    if (MADI_UNLIKELY(deadline != MADI_NEVER))
        return suspend_timed(MADI_PARTY_ULT(party), queue, deadline);
    suspend_in(madi_worker_self(), queue);
    return 0;
}

static MADI_COLD int suspend_point_timed(madi_ult_t *self, madi_waitq_t *queue, int64_t deadline)
{
    madi_clock_begin(self, deadline);
    suspend_in(self->worker, queue);
    return madi_clock_end(self);
}

int madi_block_point(madi_party_t *party, madi_waitq_t *queue, int64_t deadline)
{
    if (MADI_UNLIKELY(madi_cancel_off(party->thread)))
        return madi_block(party, queue, deadline);
    if (MADI_UNLIKELY(party->plain))
        return madi_plain_thread_block(party, queue, deadline, MADI_WAIT_OPEN);
    party->queue = queue;
    atomic_store_explicit(&party->wait, MADI_WAIT_OPEN, memory_order_release); /* pairs with madi_claim */
    if (MADI_UNLIKELY(madi_cancel_missed_here(party))) {
        madi_waitq_leave(madi_worker_self(), queue);
        return ECANCELED;
    }
    if (MADI_UNLIKELY(deadline != MADI_NEVER))
        return suspend_point_timed(MADI_PARTY_ULT(party), queue, deadline);
    suspend_in(madi_worker_self(), queue);
    return madi_wait_end(party);
}

static bool claim_join(madi_party_t *party, unsigned wait, unsigned how)
{
    struct marcel_thread *joins = atomic_load_explicit(&party->joins, memory_order_relaxed);
    uintptr_t joiner = (uintptr_t)party;
    if (wait == MADI_WAIT_JOINS_TIMED && how == MADI_WAIT_CANCELLED)
        return false;
    /* The join may be over: then `joins` still points to a record, whose `joiner` is not this party. */
    if (!atomic_compare_exchange_strong_explicit(&joins->joiner, &joiner, MADI_JOINER_NONE, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&party->wait, how, memory_order_relaxed);
    return true;
}

bool madi_claim_begin(madi_party_t *party, unsigned how, madi_waitq_t **queue)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_acquire);
    *queue = NULL;
    if (wait == MADI_WAIT_JOINS_TIMED || wait == MADI_WAIT_JOINS_OPEN)
        return claim_join(party, wait, how);
    if ((wait != MADI_WAIT_TIMED || how == MADI_WAIT_CANCELLED) && wait != MADI_WAIT_OPEN)
        return false;
    /* this acquire pairs with the waiter's release, which makes party->queue visible */
    if (!atomic_compare_exchange_strong_explicit(&party->wait, &wait, how, memory_order_acquire, memory_order_relaxed))
        return false;
    *queue = party->queue; /* party->queue stays unchanged, since no other thread can wake the party now */
    return true;
}

void madi_claim_end(madi_party_t *party, madi_waitq_t *queue)
{
    if (!queue)
        return;
    madi_waitq_lock(queue);
    madi_waitq_remove(queue, party);
    madi_unlock(&queue->lock);
}

bool madi_claim(madi_party_t *party, unsigned how)
{
    madi_waitq_t *queue;
    if (!madi_claim_begin(party, how, &queue))
        return false;
    madi_claim_end(party, queue);
    return true;
}

void madi_ready_here(madi_worker_t *worker, madi_ult_t *ult)
{
    if (MADI_UNLIKELY(ult->moves)) {
        madi_movable_put(worker, ult);
        return;
    }
    if (MADI_UNLIKELY(ult->timer.back))
        madi_timer_disarm(&worker->timers, &ult->timer);
    madi_queue_put(worker, ult);
}

void madi_ready(madi_ult_t *ult)
{
    madi_worker_t *worker = ult->worker;
    if (MADI_LIKELY(madi_worker_self() == worker)) {
        madi_ready_here(worker, ult);
        return;
    }
    if (MADI_UNLIKELY(ult->moves)) {
        madi_movable_send(worker, ult); /* the thread's worker may be busy for long */
        return;
    }
    madi_inbox_put(&worker->inbox, (uintptr_t)ult);
    madi_worker_wake(worker);
}

/* Wake the thread if it is in spin_woken; return false if it is not.  The release pairs with the acquire there. */
static inline bool wake_spinning(madi_party_t *party)
{
    unsigned spins = MADI_PARTY_SPINS;
    return MADI_UNLIKELY(atomic_load_explicit(&party->woken, memory_order_relaxed) == MADI_PARTY_SPINS) &&
           atomic_compare_exchange_strong_explicit(&party->woken, &spins, MADI_PARTY_WOKEN, memory_order_release,
                                                   memory_order_relaxed);
}

void madi_wake(madi_party_t *party)
{
    if (MADI_UNLIKELY(party->plain))
        madi_plain_thread_wake(party);
    else if (!wake_spinning(party))
        madi_ready(MADI_PARTY_ULT(party));
}

void madi_wake_all(madi_waitq_t *queue)
{
    madi_party_t *all = NULL, **end = &all, *party;
    while ((party = madi_waitq_take(queue))) {
        *end = party; /* the party's links are free, because it is in no queue until it is woken */
        end = &party->next;
    }
    *end = NULL;
    madi_unlock(&queue->lock);
    while ((party = all)) {
        all = party->next;
        madi_wake(party);
    }
}

int madi_waitq_close(madi_waitq_t *queue)
{
    bool left = false, waits = false;
    while (!left && !waits) {
        madi_waitq_lock(queue); /* the queue is locked once, so that the last waker has left the queue */
        madi_party_t *party = queue->first;
        left = !party;
        while (party && !(waits = madi_waitq_waits(party)) && party->next != queue->first)
            party = party->next;
        madi_unlock(&queue->lock);
        if (!left && !waits)
            marcel_yield();
    }
    return waits ? EBUSY : 0;
}
