/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/sched.h"
#include "base/clock.h"
#include "marcel/cancel.h"
#include "marcel/guard.h"
#include "marcel/key.h"
#include "marcel/lead.h"
#include "marcel/marcel.h"
#include "marcel/party.h"
#include "marcel/name.h"
#include "marcel/share.h"

#include <errno.h>
#include <marcel.h>
#include <sched.h>

_Static_assert(MADI_USUAL == MARCEL_PRIORITY_MAX - MARCEL_PRIORITY_DEFAULT && MADI_LEVELS == MARCEL_PRIORITY_MAX + 1,
               "levels are priorities counted from the highest");

/* ---- Seeds ---------------------------------------------------------------------------------------------------- */

static void ult_main(void);

static madi_ult_t *slot_for(madi_worker_t *worker, const struct marcel_thread *thread)
{
    size_t stack = thread->traits ? thread->traits->stack : 0;
    unsigned shift = stack ? madi_slot_shift(stack) : madi_marcel.slot_shift;
    return shift == madi_marcel.slot_shift ? madi_worker_slot_get(worker) : madi_slot_get(shift);
}

static MADI_COLD void start_with_traits(madi_ult_t *ult, const madi_traits_t *traits)
{
    ult->priority = (uint8_t)(MARCEL_PRIORITY_MAX - traits->priority);
    if (traits->keep_fp) {
        ult->flags |= MADI_ULT_KEEPS_FP;
        ult->fp = madi_marcel.fp;
    }
    if (traits->migratable && traits->placement < 0 && traits->priority == MARCEL_PRIORITY_DEFAULT)
        ult->flags |= MADI_ULT_MOVES;
}

madi_ult_t *madi_ult_start(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *ult = slot_for(worker, thread);
    if (MADI_UNLIKELY(!ult))
        return NULL;
    madi_ult_worker_set(ult, worker);
    ult->state = MADI_ULT_BLOCKED;
    ult->priority = MADI_USUAL;
    ult->flags &= MADI_ULT_CANARY;
    ult->in_place = false;
    ult->party.thread = thread;
    ult->party.keys = NULL;
    ult->party.cleanup = NULL;
    ult->party.plain = ult->party.clocked = false;
    ult->party.n_read = 0;
    ult->party.interrupted = NULL;
    atomic_store_explicit(&ult->party.woken, 0, memory_order_relaxed);
    atomic_store_explicit(&ult->party.wait, MADI_WAIT_PLAIN, memory_order_relaxed);
    ult->timer.back = NULL;
    if (MADI_UNLIKELY(thread->traits))
        start_with_traits(ult, thread->traits);
    madi_tools_begin(&ult->tools, madi_slot_low(ult), madi_slot_room(ult));
    ult->sp = madi_switch_frame(ult, ult_main);
    atomic_store_explicit(&thread->ult, ult, memory_order_release); /* who finds it finds a control block */
    return ult;
}

static MADI_COLD void put_back(madi_worker_t *worker, struct marcel_thread *thread)
{
    worker->starved = true; /* tried again as long as it takes: somebody may end and leave a slot */
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

/* One that came by the inbox: with a place or a priority it is started, else anybody may have it. */
static void receive(madi_worker_t *worker, struct marcel_thread *thread)
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
        put_back(worker, thread);
}

#define PERIOD_NS INT64_C(100000) /* that one shall take at most, while somebody waits for what it looks at */

/* ---- Now and then --------------------------------------------------------------------------------------------- */

static void timers_run(madi_worker_t *worker)
{
    int64_t now = madi_now();
    madi_timer_t *timer;
    while ((timer = madi_timer_due(&worker->timers, now))) {
        madi_ult_t *ult = MADI_CONTAINER(timer, madi_ult_t, timer);
        if (madi_claim(&ult->party, MADI_WAIT_EXPIRED)) /* else it comes by the inbox */
            madi_ready_here(worker, ult);
    }
}

static void inbox_read(madi_worker_t *worker)
{
    uintptr_t item = madi_inbox_take(&worker->inbox);
    while (item) {
        uintptr_t next = *madi_inbox_link(item);
        if (item & 1)
            receive(worker, (struct marcel_thread *)(item - 1));
        else
            madi_ready_here(worker, (madi_ult_t *)item);
        item = next;
    }
}

static madi_ult_t *start_or_put_back(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *ult = madi_ult_start(worker, thread);
    if (!ult)
        put_back(worker, thread);
    return ult;
}

/* Once in a period the oldest of what is else passed over. */
static struct marcel_thread *pick_oldest(madi_worker_t *worker)
{
    struct marcel_thread *thread = madi_outside_take();
    madi_ult_t *ult = madi_movable_take(worker);
    if (ult)
        madi_queue_put(worker, ult);
    if (!thread && !madi_deque_empty(&worker->deque))
        thread = madi_deque_steal(&worker->deque);
    return thread;
}

/* Threads that compute for long between two switches: the clock, and what comes from outside, are looked at more often. */
static MADI_COLD void clock_looked_at(madi_worker_t *worker)
{
    int64_t now = madi_now(), took = worker->ticked ? now - worker->ticked : 0, period = MADI_PERIOD;
    worker->ticked = now;
    if (took > PERIOD_NS / MADI_PERIOD)
        period = worker->period * PERIOD_NS / took;
    worker->period = period < 1 ? 1 : period < MADI_PERIOD ? (uint32_t)period : MADI_PERIOD;
    if (madi_server_waits())
        madi_server_tick(worker, now);
}

static void period_begin(madi_worker_t *worker)
{
    worker->switches += worker->period;
    if (worker->switches >= MADI_PERIOD) {
        worker->switches -= MADI_PERIOD;
        madi_count(&worker->periods);
    }
    if (MADI_UNLIKELY(worker->timers.first || madi_server_waits() || worker->period < MADI_PERIOD))
        clock_looked_at(worker);
    else
        worker->ticked = 0;
    worker->tick = worker->period;
}

madi_ult_t *madi_pick_all(madi_worker_t *worker)
{
    struct marcel_thread *thread = worker->pending;
    madi_ult_t *ult;
    bool period = worker->tick == 0;
    worker->starved = false;
    if (!madi_inbox_empty(&worker->inbox))
        inbox_read(worker);
    if (worker->timers.first && (period || !madi_queue_first(worker)))
        timers_run(worker);
    if (period) {
        period_begin(worker);
        if (!thread)
            thread = pick_oldest(worker);
    }
    worker->pending = NULL;
    if (!thread && !madi_queue_first(worker)) {
        ult = madi_movable_take(worker);
        if (ult)
            return ult;
        thread = madi_deque_pop(&worker->deque);
        if (!thread)
            thread = madi_outside_take();
    }
    if (thread) {
        ult = start_or_put_back(worker, thread);
        if (ult)
            return ult;
    }
    return madi_queue_take(worker);
}

/* The joiner was to go on as soon as this one ends, without a queue; but this one blocks or yields, and from now on the
 * joiner waits like others: a cancel can end it. */
static void place_leave(madi_ult_t *ult)
{
    struct marcel_thread *thread = ult->party.thread;
    madi_party_t *joiner = (madi_party_t *)atomic_load_explicit(&thread->joiner, memory_order_relaxed);
    ult->in_place = false;
    if (madi_cancel_off(joiner->thread))
        return;
    atomic_store_explicit(&joiner->joins, thread, memory_order_relaxed);
    /* It is ours until it is OPEN: a canceller could make it ready on another worker, where it ends. */
    atomic_store_explicit(&joiner->wait, MADI_WAIT_JOINS_SOON, memory_order_release); /* pairs with marcel_cancel */
    if (madi_cancel_pending_now(joiner->thread)) {
        atomic_store_explicit(&thread->joiner, MADI_JOINER_NONE, memory_order_relaxed);
        atomic_store_explicit(&joiner->wait, MADI_WAIT_CANCELLED, memory_order_relaxed);
        madi_ready(MADI_PARTY_ULT(joiner)); /* the caller may have no worker (carrier.c) */
    } else {
        atomic_store_explicit(&joiner->wait, MADI_WAIT_JOINS_OPEN, memory_order_release); /* pairs with madi_claim */
    }
}

void madi_switch_extra(madi_ult_t *from, madi_ult_t *to)
{
    if (from->in_place && from->state != MADI_ULT_NONE)
        place_leave(from);
    if (from->flags & MADI_ULT_CANARY)
        madi_guard_check(from);
    if (from->flags & MADI_ULT_KEEPS_FP)
        madi_fp_save(&from->fp);
    if (to->flags & MADI_ULT_KEEPS_FP)
        madi_fp_load(&to->fp);
    else if (from->flags & MADI_ULT_KEEPS_FP)
        madi_fp_load(&madi_marcel.fp);
}

/* ---- Block and wake ------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void suspend(madi_worker_t *worker, madi_ult_t *to, madi_post_t post, void *arg)
{
    madi_ult_t *self = worker->current;
    self->state = MADI_ULT_BLOCKED;
    worker->post = post;
    worker->post_arg = arg;
    madi_switch_to(worker, self, to);
}

void madi_suspend(madi_worker_t *worker, madi_post_t post, void *arg)
{
    suspend(worker, madi_pick(worker), post, arg);
}

/* Nobody else is ready here: before it leaves its stack, the thread looks for a while whether a thread elsewhere wakes it.
 * In the queue it can be found; as long as `woken` is SPINS who takes it out says so there, and nowhere else.  Who comes
 * later puts it into the inbox, which is read only when it has left its stack.  Releases the lock; true: woken. */
static MADI_COLD bool spin_woken(madi_worker_t *worker, madi_ult_t *self, madi_waitq_t *queue)
{
    atomic_uint *woken = &self->party.woken;
    unsigned spins = MADI_PARTY_SPINS;
    atomic_store_explicit(woken, MADI_PARTY_SPINS, memory_order_relaxed);
    madi_unlock(&queue->lock);
    for (int i = 0; i < MADI_SPINS && madi_inbox_empty(&worker->inbox); i++) {
        if (atomic_load_explicit(woken, memory_order_acquire) == MADI_PARTY_WOKEN) { /* pairs with wake_spinning */
            __builtin_prefetch(woken, 1); /* back from the waker's core, before it is written in the next wait */
            return true;
        }
        madi_relax();
    }
    return !atomic_compare_exchange_strong_explicit(woken, &spins, 0, memory_order_acquire, memory_order_acquire);
}

/* Others on this worker that wait for the polling server do not wait for that.  And one that moves must be off its stack:
 * it is not put into the inbox. */
bool madi_may_spin(madi_worker_t *worker)
{
    if (!worker->n_near || worker->pending || (worker->current->flags & MADI_ULT_MOVES) ||
        atomic_load_explicit(&madi_server.blocked, memory_order_relaxed) || madi_has_others(worker))
        return false;
    if (worker->tick > 1)
        return true;
    if (worker->timers.first || !madi_outside_empty())
        return false; /* base looks at them */
    worker->tick = MADI_PERIOD;
    madi_count(&worker->periods);
    return true;
}

static void unlock_post(void *lock)
{
    madi_unlock(lock);
}

/* With the queue's lock, which is released. */
static inline __attribute__((always_inline)) void suspend_in(madi_worker_t *worker, madi_waitq_t *queue)
{
    madi_ult_t *to = madi_pick(worker);
    madi_post_t post = unlock_post;
    if (MADI_UNLIKELY(to == worker->base) && madi_may_spin(worker)) {
        if (spin_woken(worker, worker->current, queue))
            return;
        post = NULL;
    }
    suspend(worker, to, post, &queue->lock);
}

void madi_clock_begin(madi_ult_t *self, int64_t deadline)
{
    self->party.clocked = true;
    madi_timer_arm(&self->worker->timers, &self->timer, deadline);
}

static void clock_stop(madi_ult_t *self)
{
    if (MADI_UNLIKELY(self->timer.back)) /* it was woken while it spun */
        madi_timer_disarm(&self->worker->timers, &self->timer);
    self->party.clocked = false;
}

int madi_clock_end(madi_ult_t *self)
{
    clock_stop(self);
    return madi_wait_end(&self->party);
}

/* queue: released as above. */
static MADI_COLD int suspend_timed(madi_ult_t *self, madi_waitq_t *queue, int64_t deadline)
{
    self->party.queue = queue;
    atomic_store_explicit(&self->party.wait, MADI_WAIT_TIMED, memory_order_relaxed);
    madi_clock_begin(self, deadline);
    suspend_in(self->worker, queue);
    return madi_clock_end(self);
}

int madi_sleep_until(madi_party_t *self, int64_t deadline)
{
    madi_ult_t *ult = MADI_PARTY_ULT(self);
    bool off = madi_cancel_off(self->thread);
    if (self->plain)
        return madi_party_block(self, NULL, deadline, off ? MADI_WAIT_TIMED : MADI_WAIT_OPEN);
    self->queue = NULL;
    madi_clock_begin(ult, deadline); /* a canceller that comes now finds it with its timer, and so sends it to its worker */
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
    else /* the clock has made it ready; it waits for this in madi_suspend_end */
        atomic_store_explicit(&ult->party.wait, MADI_WAIT_WOKEN, memory_order_release);
}

int madi_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline)
{
    if (MADI_UNLIKELY(party->plain))
        return madi_party_block(party, queue, deadline, MADI_WAIT_TIMED);
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
        return madi_party_block(party, queue, deadline, MADI_WAIT_OPEN);
    party->queue = queue;
    atomic_store_explicit(&party->wait, MADI_WAIT_OPEN, memory_order_release); /* pairs with madi_claim */
    if (MADI_UNLIKELY(madi_cancel_missed_here(party))) {
        madi_unlock(&queue->lock);
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
    /* It may be another join by now, or none: `joins` is a record all the same, and then not ours. */
    if (!atomic_compare_exchange_strong_explicit(&joins->joiner, &joiner, MADI_JOINER_NONE, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    atomic_store_explicit(&party->wait, how, memory_order_relaxed);
    return true;
}

bool madi_claim(madi_party_t *party, unsigned how)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_acquire);
    madi_waitq_t *queue;
    if (wait == MADI_WAIT_JOINS_TIMED || wait == MADI_WAIT_JOINS_OPEN)
        return claim_join(party, wait, how);
    if ((wait != MADI_WAIT_TIMED || how == MADI_WAIT_CANCELLED) && wait != MADI_WAIT_OPEN)
        return false;
    /* acquire: pairs with the release of who waits, for its queue */
    if (!atomic_compare_exchange_strong_explicit(&party->wait, &wait, how, memory_order_acquire, memory_order_relaxed))
        return false;
    queue = party->queue; /* it stays: nobody else can wake the party */
    if (queue) {
        madi_lock(&queue->lock);
        madi_waitq_remove(queue, party);
        madi_unlock(&queue->lock);
    }
    return true;
}

void madi_ready_here(madi_worker_t *worker, madi_ult_t *ult)
{
    if (MADI_UNLIKELY(ult->timer.back))
        madi_timer_disarm(&worker->timers, &ult->timer);
    if (MADI_UNLIKELY(ult->flags & MADI_ULT_MOVES))
        madi_movable_put(worker, ult);
    else
        madi_queue_put(worker, ult);
}

void madi_ready(madi_ult_t *ult)
{
    madi_worker_t *worker = ult->worker;
    if (MADI_LIKELY(madi_worker_self() == worker)) {
        madi_ready_here(worker, ult);
        return;
    }
    if (MADI_UNLIKELY(ult->flags & MADI_ULT_MOVES) && !ult->party.clocked) {
        madi_movable_send(worker, ult); /* its worker may be busy for long */
        return;
    }
    madi_inbox_put(&worker->inbox, (uintptr_t)ult);
    madi_worker_wake(worker);
}

void madi_send(madi_worker_t *worker, struct marcel_thread *thread)
{
    if (worker == madi_worker_self()) {
        receive(worker, thread);
        return;
    }
    madi_inbox_put(&worker->inbox, (uintptr_t)thread | 1);
    madi_worker_wake(worker);
}

/* Is it in spin_woken?  release: pairs with its acquire. */
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
        madi_party_wake(party);
    else if (!wake_spinning(party))
        madi_ready(MADI_PARTY_ULT(party));
}

void madi_wake_all(madi_waitq_t *queue)
{
    madi_party_t *all = NULL, **end = &all, *party;
    while ((party = madi_waitq_take(queue))) {
        *end = party; /* its links are free: it is in no queue until it is woken */
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
        madi_lock(&queue->lock); /* who woke last has left it */
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

static void movable_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_movable_put(ult->worker, ult);
}

/* One that others may take, which they must not before it is off its stack. */
static MADI_COLD void yield_moving(madi_worker_t *worker)
{
    madi_ult_t *to;
    if (!madi_has_others(worker) && worker->tick > 1) {
        worker->tick--;
        return;
    }
    to = madi_pick(worker);
    suspend(worker, to, movable_post, worker->current);
}

static inline __attribute__((always_inline)) void yield(madi_worker_t *worker)
{
    madi_ult_t *self = worker->current, *to;
    if (MADI_UNLIKELY(self->flags & MADI_ULT_MOVES)) {
        yield_moving(worker);
        return;
    }
    if (MADI_LIKELY(madi_queue_first(worker))) {
        madi_queue_put(worker, self);
        to = madi_pick(worker);
    } else {
        if (madi_deque_empty(&worker->deque) && madi_inbox_empty(&worker->inbox) && worker->tick > 1 &&
            madi_movable_empty(worker)) {
            worker->tick--; /* nobody, as far as can be seen */
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
    yield(worker);
}

/* Here, since a call more is a tenth of it. */
int marcel_yield(void)
{
    madi_worker_t *worker = madi_worker_self();
    if (MADI_LIKELY(worker))
        yield(worker);
    else if (!madi_ult_self()) /* else it has come home */
        sched_yield();
    return 0;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

static void ended_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_tools_end(&ult->tools);
    if (ult->shift != madi_marcel.slot_shift)
        madi_slot_put(ult);
}

/* Nobody waits for it on this worker as a caller does: who then is next? */
static madi_ult_t *end_alone(madi_worker_t *worker, struct marcel_thread *thread)
{
    /* release: the result is there; acquire: what a joiner wrote */
    uintptr_t joiner = atomic_exchange_explicit(&thread->joiner, MADI_JOINER_ENDED, memory_order_acq_rel);
    if (joiner == MADI_JOINER_DETACHED)
        madi_record_put(worker, thread);
    else if (joiner != MADI_JOINER_NONE)
        madi_wake((madi_party_t *)joiner);
    return madi_pick(worker);
}

/* Its joiner goes on at once, unless it has moved away from it. */
static inline __attribute__((always_inline)) madi_ult_t *end_in_place(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *to = MADI_PARTY_ULT((madi_party_t *)atomic_load_explicit(&thread->joiner, memory_order_relaxed));
    if (MADI_LIKELY(to->worker == worker))
        return to;
    madi_ready(to);
    return madi_pick(worker);
}

/* In line, as far as possible: a call from which nobody returns costs the caller of marcel_join (switch.h). */
static inline __attribute__((always_inline, noreturn)) void end(madi_ult_t *self, void *value)
{
    struct marcel_thread *thread = self->party.thread;
    madi_worker_t *worker;
    madi_ult_t *to;
    if (MADI_UNLIKELY(self->party.keys))
        madi_keys_end(&self->party);
    worker = madi_worker_self();
    if (MADI_UNLIKELY(!worker))
        worker = madi_ult_self()->worker; /* it has come home */
    thread->value = value;
    atomic_store_explicit(&thread->ult, NULL, memory_order_relaxed);
    if (MADI_UNLIKELY(madi_cancel_busy(thread))) {
        madi_cancel_settle(thread);
        worker = madi_worker_self();
    }
    madi_count_release(&worker->ended); /* pairs with marcel_fini */
    if (MADI_LIKELY(self->in_place))
        to = end_in_place(worker, thread);
    else
        to = end_alone(worker, thread);
    self->state = MADI_ULT_NONE;
    to->state = MADI_ULT_RUNNING;
    worker->current = to;
    if (MADI_UNLIKELY((self->flags | to->flags) & MADI_ULT_EXTRA))
        madi_switch_extra(self, to);
    /* Only now, so that it was not the slot of who is next. */
    bool usual = self->shift == madi_marcel.slot_shift;
    if (MADI_LIKELY(usual))
        madi_worker_slot_put(worker, self);
    if (!usual || MADI_TOOLS_END) {
        worker->post = ended_post;
        worker->post_arg = self;
    }
    madi_tools_leave(&self->tools, &to->tools, 1);
    madi_switch_leave(to->sp);
}

void madi_ult_end(madi_ult_t *self, void *value)
{
    end(self, value);
}

/* The life of every thread. */
static void ult_main(void)
{
    madi_ult_t *self = madi_ult_self();
    struct marcel_thread *thread = self->party.thread;
    madi_arrive(self);
    end(self, thread->run(thread->value));
}
