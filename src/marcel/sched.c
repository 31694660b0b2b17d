/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of the next thread: queues, seeds, periodic checks, yield. */
#include "marcel/sched.h"
#include "base/clock.h"
#include "engine/leader.h"
#include "marcel/cancel.h"
#include "marcel/guard.h"
#include "marcel/timer_shared.h"
#include "marcel/marcel.h"
#include "marcel/traits.h"
#include "marcel/share.h"

#include <marcel.h>
#include <sched.h>

/* ns: maximum length of a period while a thread waits for the clock or the polling server */
#define PERIOD_NS INT64_C(100000)

_Static_assert(MADI_USUAL == MARCEL_PRIORITY_MAX - MARCEL_PRIORITY_DEFAULT && MADI_LEVELS == MARCEL_PRIORITY_MAX + 1,
               "levels are priorities counted from the highest");

/* ---- Seeds ---------------------------------------------------------------------------------------------------- */

static MADI_COLD void seed_put_back(madi_worker_t *worker, struct marcel_thread *thread)
{
    worker->starved = true; /* try again repeatedly, since a thread may end and free a slot */
    madi_inbox_put(&worker->inbox, (uintptr_t)thread | 1);
}

madi_ult_t *madi_pick_other(madi_worker_t *worker)
{
    madi_ult_t *ult = madi_movable_take(worker);
    struct marcel_thread *thread;
    if (ult)
        return ult;
    thread = madi_deque_pop(&worker->deque);
    if (!thread)
        return worker->base;
    if (MADI_LIKELY(worker->slots && !thread->traits))
        return madi_ult_start(worker, thread);
    worker->pending = thread;
    return worker->base;
}

MADI_COLD madi_ult_t *madi_pick_by_priority(madi_worker_t *worker)
{
    madi_ult_t *ult = madi_queue_first(worker);
    if (madi_usual_waits(worker) && (!ult || ult->priority > MADI_USUAL))
        return madi_pick_other(worker);
    if (!ult)
        return worker->base;
    madi_queue_out(worker, ult);
    return ult;
}

/* Accept a seed from the inbox.  A seed with a placement or a priority is started; any worker may take other seeds. */
static void seed_receive(madi_worker_t *worker, struct marcel_thread *thread)
{
    const madi_traits_t *traits = thread->traits;
    bool bound = traits && (traits->placement >= 0 || traits->priority != MARCEL_PRIORITY_DEFAULT);
    madi_ult_t *ult;
    if (!bound && !madi_deque_push(&worker->deque, thread)) {
        madi_shared(worker);
        return;
    }
    ult = madi_ult_start(worker, thread);
    if (ult)
        madi_ready_here(worker, ult);
    else
        seed_put_back(worker, thread);
}

void madi_send(madi_worker_t *worker, struct marcel_thread *thread)
{
    if (worker == madi_worker_self()) {
        seed_receive(worker, thread);
        return;
    }
    madi_inbox_put(&worker->inbox, (uintptr_t)thread | 1);
    madi_worker_wake(worker);
}

/* ---- Now and then --------------------------------------------------------------------------------------------- */

static void timers_run(madi_worker_t *worker)
{
    int64_t now = madi_now();
    madi_timer_t *timer;
    while ((timer = madi_timer_due(&worker->timers, now))) {
        madi_ult_t *ult = MADI_CONTAINER(timer, madi_ult_t, timer);
        if (madi_claim(&ult->party, MADI_WAIT_EXPIRED)) /* otherwise the inbox brings the thread: its wait was ended */
            madi_ready_here(worker, ult);
    }
    madi_timer_shared_run(worker, now);
}

static bool clock_is_waited_for(madi_worker_t *worker)
{
    return worker->timers.first || madi_timer_shared_next() != MADI_NEVER;
}

static void inbox_read(madi_worker_t *worker)
{
    uintptr_t item = madi_inbox_take(&worker->inbox);
    while (item) {
        uintptr_t next = *madi_inbox_link(item);
        if (item & 1)
            seed_receive(worker, (struct marcel_thread *)(item - 1));
        else
            madi_ready_here(worker, (madi_ult_t *)item);
        item = next;
    }
}

static madi_ult_t *seed_start_or_put_back(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *ult = madi_ult_start(worker, thread);
    if (!ult)
        seed_put_back(worker, thread);
    return ult;
}

static madi_ult_t *oldest_seed_take(madi_worker_t *worker)
{
    struct marcel_thread *thread = madi_outside_take();
    if (!thread && !madi_deque_empty(&worker->deque))
        thread = madi_deque_steal(&worker->deque);
    return thread ? seed_start_or_put_back(worker, thread) : NULL;
}

/* Take the oldest migratable thread and the oldest seed alternately. */
static MADI_COLD madi_ult_t *oldest_take_by_turns(madi_worker_t *worker)
{
    madi_ult_t *ult = NULL;
    for (int i = 0; i < 2 && !ult; i++) {
        worker->movable_turn = !worker->movable_turn;
        ult = worker->movable_turn ? madi_movable_take(worker) : oldest_seed_take(worker);
    }
    return ult;
}

/* Take, once in a period, the oldest of the threads and seeds that are otherwise passed over.  The taken thread runs
 * immediately, because in a queue of this worker no other worker could take it.  If each switch is a period, only every
 * second switch does this, and the others run the queue. */
static madi_ult_t *oldest_pick(madi_worker_t *worker)
{
    madi_ult_t *first = madi_queue_first(worker), *ult;
    if (first && first->priority < MADI_USUAL) /* take no such thread or seed, since a thread of higher priority comes
                                                * first */
        return NULL;
    ult = madi_movable_empty(worker) ? oldest_seed_take(worker) : oldest_take_by_turns(worker);
    if (ult && worker->tick == 1)
        worker->tick = worker->period = 2;
    return ult;
}

/* Shorten the period if threads compute for long between two switches, so that the clock and events are checked more
 * often. */
static MADI_COLD void period_adapt(madi_worker_t *worker)
{
    int64_t now = madi_now(), took = worker->ticked ? now - worker->ticked : 0, period = MADI_PERIOD;
    worker->ticked = now;
    if (took > PERIOD_NS / MADI_PERIOD)
        period = worker->period * PERIOD_NS / took;
    if (period > 2 * (int64_t)worker->period) /* one short switch among long ones is no evidence */
        period = 2 * (int64_t)worker->period;
    worker->period = period < 1 ? 1 : period < MADI_PERIOD ? (uint32_t)period : MADI_PERIOD;
    if (madi_server_has_waiters())
        madi_server_tick(worker, now);
}

static void period_begin(madi_worker_t *worker)
{
    worker->switches += worker->period;
    if (worker->switches >= MADI_PERIOD) {
        worker->switches -= MADI_PERIOD;
        madi_count(&worker->periods);
    }
    if (MADI_UNLIKELY(clock_is_waited_for(worker) || madi_server_has_waiters() || worker->period < MADI_PERIOD))
        period_adapt(worker);
    else
        worker->ticked = 0;
    worker->tick = worker->period;
}

madi_ult_t *madi_pick_all(madi_worker_t *worker)
{
    struct marcel_thread *thread = worker->pending;
    madi_ult_t *ult = worker->stolen;
    bool period = worker->tick == 0;
    worker->starved = false;
    if (!madi_inbox_empty(&worker->inbox))
        inbox_read(worker);
    if (clock_is_waited_for(worker) && (period || !madi_queue_first(worker)))
        timers_run(worker);
    if (period)
        period_begin(worker);
    if (MADI_UNLIKELY(ult != NULL)) {
        worker->stolen = NULL;
        if (!madi_queue_first(worker))
            return ult;
        madi_movable_put(worker, ult); /* another thread has become ready meanwhile, so another worker may take this one */
    }
    if (period && !thread && (ult = oldest_pick(worker)))
        return ult;
    worker->pending = NULL;
    ult = madi_queue_first(worker);
    if (!thread && (!ult || ult->priority > MADI_USUAL)) {
        ult = madi_movable_take(worker);
        if (ult)
            return ult;
        thread = madi_deque_pop(&worker->deque);
        if (!thread)
            thread = madi_outside_take();
    }
    if (thread) {
        ult = seed_start_or_put_back(worker, thread);
        if (ult)
            return ult;
    }
    return madi_queue_take(worker);
}

/* Turn a join in place into a usual join, because the joined thread blocks or yields.  The joiner then does not run
 * right after the end of the joined thread, but waits like others, and a cancel can end that wait. */
static void join_in_place_end(madi_ult_t *ult)
{
    struct marcel_thread *thread = ult->party.thread;
    madi_party_t *joiner = (madi_party_t *)atomic_load_explicit(&thread->joiner, memory_order_relaxed);
    ult->flags &= ~(uint32_t)MADI_ULT_IN_PLACE;
    if (madi_cancel_off(joiner->thread))
        return;
    atomic_store_explicit(&joiner->joins, thread, memory_order_relaxed);
    /* Until this store no other thread touches the joiner.  Afterwards a canceller may make it ready on another worker. */
    atomic_store_explicit(&joiner->wait, MADI_WAIT_JOINS_SOON, memory_order_release); /* pairs with marcel_cancel */
    if (madi_cancel_pending_now(joiner->thread)) {
        atomic_store_explicit(&thread->joiner, MADI_JOINER_NONE, memory_order_relaxed);
        atomic_store_explicit(&joiner->wait, MADI_WAIT_CANCELLED, memory_order_relaxed);
        madi_ready(MADI_PARTY_ULT(joiner)); /* the calling thread may have no worker (carrier.c) */
    } else {
        atomic_store_explicit(&joiner->wait, MADI_WAIT_JOINS_OPEN, memory_order_release); /* pairs with madi_claim */
    }
}

void madi_switch_extra(madi_worker_t *worker, madi_ult_t *from, madi_ult_t *to)
{
    if (madi_cxx_held(&worker->cxx) || to->flags & MADI_ULT_THROWS)
        madi_cxx_switch(&worker->cxx, from, to);
    if ((from->flags & MADI_ULT_IN_PLACE) && from->state != MADI_ULT_NONE)
        join_in_place_end(from);
    if (from->flags & MADI_ULT_TIMER_SHARED)
        madi_timer_shared_switch(from);
    if (from->flags & MADI_ULT_CANARY)
        madi_guard_check(from);
    if (from->flags & MADI_ULT_KEEPS_FP)
        madi_fp_save(&from->fp);
    if (to->flags & MADI_ULT_KEEPS_FP)
        madi_fp_load(&to->fp);
    else if (from->flags & MADI_ULT_KEEPS_FP)
        madi_fp_load(&madi_marcel.fp);
}

/* ---- Yield ----------------------------------------------------------------------------------------------------- */

static void movable_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_movable_put(ult->worker, ult);
}

/* Yield a migratable thread: other workers must not take it before it has left its stack. */
static MADI_COLD void worker_yield_movable(madi_worker_t *worker)
{
    if (!madi_has_others(worker) && worker->tick > 1) {
        worker->tick--;
        return;
    }
    madi_suspend(worker, movable_post, worker->current);
}

void madi_yield_now(madi_worker_t *worker, madi_ult_t *to)
{
    madi_ult_t *self = worker->current;
    if (self->moves) {
        self->state = MADI_ULT_BLOCKED;
        worker->post = movable_post;
        worker->post_arg = self;
    } else {
        madi_queue_put(worker, self);
    }
    madi_switch_to(worker, self, to);
}

static inline __attribute__((always_inline)) void worker_yield(madi_worker_t *worker)
{
    madi_ult_t *self = worker->current, *to;
    if (MADI_UNLIKELY(self->moves)) {
        worker_yield_movable(worker);
        return;
    }
    if (MADI_LIKELY(madi_queue_first(worker)) || MADI_UNLIKELY(self->priority < MADI_USUAL)) {
        madi_queue_put(worker, self); /* the thread itself may be the first of the queue again */
        to = madi_pick(worker);
    } else {
        if (madi_deque_empty(&worker->deque) && madi_inbox_empty(&worker->inbox) && worker->tick > 1 &&
            madi_movable_empty(worker)) {
            worker->tick--; /* skip the choice: no other thread seems to be ready */
            return;
        }
        to = madi_pick(worker);
        madi_queue_put(worker, self);
    }
    if (MADI_LIKELY(to != self))
        madi_switch_to(worker, self, to);
    else
        self->state = MADI_ULT_RUNNING;
}

void madi_yield(madi_worker_t *worker)
{
    worker_yield(worker);
}

/* In this file so that worker_yield is inlined: another call would add a tenth of the cost. */
int marcel_yield(void)
{
    madi_worker_t *worker = madi_worker_self();
    if (MADI_LIKELY(worker))
        worker_yield(worker);
    else if (!madi_ult_self()) /* madi_ult_self has returned a detached thread to its worker */
        sched_yield();
    return 0;
}
