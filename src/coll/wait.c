/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: a thread waits for its operation.  It polls the channel for a while, and then sleeps among those
 * that wait for the channel's messages. */
#include "base/clock.h"
#include "coll/coll.h"
#include "core/api/api.h"
#include "core/driver.h"
#include "core/object/channel.h"

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

/* Poll for a limited number of times.  Return true if the operation is done. */
static bool op_wait_polled(madi_coll_op_t *op)
{
    struct madi_coll_session *coll = op->group->coll;
    mad_session_t *session = coll->session;
    for (int i = session->spins; i > 0 && !op_is_done(op); i--) {
        if (marceli_is_led() || marceli_others_ready())
            return false; /* another thread polls for all, or other threads want to run on this worker */
        if (madi_coll_poll(coll))
            continue;
        if (MADI_UNLIKELY(madi_calls_wait(session)))
            madi_calls_run(session);
        else if (MADI_UNLIKELY(atomic_load_explicit(&session->has_work, memory_order_relaxed)))
            mad_progress(session);
    }
    return op_is_done(op);
}

mad_status_t madi_coll_op_wait(madi_coll_op_t *op)
{
    struct madi_coll_session *coll = op->group->coll;
    mad_status_t status;
    if (MADI_UNLIKELY(!op_wait_polled(op))) {
        madi_coll_watch(op->group, op->envelope.seq);
        while (!op_is_done(op)) {
            op_sleep(op);
            while (madi_coll_poll(coll) && !op_is_done(op))
                ;
        }
    }
    madi_lock(&coll->lock); /* the completing thread has left */
    status = op->status;
    op->next = op->group->spare;
    op->group->spare = op;
    madi_unlock(&coll->lock);
    return status;
}
