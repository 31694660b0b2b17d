/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: messages that arrive, for the step that waits for them, or early (early.c). */
#include "base/log.h"
#include "coll/coll.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/object/channel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* End the connection to a peer that has broken the rules of this channel.  Called without locks. */
static void peer_hang_up_coll(struct madi_coll_session *coll, mad_peer_t peer, const char *text)
{
    mad_session_t *session = coll->session;
    madi_gate_t *gate;
    madi_lock(&session->lock);
    gate = madi_peer_gate_find(session, peer, coll->channel->lane);
    if (gate)
        madi_gate_down(gate, MAD_ERR_PROTOCOL, text);
    madi_unlock(&session->lock);
}

bool madi_coll_alike(const madi_coll_envelope_t *own, const madi_coll_envelope_t *e)
{
    return e->kind == own->kind && (e->form & MADI_COLL_FORM) == own->form && e->check == own->check;
}

void madi_coll_differ_log(const madi_coll_envelope_t *own, const madi_coll_envelope_t *e, mad_peer_t peer)
{
    unsigned form = e->form & MADI_COLL_FORM;
    bool same_kind = e->kind == own->kind, same_form = form == own->form;
    madi_log(MADI_LOG_ERROR, "coll",
             "group %" PRIu64 ", operation %u: members disagree: peer %d calls %s (form %s), this process %s (form %s)%s",
             own->group, own->seq, peer, madi_coll_kind_name(e->kind), madi_coll_form_name(form),
             madi_coll_kind_name(own->kind), madi_coll_form_name(own->form),
             same_kind && same_form ? ", with another length or root"
             : same_kind            ? ": give all processes the same MAD_COLL, length and root"
                                    : "");
}

void madi_coll_long_receive(madi_coll_op_t *op, const madi_coll_step_t *step, mad_message_t *message)
{
    mad_request_t *request;
    mad_status_t status;
    mad_unpack(message, step->to, (size_t)step->len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking_request(message, &request);
    if (status)
        madi_coll_message_done(op, status);
    else
        mad_request_detach(request, madi_coll_message_done, op);
}

struct mad_group *madi_coll_group_find(const struct madi_coll_session *coll, uint64_t number)
{
    struct mad_group *group = coll->groups;
    while (group && group->number != number)
        group = group->next;
    return group;
}

madi_coll_op_t *madi_coll_op_find(const struct mad_group *group, uint32_t seq)
{
    madi_coll_op_t *op = group->ops;
    while (op && op->envelope.seq != seq)
        op = op->next;
    return op;
}

/* Return the status of a member's failed operation, as its message has it. */
static mad_status_t abort_status(const madi_coll_envelope_t *e)
{
    return e->check == MAD_ERR_MISMATCH || e->check == MAD_ERR_NOMEM ? (mad_status_t)e->check : MAD_ERR_PEER;
}

/* Handle the failure of a member's operation.  Return true if it is the group's first one.  Under coll->lock. */
static bool abort_arrived(struct mad_group *group, const madi_coll_envelope_t *e, mad_peer_t peer)
{
    mad_status_t status = abort_status(e);
    bool first = !group->failed;
    int member = 0;
    while (member < group->n && group->peers[member] != peer)
        member++;
    if (member == group->n || member == group->index)
        return false;
    group->told = true;
    for (madi_coll_op_t *op = group->ops; op; op = op->next)
        if ((int32_t)(op->envelope.seq - e->seq) >= 0)
            madi_coll_op_fail(op, status);
    if (!group->failed)
        group->failed = status;
    return first;
}

/* Deliver a message to the step that waits for it.  Called under coll->lock, which is released.  Return true if `message` is
 * taken. */
static bool step_deliver(madi_coll_op_t *op, madi_coll_step_t *step, const madi_coll_envelope_t *e, mad_message_t *message,
                         const void *bytes, size_t len)
{
    struct madi_coll_session *coll = op->group->coll;
    uint64_t wanted = step->len;
    int member = step->member;
    if (e->form & MADI_COLL_FOLLOWS && message) {
        madi_unlock(&coll->lock);
        madi_coll_long_receive(op, step, message);
        return true;
    }
    op->pending--;
    if (MADI_LIKELY(len == wanted))
        madi_copy(step->to, bytes, len);
    else
        madi_coll_op_fail(op, MAD_ERR_MISMATCH);
    if (op->pending || op->running) {
        madi_unlock(&coll->lock);
    } else {
        op->running = true;
        madi_coll_run(op);
    }
    if (MADI_UNLIKELY(len != wanted))
        madi_log(MADI_LOG_ERROR, "coll", "group %" PRIu64 ", operation %u (%s): member %d sends %zu bytes, not %llu",
                 e->group, e->seq, madi_coll_kind_name(e->kind), member, len, (unsigned long long)wanted);
    return false;
}

bool madi_coll_arrived(struct madi_coll_session *coll, mad_peer_t peer, mad_message_t *message, const void *base, size_t len)
{
    madi_coll_early_t head = {.peer = peer, .len = len - sizeof head.envelope};
    const unsigned char *bytes = (const unsigned char *)base + sizeof head.envelope;
    madi_coll_envelope_t *e = &head.envelope;
    madi_coll_step_t *step;
    struct mad_group *group;
    madi_coll_op_t *op = NULL;
    madi_coll_envelope_t own = {0};
    madi_coll_early_t *cut = NULL;
    bool kept, differs = false, aborts = false;

    if (MADI_UNLIKELY(len < sizeof *e || head.len > MADI_COLL_EAGER)) {
        peer_hang_up_coll(coll, peer, "a message of a collective operation that is none");
        return false;
    }
    memcpy(e, base, sizeof *e);
    madi_lock(&coll->lock);
    group = madi_coll_group_find(coll, e->group);
    if (MADI_LIKELY(group && (op = madi_coll_op_find(group, e->seq)) && e->kind != MADI_COLL_ABORT)) {
        if (MADI_UNLIKELY(!madi_coll_alike(&op->envelope, e))) {
            madi_coll_op_fail(op, MAD_ERR_MISMATCH);
            own = op->envelope;
            differs = true;
        } else if ((step = madi_coll_posted_take(op, peer, e->tag))) {
            return step_deliver(op, step, e, message, bytes, head.len);
        }
    } else if (group && e->kind == MADI_COLL_ABORT) {
        aborts = abort_arrived(group, e, peer);
        cut = aborts ? madi_coll_early_cut(group, e->seq) : NULL;
    }
    if (group && !(op && !op->status) &&
        (group->failed || e->kind == MADI_COLL_ABORT ||
         (int32_t)(e->seq - atomic_load_explicit(&group->seq, memory_order_relaxed)) < 0)) {
        madi_unlock(&coll->lock); /* nobody waits for the message any more */
        madi_coll_early_free_all(cut);
        if (differs)
            madi_coll_differ_log(&own, e, peer);
        if (aborts)
            madi_log(MADI_LOG_WARN, "coll", "group %" PRIu64 ": peer %d reports that its operation %u has failed: %s",
                     e->group, peer, e->seq, mad_status_text(abort_status(e)));
        if (differs || aborts)
            madi_coll_run_failed(coll);
        return false;
    }
    if (e->form & MADI_COLL_FOLLOWS)
        head.message = message;
    kept = madi_coll_early_keep(coll, group, &head, bytes);
    madi_unlock(&coll->lock);
    if (!kept)
        peer_hang_up_coll(coll, peer, "no room for early messages of collective operations");
    return kept && head.message;
}

mad_handled_t madi_coll_handler(mad_channel_t *channel, mad_message_t *message, void *arg)
{
    struct madi_coll_session *coll = arg;
    const void *base;
    size_t len;
    (void)channel;
    if (mad_unpack_borrow(message, &base, &len)) {
        peer_hang_up_coll(coll, mad_message_peer(message), "a message of a collective operation without its envelope");
        return MAD_CONSUMED;
    }
    return madi_coll_arrived(coll, mad_message_peer(message), message, base, len) ? MAD_PARKED : MAD_CONSUMED;
}
