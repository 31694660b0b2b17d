/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that no receive has matched: kept until a receive, a probe or a discard takes them. */
#include "match.h"

#include <stdlib.h>
#include <string.h>

/* Free a message, which then no longer counts against its sender's window. */
static void message_gone(mad_dev_t *dev, mad_dev_message_t *u)
{
    if (u->envelope.cost)
        dev_flow_release(dev, u->envelope.source, u->envelope.cost);
    dev_message_free(dev, u);
}

static void message_loaded(mad_dev_t *dev, item_t *item)
{
    mad_dev_message_t *u = (mad_dev_message_t *)((char *)item - offsetof(mad_dev_message_t, item));
    op_t *op = u->op;
    u->loading = false;
    u->here = !item->status && !u->envelope.ack;
    if (op) {
        u->op = NULL;
        dev_message_meet(dev, op, u);
    } else if (u->dropped) {
        message_gone(dev, u);
    }
}

static void message_load(mad_dev_t *dev, mad_dev_message_t *u, mad_message_t *message)
{
    mad_request_t *request;
    struct iovec piece = {u->bytes, u->envelope.len};
    mad_status_t status;
    dev_unpack_blocks(message, &piece, 1, u->envelope.len, u->envelope.block);
    status = mad_end_unpacking_request(message, &request);
    if (status) {
        u->item.status = status;
        return;
    }
    u->loading = true;
    dev_item_attach(dev, request, &u->item, message_loaded);
}

bool dev_message_keep(mad_dev_t *dev, const dev_envelope_t *u, mad_message_t *message, madi_foreign_t bytes)
{
    mad_dev_message_t *kept = dev_message_new(dev);
    matcher_t *m = &dev->matchers[u->space];
    size_t copied_max = u->block ? MAD_DEV_LOAD_MAX : MAD_DEV_FETCH_MAX;
    bool here = madi_foreign_is_set(bytes), copied = here || (!u->needs_grant && u->len <= copied_max);
    if (!kept)
        return false;
    kept->envelope = *u;
    kept->here = here && !u->ack;
    if (copied)
        kept->bytes = MAD_DEV_LIKELY(u->len <= sizeof kept->inside) ? kept->inside : malloc(u->len);
    if ((copied && !kept->bytes) || !dev_match_keep(m, kept)) {
        dev_message_free(dev, kept);
        return false;
    }
    if (u->cost)
        dev_flow_hold(dev, u->source, u->cost);
    if (u->needs_grant) {
        dev_message_end(message);
    } else if (here) {
        if (MAD_DEV_LIKELY(u->len == 8)) /* the most common length, copied without a function call */
            madi_foreign_copy(kept->bytes, bytes, 8);
        else
            madi_foreign_copy(kept->bytes, bytes, u->len);
        dev_message_end(message);
    } else if (kept->bytes) {
        message_load(dev, kept, message);
    } else {
        kept->message = message;
    }
    return true;
}

void dev_message_meet(mad_dev_t *dev, op_t *op, mad_dev_message_t *u)
{
    dev_op_describe(op, &u->envelope);
    if (u->loading) {
        u->op = op;
        return;
    }
    if (u->envelope.ack)
        dev_matched_send(dev, u->envelope.source, u->envelope.number);
    if (u->envelope.needs_grant) {
        dev_announced_receive(dev, op, u->envelope.source, u->envelope.number, u->envelope.len);
    } else if (u->message) {
        dev_op_receive_from(dev, op, u->message, u->envelope.len, u->envelope.block, dev_op_received);
    } else {
        op->done.status = u->item.status;
        if (!u->item.status)
            dev_op_fill(op, madi_foreign_of(u->bytes), u->envelope.len);
        dev_op_complete(dev, op);
    }
    message_gone(dev, u);
}

void dev_message_drop(mad_dev_t *dev, mad_dev_message_t *u)
{
    op_t *op;
    if (u->envelope.ack)
        dev_matched_send(dev, u->envelope.source, u->envelope.number);
    u->envelope.ack = false;
    if (u->envelope.needs_grant)
        dev_announced_drop(dev, u->envelope.source, u->envelope.number);
    if (u->loading) {
        u->dropped = true;
        return;
    }
    if (u->message) { /* unpack the payload and discard it */
        op = dev_op_new(dev);
        if (!op)
            return; /* the message stays open until the session ends */
        op->silent = true;
        dev_op_receive_from(dev, op, u->message, u->envelope.len, u->envelope.block, dev_op_received);
    }
    message_gone(dev, u);
}
