/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation, join and detachment of threads, identity, and marcel_yield_to. */
#include "marcel/cancel.h"
#include "marcel/join.h"
#include "marcel/marcel.h"
#include "marcel/traits.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"
#include "marcel/share.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Create --------------------------------------------------------------------------------------------------- */

static void record_init(struct marcel_thread *thread, void *(*run)(void *), void *arg)
{
    thread->run = run;
    thread->value = arg;
    atomic_store_explicit(&thread->joiner, MADI_JOINER_NONE, memory_order_relaxed);
    atomic_store_explicit(&thread->ult, NULL, memory_order_relaxed);
    atomic_store_explicit(&thread->cancel, 0, memory_order_relaxed);
}

/* Create a thread with attributes, or from a plain pthread.  here: the caller's worker; NULL for a plain pthread.  *out
 * is written before the thread is handed over, since the thread may run immediately. */
static MADI_COLD int create_with(marcel_t *out, const marcel_attr_t *attr, void *(*run)(void *), void *arg,
                                 madi_worker_t *here)
{
    madi_traits_t traits;
    struct marcel_thread *thread;
    int rc = here ? 0 : marcel_init();
    madi_traits_of(&traits, attr);
    if (rc)
        return rc;
    if (traits.placement >= marcel_worker_count() || (traits.stack && madi_slot_shift(traits.stack) > MADI_SLOT_SHIFT_MAX))
        return EINVAL;
    thread = madi_record_get(here);
    if (!thread)
        return EAGAIN;
    record_init(thread, run, arg);
    if (attr) {
        thread->traits = malloc(sizeof traits);
        if (!thread->traits) {
            madi_record_put(here, thread);
            return EAGAIN;
        }
        *thread->traits = traits;
        if (traits.detached)
            atomic_store_explicit(&thread->joiner, MADI_JOINER_DETACHED, memory_order_relaxed);
    }
    atomic_store_explicit(&thread->state, MADI_TAKEN, memory_order_relaxed);
    if (here)
        madi_count(&here->created);
    else
        atomic_fetch_add_explicit(&madi_marcel.from_outside, 1, memory_order_relaxed);
    *out = thread;
    if (traits.placement >= 0)
        madi_send(&madi_marcel.workers[traits.placement], thread);
    else if (here)
        madi_send(here, thread);
    else
        madi_outside_put(thread);
    return 0;
}

int marcel_create(marcel_t *out, const marcel_attr_t *attr, void *(*run)(void *), void *arg)
{
    madi_worker_t *worker = madi_worker_self();
    struct marcel_thread *thread;
    if (MADI_UNLIKELY(!worker || attr))
        return create_with(out, attr, run, arg, worker);
    thread = madi_record_get(worker);
    if (MADI_UNLIKELY(!thread))
        return EAGAIN;
    record_init(thread, run, arg);
    if (MADI_UNLIKELY(madi_deque_room(&worker->deque))) {
        madi_record_put(worker, thread);
        return EAGAIN;
    }
    madi_count(&worker->created);
    *out = thread;
    madi_deque_push(&worker->deque, thread);
    madi_shared(worker);
    return 0;
}

/* ---- Join ----------------------------------------------------------------------------------------------------- */

/* Run the taken seed in place, and return when it has ended.  Return false if there is no slot for the seed. */
static inline bool join_in_place(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *self = worker->current, *ult;
    madi_deque_forget(&worker->deque, thread);
    ult = madi_ult_start(worker, thread);
    if (MADI_UNLIKELY(!ult))
        return false;
    ult->flags |= MADI_ULT_IN_PLACE;
    atomic_store_explicit(&thread->joiner, (uintptr_t)&self->party, memory_order_relaxed);
    self->state = MADI_ULT_BLOCKED;
    madi_switch_to(worker, self, ult);
    return true;
}

static MADI_COLD int join_plain(struct marcel_thread *thread)
{
    madi_party_t *party = madi_party_self();
    int rc;
    if (!party)
        return ENOMEM;
    if (thread == party->thread)
        return EDEADLK;
    madi_cancel_point(party);
    rc = madi_join_wait(party, thread, MADI_NEVER);
    if (rc == ECANCELED)
        madi_cancel_act(party);
    return rc;
}

/* Let other threads run first.  Called once in a period. */
static MADI_COLD void join_yield(madi_worker_t *worker)
{
    worker->tick = 1;
    madi_yield(worker);
}

static int thread_join(madi_worker_t *worker, madi_party_t *self, struct marcel_thread *thread)
{
    if (MADI_UNLIKELY(self->thread == thread))
        return EDEADLK;
    madi_cancel_point(self);
    if (MADI_UNLIKELY(!madi_seed_take(thread)))
        return madi_join_wait(self, thread, MADI_NEVER);
    if (MADI_UNLIKELY(--worker->tick == 0))
        join_yield(worker);
    worker = madi_worker_self();
    if (MADI_LIKELY(join_in_place(worker, thread))) /* `wait` is PLAIN if the seed ended without blocking */
        return MADI_LIKELY(atomic_load_explicit(&self->wait, memory_order_relaxed) == MADI_WAIT_PLAIN) ? 0
                                                                                                       : madi_wait_end(self);
    madi_send(worker, thread);
    return madi_join_wait(self, thread, MADI_NEVER);
}

int marcel_join(marcel_t thread, void **result)
{
    madi_worker_t *worker = madi_worker_self();
    int rc;
    if (MADI_UNLIKELY(!worker)) {
        rc = join_plain(thread);
    } else {
        madi_party_t *self = &worker->current->party;
        rc = thread_join(worker, self, thread);
        if (MADI_UNLIKELY(rc == ECANCELED))
            madi_cancel_act(self);
    }
    if (MADI_UNLIKELY(rc))
        return rc;
    if (result)
        *result = thread->value;
    madi_record_put(madi_worker_self(), thread);
    return 0;
}

int marcel_detach(marcel_t thread)
{
    uintptr_t joiner = MADI_JOINER_NONE;
    if (madi_gone(thread))
        return ESRCH;
    if (atomic_compare_exchange_strong_explicit(&thread->joiner, &joiner, MADI_JOINER_DETACHED, memory_order_acq_rel,
                                                memory_order_acquire))
        return 0;
    if (joiner != MADI_JOINER_ENDED)
        return EINVAL;
    madi_record_put(madi_worker_self(), thread);
    return 0;
}

/* ---- The rest ------------------------------------------------------------------------------------------------- */

marcel_t marcel_self(void)
{
    madi_party_t *party = madi_party_self();
    return party ? party->thread : NULL;
}

int marcel_equal(marcel_t a, marcel_t b)
{
    return a == b;
}

int marcel_is_thread(void)
{
    return madi_ult_self() != NULL;
}

int marcel_worker_index(void)
{
    madi_ult_t *self = madi_ult_self();
    return self ? self->worker->index : -1;
}

static bool thread_switch_now(madi_worker_t *worker, struct marcel_thread *thread)
{
    madi_ult_t *self = worker->current, *ult;
    if (madi_seed_take(thread)) {
        madi_deque_forget(&worker->deque, thread);
        ult = madi_ult_start(worker, thread);
        if (!ult) {
            madi_send(worker, thread);
            return false;
        }
    } else {
        ult = atomic_load_explicit(&thread->ult, memory_order_acquire);
        if (!ult || ult == self || __atomic_load_n(&ult->worker, __ATOMIC_RELAXED) != worker || ult->moves ||
            ult->state != MADI_ULT_READY || ult->party.thread != thread)
            return false;
        madi_queue_out(worker, ult);
    }
    madi_yield_now(worker, ult);
    return true;
}

int marcel_yield_to(marcel_t thread)
{
    madi_worker_t *worker = madi_worker_self();
    if (!worker || !thread_switch_now(worker, thread))
        marcel_yield();
    return 0;
}
