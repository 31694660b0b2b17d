/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: a thread waits for its operation.  It polls the channel for a while, and then sleeps among those
 * that wait for the channel's messages. */
#include "base/clock.h"
#include "coll/coll.h"
#include "core/api/api.h"
#include "core/driver.h"
#include "core/object/channel.h"
#include "engine/wait_policy.h"

#include <sched.h>

static bool op_is_done(const madi_coll_op_t *op)
{
    return atomic_load_explicit(&((madi_coll_op_t *)op)->done, memory_order_acquire); /* pairs with coll_op_complete */
}

/* True if the operation is done, or if there is something to poll for. */
static bool op_can_go_on(void *arg)
{
    const madi_coll_op_t *op = arg;
    struct madi_coll_session *coll = op->group->coll;
    return op_is_done(op) || atomic_load_explicit(&coll->channel->n_ready, memory_order_relaxed) ||
           atomic_load_explicit(&coll->n_partial, memory_order_relaxed);
}

/* Enter or leave the operation's place for a waiter.  Return false if the operation is done. */
static bool op_waiter_set(madi_coll_op_t *op, marceli_waiter_t *w)
{
    struct madi_coll_session *coll = op->group->coll;
    bool done;
    madi_lock(&coll->lock);
    done = op_is_done(op);
    op->waiter = w;
    madi_unlock(&coll->lock);
    return !done;
}

static void op_sleep(madi_coll_op_t *op)
{
    mad_channel_t *channel = op->group->coll->channel;
    mad_session_t *session = channel->session;
    marceli_waiter_t w;
    marceli_waiter_init(&w);
    w.returns = true;
    if (op_waiter_set(op, &w)) {
        madi_lock(&session->lock);
        marceli_waiters_add(&channel->openers, &w);
        madi_unlock(&session->lock);
        marceli_wait(&w, op_can_go_on, op, madi_deadline(MAD_FOREVER));
        madi_lock(&session->lock);
        marceli_waiters_del(&w);
        madi_unlock(&session->lock);
    }
    op_waiter_set(op, NULL);
}

/* True if another thread polls for all, or if other threads want to run on this worker. */
static bool others_are_first(void)
{
    return marceli_is_led() || marceli_others_ready();
}

/* Take messages that have arrived, and do what is due.  Return true if messages were found. */
static bool op_look(struct madi_coll_session *coll)
{
    mad_session_t *session = coll->session;
    if (madi_coll_poll(coll))
        return true;
    if (MADI_UNLIKELY(madi_calls_wait(session)))
        madi_calls_run(session);
    else if (MADI_UNLIKELY(atomic_load_explicit(&session->has_work, memory_order_relaxed)))
        mad_progress(session);
    return false;
}

/* Poll for a limited number of times.  Return true if the operation is done. */
static bool op_wait_polled(madi_coll_op_t *op)
{
    struct madi_coll_session *coll = op->group->coll;
    for (int i = coll->session->spins; i >= 0 && !op_is_done(op); i--) {
        if (others_are_first())
            return false;
        op_look(coll);
    }
    return op_is_done(op);
}

/* Where the job has more processes than this host has cores: leave the core to the member that is waited for, as long as that
 * is cheap.  Return true if the operation is done. */
static MADI_COLD bool op_wait_yielding(madi_coll_op_t *op)
{
    static _Thread_local int64_t banned_until; /* not MADI_THREAD_LOCAL (base.h) */
    struct madi_coll_session *coll = op->group->coll;
    int64_t before = madi_now(), until = before + MADI_SPIN_NS, after;
    if (before < banned_until)
        return false;
    while (!op_is_done(op) && !others_are_first()) {
        sched_yield();
        if (op_look(coll))
            until = before + MADI_SPIN_NS;
        after = madi_now();
        if (after - before > MADI_YIELD_SLOW_NS) { /* a computing process had the core */
            int64_t ban = (after - before) * MADI_YIELD_BAN;
            banned_until = after + (ban < MADI_YIELD_BAN_MAX ? ban : MADI_YIELD_BAN_MAX);
            break;
        }
        if (after >= until)
            break;
        before = after;
    }
    return op_is_done(op);
}

/* Poll until the operation is done, and call the program's function after each look that was in vain (mad_group_idle_set). */
static void op_wait_idle(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    int looks = group->coll->session->spins;
    while (!op_is_done(op)) {
        if (op_look(group->coll))
            continue;
        if (MADI_UNLIKELY(looks-- == 0)) /* from now on, losses are of interest */
            madi_coll_watch(group->coll, group->number, op->envelope.seq);
        group->idle(group->idle_arg);
    }
}

mad_status_t madi_coll_op_wait(madi_coll_op_t *op)
{
    struct madi_coll_session *coll = op->group->coll;
    mad_status_t status;
    bool done;
    if (op->group->idle)
        op_wait_idle(op);
    done = op_wait_polled(op);
    if (MADI_UNLIKELY(!done && madi_session_oversubscribed(coll->session)))
        done = op_wait_yielding(op);
    if (MADI_UNLIKELY(!done)) {
        madi_coll_watch(coll, op->group->number, op->envelope.seq);
        while (!op_is_done(op)) {
            op_sleep(op);
            while (madi_coll_poll(coll) && !op_is_done(op))
                ;
        }
    }
    /* messages that are being written are taken now: with the channel's handler, no thread would look at them again */
    while (MADI_UNLIKELY(atomic_load_explicit(&coll->n_partial, memory_order_relaxed))) {
        sched_yield();
        madi_coll_poll(coll);
    }
    status = op->status;
    madi_coll_op_keep(op);
    return status;
}
