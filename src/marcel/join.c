/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins that wait.  A joiner stores its party in the field `joiner` of the other thread, which reads it at its
 * end.  The change of that word decides what makes the joiner ready: the end, the clock, or a cancel (madi_claim). */
#include "marcel/join.h"
#include "marcel/cancel.h"
#include "marcel/marcel.h"
#include "marcel/plain_thread.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <errno.h>
#include <marcel.h>

typedef struct joining {
    struct marcel_thread *thread;
    madi_party_t *self;
} joining_t;

/* Make the party the joiner of the thread; return false if the thread has ended, is detached, or has a joiner. */
static bool joiner_set(struct marcel_thread *thread, madi_party_t *self, uintptr_t *found)
{
    *found = MADI_JOINER_NONE;
    /* release: the joiner's context is saved before; acquire: the thread's result is visible afterwards */
    return atomic_compare_exchange_strong_explicit(&thread->joiner, found, (uintptr_t)self, memory_order_acq_rel,
                                                   memory_order_acquire);
}

/* Post-switch function.  As soon as the party is the joiner, it may run elsewhere, or end. */
static void join_post(void *arg)
{
    joining_t *joining = arg;
    madi_party_t *self = joining->self;
    uintptr_t found;
    if (!joiner_set(joining->thread, self, &found)) {
        /* a canceller no longer waits for this party */
        atomic_store_explicit(&self->wait, MADI_WAIT_PLAIN, memory_order_relaxed);
        madi_ready(MADI_PARTY_ULT(self));
    }
}

static int join_wait_plain(madi_party_t *self, struct marcel_thread *thread, int64_t deadline)
{
    uintptr_t found;
    atomic_store_explicit(&self->woken, 0, memory_order_relaxed);
    if (!joiner_set(thread, self, &found)) {
        atomic_store_explicit(&self->wait, MADI_WAIT_PLAIN, memory_order_relaxed);
        return found == MADI_JOINER_ENDED ? 0 : EINVAL;
    }
    return madi_plain_thread_sleep_until(self, deadline);
}

/* True if the thread waits, in a join, for the caller. */
static bool thread_joins_self(const madi_party_t *self, struct marcel_thread *thread)
{
    madi_ult_t *other = atomic_load_explicit(&thread->ult, memory_order_acquire);
    return other && atomic_load_explicit(&self->thread->joiner, memory_order_relaxed) == (uintptr_t)&other->party;
}

int madi_join_wait(madi_party_t *self, struct marcel_thread *thread, int64_t deadline)
{
    uintptr_t joiner = atomic_load_explicit(&thread->joiner, memory_order_acquire);
    joining_t joining = {thread, self};
    madi_ult_t *ult = MADI_PARTY_ULT(self);
    if (madi_gone(thread))
        return ESRCH;
    if (joiner == MADI_JOINER_ENDED)
        return 0;
    if (joiner != MADI_JOINER_NONE)
        return EINVAL;
    if (thread_joins_self(self, thread))
        return EDEADLK;
    atomic_store_explicit(&self->joins, thread, memory_order_relaxed);
    atomic_store_explicit(&self->wait, madi_cancel_off(self->thread) ? MADI_WAIT_JOINS_TIMED : MADI_WAIT_JOINS_OPEN,
                          memory_order_release); /* pairs with madi_claim */
    if (madi_cancel_pending_now(self->thread)) { /* a cancel that comes later waits until the join is set up */
        atomic_store_explicit(&self->wait, MADI_WAIT_PLAIN, memory_order_relaxed);
        return ECANCELED;
    }
    if (self->plain)
        return join_wait_plain(self, thread, deadline);
    if (deadline != MADI_NEVER)
        madi_clock_begin(ult, deadline);
    madi_suspend(ult->worker, join_post, &joining);
    return deadline != MADI_NEVER ? madi_clock_end(ult) : madi_wait_end(self);
}

/* ---- With a deadline ------------------------------------------------------------------------------------------ */

static int join_until(void *joined, void *result, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    struct marcel_thread *thread = joined;
    int rc;
    if (!self)
        return ENOMEM;
    if (thread == self->thread)
        return EDEADLK;
    madi_cancel_point(self);
    rc = madi_join_wait(self, thread, deadline);
    if (rc == ECANCELED)
        madi_cancel_act(self);
    if (rc)
        return rc;
    if (result)
        *(void **)result = thread->value;
    madi_record_put(madi_worker_self(), thread);
    return 0;
}

int marcel_clockjoin(marcel_t thread, void **result, int clock, const struct timespec *until)
{
    return madi_timed(join_until, thread, result, clock, until);
}

int marcel_timedjoin(marcel_t thread, void **result, const struct timespec *until)
{
    return marcel_clockjoin(thread, result, CLOCK_REALTIME, until);
}

int marcel_tryjoin(marcel_t thread, void **result)
{
    uintptr_t joiner = atomic_load_explicit(&thread->joiner, memory_order_acquire); /* pairs with the end */
    if (madi_gone(thread))
        return ESRCH;
    if (joiner == MADI_JOINER_NONE)
        return EBUSY;
    if (joiner != MADI_JOINER_ENDED)
        return EINVAL;
    if (result)
        *result = thread->value;
    madi_record_put(madi_worker_self(), thread);
    return 0;
}
