/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/late.h"
#include "marcel/marcel.h"
#include "marcel/share.h"

#include <sched.h>

_Atomic(int64_t) madi_late_first = MADI_NEVER;

static madi_lock_t lock;
static madi_timers_t timers;

/* Under the lock. */
static void first_set(void)
{
    int64_t first = timers.first ? timers.first->deadline : MADI_NEVER;
    if (first != madi_late_next())
        atomic_store_explicit(&madi_late_first, first, memory_order_seq_cst); /* pairs with something_came in worker.c */
}

void madi_late_enter(madi_ult_t *self)
{
    atomic_store_explicit(&self->clocks, true, memory_order_relaxed);
    self->flags |= MADI_ULT_LATE;
}

void madi_late_leave(madi_ult_t *self)
{
    while (atomic_load_explicit(&self->clocks, memory_order_acquire)) /* pairs with arm_post */
        sched_yield();
    madi_lock(&lock);
    madi_timer_disarm(&timers, &self->timer);
    first_set();
    madi_unlock(&lock);
}

/* The thread has left its stack, and wakers can find it. */
static void arm_post(void *arg)
{
    madi_ult_t *ult = arg;
    madi_worker_t *worker = madi_worker_self();
    if (worker->late_post)
        worker->late_post(worker->late_post_arg);
    madi_lock(&lock);
    madi_timer_arm(&timers, &ult->timer, ult->timer.deadline);
    first_set();
    atomic_store_explicit(&ult->clocks, false, memory_order_release); /* from here on it may end */
    madi_unlock(&lock);
    if (worker->current != worker->base)
        madi_late_elsewhere(worker);
}

void madi_late_switch(madi_ult_t *self)
{
    madi_worker_t *worker = self->worker;
    self->flags &= ~(uint32_t)MADI_ULT_LATE;
    worker->late_post = worker->post;
    worker->late_post_arg = worker->post_arg;
    worker->post = arm_post;
    worker->post_arg = self;
}

/* The thread, or NULL: none is late. */
static madi_ult_t *late(int64_t now, madi_waitq_t **queue)
{
    madi_ult_t *ult = NULL;
    madi_timer_t *timer;
    madi_lock(&lock);
    while (!ult && (timer = madi_timer_due(&timers, now))) {
        ult = MADI_CONTAINER(timer, madi_ult_t, timer);
        if (!madi_claim_begin(&ult->party, MADI_WAIT_EXPIRED, queue))
            ult = NULL; /* it was woken, and leaves */
    }
    first_set();
    madi_unlock(&lock);
    return ult;
}

void madi_late_run(madi_worker_t *worker, int64_t now)
{
    madi_waitq_t *queue;
    madi_ult_t *ult;
    while (madi_late_next() <= now && (ult = late(now, &queue))) {
        madi_claim_end(&ult->party, queue);
        madi_ult_worker_set(ult, worker);
        madi_ready_here(worker, ult);
    }
}

bool madi_late_left_alone(madi_worker_t *worker)
{
    int64_t first = atomic_load_explicit(&madi_late_first, memory_order_seq_cst);
    for (int i = 0; i < worker->n_near && first != MADI_NEVER; i++) {
        madi_worker_t *other = &madi_marcel.workers[worker->near[i]];
        if (atomic_load_explicit(&other->idle, memory_order_seq_cst) &&
            atomic_load_explicit(&other->until, memory_order_relaxed) <= first)
            return false;
    }
    return first != MADI_NEVER;
}

void madi_late_elsewhere(madi_worker_t *worker)
{
    if (atomic_load_explicit(&madi_marcel.n_asleep, memory_order_seq_cst) && madi_late_left_alone(worker))
        madi_share_wake(worker);
}
