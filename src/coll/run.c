/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: steps are carried out, and operations complete. */
#include "base/log.h"
#include "coll/coll.h"
#include "core/conn/request.h"
#include "core/driver.h"

#include <inttypes.h>
#include <string.h>

#define COPIED_LOCKED 1024 /* bytes: longest copy that is made under the lock */

/* ---- Receives that wait ------------------------------------------------------------------------------------------ */

static void step_post(madi_coll_op_t *op, uint32_t index)
{
    op->steps[index].next = op->posted;
    op->posted = index + 1;
    op->pending++;
}

madi_coll_step_t *madi_coll_posted_take(madi_coll_op_t *op, mad_peer_t peer, unsigned tag)
{
    for (uint32_t *p = &op->posted; *p;) {
        madi_coll_step_t *step = &op->steps[*p - 1];
        if (step->tag == tag && op->group->peers[step->member] == peer) {
            *p = step->next;
            return step;
        }
        p = &step->next;
    }
    return NULL;
}

void madi_coll_op_fail(madi_coll_op_t *op, mad_status_t status)
{
    if (!op->status)
        op->status = status;
    for (; op->posted; op->posted = op->steps[op->posted - 1].next)
        op->pending--;
    if (!op->group->failed)
        op->group->failed = op->status;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

/* Take an early message's bytes.  Called without locks. */
static mad_status_t early_use(madi_coll_op_t *op, const madi_coll_step_t *step, madi_coll_early_t *early)
{
    mad_status_t status = MAD_OK;
    if (!early->message && early->len != step->len) {
        madi_log(MADI_LOG_ERROR, "coll", "group %" PRIu64 ", operation %u (%s): member %d sends %zu bytes, not %llu",
                 op->envelope.group, op->envelope.seq, madi_coll_kind_name(op->envelope.kind), step->member, early->len,
                 (unsigned long long)step->len);
        status = MAD_ERR_MISMATCH;
    } else if (early->message) {
        madi_coll_long_receive(op, step, early->message);
        early->message = NULL;
    } else if (early->len) {
        memcpy(step->to, early->bytes, early->len);
    }
    madi_coll_early_free(early);
    return status;
}

/* Begin a receive.  Under coll->lock, which is released meanwhile if the message is there. */
static void step_receive(madi_coll_op_t *op, uint32_t index)
{
    madi_coll_step_t *step = &op->steps[index];
    struct madi_coll_session *coll = op->group->coll;
    bool any_early = atomic_load_explicit(&op->group->n_early, memory_order_relaxed) != 0;
    madi_coll_early_t *early = any_early ? madi_coll_early_take(op->group, op, step) : NULL;
    mad_status_t status;
    bool is_long;
    if (MADI_LIKELY(!early)) {
        status = madi_coll_lost(coll, op->group->peers[step->member]);
        if (MADI_UNLIKELY(status))
            madi_coll_op_fail(op, status);
        else
            step_post(op, index);
        return;
    }
    is_long = early->message != NULL;
    op->pending += is_long;
    madi_unlock(&coll->lock);
    status = early_use(op, step, early);
    madi_lock(&coll->lock);
    if (status) {
        op->pending -= is_long;
        madi_coll_op_fail(op, status);
    }
}

void madi_coll_sent(madi_coll_op_t *op, mad_status_t status, mad_request_t *request)
{
    struct madi_coll_session *coll = op->group->coll;
    if (MADI_UNLIKELY(status))
        madi_coll_op_fail(op, status);
    if (MADI_LIKELY(!request))
        return;
    op->pending++;
    madi_unlock(&coll->lock);
    mad_request_detach(request, madi_coll_message_done, op);
    madi_lock(&coll->lock);
}

/* Begin a send.  Under coll->lock, which is released meanwhile. */
static void step_send(madi_coll_op_t *op, const madi_coll_step_t *step)
{
    struct madi_coll_session *coll = op->group->coll;
    mad_request_t *request;
    mad_status_t status;
    madi_unlock(&coll->lock);
    status = madi_coll_message_send(op, step, &request);
    madi_lock(&coll->lock);
    madi_coll_sent(op, status, request);
}

/* Combine the elements of a step. */
static void step_combine(const madi_coll_op_t *op, const madi_coll_step_t *step)
{
    size_t count = (size_t)(step->len / op->combine.size);
    if (step->kind == MADI_COLL_COMBINE) {
        op->combine.fn(op->combine.arg, step->from, step->to, count);
    } else {
        op->combine.fn(op->combine.arg, step->to, step->from, count);
        madi_copy(step->to, step->from, (size_t)step->len);
    }
}

/* Carry out a step of this process alone.  Under coll->lock, which is released meanwhile. */
static void step_local(madi_coll_op_t *op, const madi_coll_step_t *step)
{
    struct madi_coll_session *coll = op->group->coll;
    if (step->kind == MADI_COLL_COPY && step->len <= COPIED_LOCKED) {
        memcpy(step->to, step->from, (size_t)step->len);
        return;
    }
    madi_unlock(&coll->lock);
    if (step->kind == MADI_COLL_COPY)
        madi_copy(step->to, step->from, (size_t)step->len);
    else
        step_combine(op, step);
    madi_lock(&coll->lock);
}

/* Carry out steps until one has to wait.  Return true if the operation is at its end.  Under coll->lock. */
static bool steps_advance(madi_coll_op_t *op)
{
    while (op->at < op->n_steps && MADI_LIKELY(!op->status)) {
        madi_coll_step_t *step = &op->steps[op->at];
        if (step->kind == MADI_COLL_WAIT && op->pending)
            return false;
        op->at++;
        if (step->kind == MADI_COLL_SEND)
            step_send(op, step);
        else if (step->kind == MADI_COLL_RECEIVE)
            step_receive(op, op->at - 1);
        else if (step->kind != MADI_COLL_WAIT)
            step_local(op, step);
    }
    if (MADI_UNLIKELY(op->status)) /* receives may have been posted after the failure */
        madi_coll_op_fail(op, op->status);
    return !op->pending;
}

/* ---- Completion -------------------------------------------------------------------------------------------------- */

static void coll_op_unlink(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    madi_coll_op_t **p = &group->ops;
    while (*p != op)
        p = &(*p)->next;
    *p = op->next;
    if (group->ops_tail == &op->next)
        group->ops_tail = p;
}

/* Fail the operations of a group that began after a failed one.  Under coll->lock. */
static void group_fail_later(const madi_coll_op_t *failed)
{
    for (madi_coll_op_t *op = failed->next; op; op = op->next)
        if (!op->status)
            madi_coll_op_fail(op, failed->status);
}

/* Report a failed operation to the members, and fail the later ones.  Called under coll->lock, which is released meanwhile: the
 * operation keeps its group from being freed. */
static MADI_COLD void op_report(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    struct madi_coll_session *coll = group->coll;
    madi_coll_early_t *cut = madi_coll_early_cut(group, op->envelope.seq);
    bool tells = !group->told;
    group->told = true;
    madi_unlock(&coll->lock);
    madi_coll_early_free_all(cut);
    if (tells)
        madi_coll_abort_send(group, op->envelope.seq, op->status);
    madi_lock(&coll->lock);
    group_fail_later(op);
}

/* Complete an operation.  The operation and its group may be freed as soon as the lock is released.  Called under coll->lock,
 * which is released. */
static void coll_op_complete(madi_coll_op_t *op)
{
    struct mad_group *group = op->group;
    struct madi_coll_session *coll = group->coll;
    mad_request_t *request = op->request;
    mad_status_t status = op->status;
    bool failed = status != MAD_OK;

    if (MADI_UNLIKELY(failed))
        op_report(op);
    coll_op_unlink(op);
    if (request) {
        op->next = group->spare;
        group->spare = op;
        coll->n_requests--;
    } else {
        /* A thread that sleeps takes the lock before it leaves.  One that polls may use the operation again at once. */
        marceli_waiter_t *waiter = op->waiter;
        atomic_store_explicit(&op->done, true, memory_order_release); /* pairs with op_is_done */
        if (MADI_UNLIKELY(waiter != NULL))
            marceli_waiter_wake(waiter);
    }
    madi_unlock(&coll->lock);
    if (request)
        madi_request_complete(request, status);
    if (MADI_UNLIKELY(failed))
        madi_coll_run_failed(coll);
}

void madi_coll_run(madi_coll_op_t *op)
{
    struct madi_coll_session *coll = op->group->coll;
    uint64_t number = op->group->number;
    uint32_t seq = op->envelope.seq;
    bool watches;
    if (steps_advance(op)) {
        coll_op_complete(op);
        return;
    }
    op->running = false;
    watches = op->watches;
    madi_unlock(&coll->lock); /* from now on, another thread may complete the operation */
    if (MADI_UNLIKELY(watches))
        madi_coll_watch(coll, number, seq);
}

/* Find an operation that has failed and has nothing more to wait for.  Under coll->lock. */
static madi_coll_op_t *failed_next(struct madi_coll_session *coll)
{
    for (struct mad_group *group = coll->groups; group; group = group->next)
        for (madi_coll_op_t *op = group->failed ? group->ops : NULL; op; op = op->next)
            if (op->status && !op->pending && !op->running)
                return op;
    return NULL;
}

void madi_coll_run_failed(struct madi_coll_session *coll)
{
    for (;;) {
        madi_coll_op_t *op;
        madi_lock(&coll->lock);
        op = failed_next(coll);
        if (!op) {
            madi_unlock(&coll->lock);
            return;
        }
        op->running = true;
        madi_coll_run(op);
    }
}

void madi_coll_message_done(void *arg, mad_status_t status)
{
    madi_coll_op_t *op = arg;
    struct madi_coll_session *coll = op->group->coll;
    madi_lock(&coll->lock);
    op->pending--;
    if (MADI_UNLIKELY(status))
        madi_coll_op_fail(op, status);
    if (op->pending || op->running) {
        madi_unlock(&coll->lock);
        return;
    }
    op->running = true;
    madi_coll_run(op);
}
