/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of user-level threads: a seed gets a slot, runs, and ends. */
#include "marcel/cancel.h"
#include "marcel/key.h"
#include "marcel/marcel.h"
#include "marcel/traits.h"
#include "marcel/sched.h"

#include <marcel.h>

/* ---- The beginning -------------------------------------------------------------------------------------------- */

static madi_ult_t *thread_slot(madi_worker_t *worker, const struct marcel_thread *thread)
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
        ult->moves = true;
}

madi_ult_t *madi_ult_start(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *ult = thread_slot(worker, thread);
    if (MADI_UNLIKELY(!ult))
        return NULL;
    madi_ult_worker_set(ult, worker);
    ult->state = MADI_ULT_BLOCKED;
    ult->priority = MADI_USUAL;
    ult->flags &= MADI_ULT_CANARY;
    ult->moves = false;
    atomic_store_explicit(&ult->clocks, false, memory_order_relaxed);
    ult->party.thread = thread;
    ult->party.keys = NULL;
    ult->party.cleanup = NULL;
    ult->party.plain = false;
    ult->party.n_read = 0;
    ult->party.interrupted = NULL;
    atomic_store_explicit(&ult->party.woken, 0, memory_order_relaxed);
    atomic_store_explicit(&ult->party.wait, MADI_WAIT_PLAIN, memory_order_relaxed);
    ult->timer.back = NULL;
    if (MADI_UNLIKELY(thread->traits))
        start_with_traits(ult, thread->traits);
    madi_sanitizer_begin(&ult->sanitizer, madi_slot_low(ult), madi_slot_room(ult));
    ult->sp = madi_switch_frame(ult, madi_ult_main);
    /* the control block is complete before another thread can find it */
    atomic_store_explicit(&thread->ult, ult, memory_order_release);
    return ult;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

static void thread_ended_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_sanitizer_end(&ult->sanitizer);
    if (ult->shift != madi_marcel.slot_shift)
        madi_slot_put(ult);
}

/* End a thread whose joiner does not wait in place; return the next thread. */
static madi_ult_t *end_alone(madi_worker_t *worker, struct marcel_thread *thread)
{
    /* release: the result is visible to the joiner; acquire: the joiner's writes are visible here */
    uintptr_t joiner = atomic_exchange_explicit(&thread->joiner, MADI_JOINER_ENDED, memory_order_acq_rel);
    if (joiner == MADI_JOINER_DETACHED)
        madi_record_put(worker, thread);
    else if (joiner != MADI_JOINER_NONE)
        madi_wake((madi_party_t *)joiner);
    return madi_pick(worker);
}

/* End a thread whose joiner waits in place.  Return the joiner, or another thread if this one has moved to another
 * worker. */
static inline __attribute__((always_inline)) madi_ult_t *end_in_place(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *to = MADI_PARTY_ULT((madi_party_t *)atomic_load_explicit(&thread->joiner, memory_order_relaxed));
    if (MADI_LIKELY(to->worker == worker))
        return to;
    madi_ready(to);
    return madi_pick(worker);
}

/* End the thread.  Inlined, because a call that never returns makes the processor mispredict the returns of marcel_join
 * (switch.h). */
static inline __attribute__((always_inline, noreturn)) void ult_finish(madi_ult_t *self, void *value)
{
    struct marcel_thread *thread = self->party.thread;
    madi_worker_t *worker;
    madi_ult_t *to;
    if (MADI_UNLIKELY(self->party.keys))
        madi_keys_end(&self->party);
    worker = madi_worker_self();
    if (MADI_UNLIKELY(!worker))
        worker = madi_ult_self()->worker; /* the thread has returned to its worker */
    thread->value = value;
    atomic_store_explicit(&thread->ult, NULL, memory_order_relaxed);
    if (MADI_UNLIKELY(madi_cancel_busy(thread))) {
        madi_cancel_settle(thread);
        worker = madi_worker_self();
    }
    madi_count_release(&worker->ended); /* pairs with marcel_fini */
    if (MADI_LIKELY(self->flags & MADI_ULT_IN_PLACE))
        to = end_in_place(worker, thread);
    else
        to = end_alone(worker, thread);
    self->state = MADI_ULT_NONE;
    to->state = MADI_ULT_RUNNING;
    worker->current = to;
    if (MADI_UNLIKELY(((self->flags | to->flags) & MADI_ULT_BOTH) | madi_cxx_held(&worker->cxx)))
        madi_switch_extra(worker, self, to);
    /* Free the slot only now.  If the slot were free earlier, `to` could have been started on it. */
    bool usual = self->shift == madi_marcel.slot_shift;
    if (MADI_LIKELY(usual))
        madi_worker_slot_put(worker, self);
    if (!usual || MADI_SANITIZER_END) {
        worker->post = thread_ended_post;
        worker->post_arg = self;
    }
    madi_sanitizer_leave(&self->sanitizer, &to->sanitizer, 1);
    madi_switch_leave(to->sp);
}

static void ult_end(void)
{
    madi_ult_t *self = madi_ult_self();
    ult_finish(self, self->party.thread->value);
}

void madi_ult_end_anew(madi_ult_t *self)
{
    madi_switch_leave(madi_switch_frame(self, ult_end));
}

void madi_ult_main(void)
{
    madi_ult_t *self = madi_ult_self();
    struct marcel_thread *thread = self->party.thread;
    madi_arrive(self);
    ult_finish(self, thread->run(thread->value));
}
