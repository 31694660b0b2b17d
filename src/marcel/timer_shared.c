/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/timer_shared.h"
#include "marcel/marcel.h"
#include "marcel/share.h"

#include <sched.h>

_Atomic(int64_t) madi_timer_shared_first = MADI_NEVER;

static madi_lock_t lock;
static madi_timers_t timers;

/* Called with the lock held. */
static void shared_first_set(void)
{
    int64_t first = timers.first ? timers.first->deadline : MADI_NEVER;
    if (first != madi_timer_shared_next())
        /* seq_cst: pairs with worker_has_work */
        atomic_store_explicit(&madi_timer_shared_first, first, memory_order_seq_cst);
}

void madi_timer_shared_enter(madi_ult_t *self)
{
    atomic_store_explicit(&self->clocks, true, memory_order_relaxed);
    self->flags |= MADI_ULT_TIMER_SHARED;
}

void madi_timer_shared_leave(madi_ult_t *self)
{
    while (atomic_load_explicit(&self->clocks, memory_order_acquire)) /* pairs with arm_post */
        sched_yield();
    madi_lock(&lock);
    madi_timer_disarm(&timers, &self->timer);
    shared_first_set();
    madi_unlock(&lock);
}

/* Post-switch function: the thread has left its stack, and wakers can find it. */
static void timer_shared_arm_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_worker_t *worker = madi_worker_self();
    if (worker->timer_post)
        worker->timer_post(worker->timer_post_arg);
    madi_lock(&lock);
    madi_timer_arm(&timers, &ult->timer, ult->timer.deadline);
    shared_first_set();
    atomic_store_explicit(&ult->clocks, false, memory_order_release); /* after the store to `clocks`, the thread may end */
    madi_unlock(&lock);
    if (worker->current != worker->base)
        madi_timer_shared_elsewhere(worker);
}

void madi_timer_shared_switch(madi_ult_t *self)
{
    madi_worker_t *worker = self->worker;
    self->flags &= ~(uint32_t)MADI_ULT_TIMER_SHARED;
    worker->timer_post = worker->post;
    worker->timer_post_arg = worker->post_arg;
    worker->post = timer_shared_arm_post;
    worker->post_arg = self;
}

/* Take an expired thread out of the heap; NULL if none. */
static madi_ult_t *timer_shared_expire(int64_t now, madi_waitq_t **queue)
{
    madi_ult_t *ult = NULL;
    madi_timer_t *timer;
    madi_lock(&lock);
    while (!ult && (timer = madi_timer_due(&timers, now))) {
        ult = MADI_CONTAINER(timer, madi_ult_t, timer);
        if (!madi_claim_begin(&ult->party, MADI_WAIT_EXPIRED, queue))
            ult = NULL; /* the thread was woken before its deadline, and leaves the heap by itself */
    }
    shared_first_set();
    madi_unlock(&lock);
    return ult;
}

void madi_timer_shared_run(madi_worker_t *worker, int64_t now)
{
    madi_waitq_t *queue;
    madi_ult_t *ult;
    while (madi_timer_shared_next() <= now && (ult = timer_shared_expire(now, &queue))) {
        madi_claim_end(&ult->party, queue);
        madi_ult_worker_set(ult, worker);
        madi_ready_here(worker, ult);
    }
}

bool madi_timer_shared_left_alone(madi_worker_t *worker)
{
    int64_t first = atomic_load_explicit(&madi_timer_shared_first, memory_order_seq_cst);
    for (int i = 0; i < worker->n_near && first != MADI_NEVER; i++) {
        madi_worker_t *other = &madi_marcel.workers[worker->near[i]];
        if (atomic_load_explicit(&other->idle, memory_order_seq_cst) &&
            atomic_load_explicit(&other->until, memory_order_relaxed) <= first)
            return false;
    }
    return first != MADI_NEVER;
}

void madi_timer_shared_elsewhere(madi_worker_t *worker)
{
    if (atomic_load_explicit(&madi_marcel.n_asleep, memory_order_seq_cst) && madi_timer_shared_left_alone(worker))
        madi_share_wake(worker);
}
