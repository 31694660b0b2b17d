/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages whose payload stays with the sender until a receive has matched: the receiver already keeps enough of
 * this sender's payload, or the payload is long.
 *
 *   sender                                            receiver
 *   ANNOUNCE (number of the send, tag, length)   -->  matched, or kept: an envelope only
 *   the payload is sent; the send completes      <--  GRANT (that number, number of the receive)
 *   BODY (number of the receive), the payload    -->  placed in the receive's buffer */
#include "inside.h"

#include <madeleine/runtime.h>
#include <stdlib.h>

/* ---- At the sender ----------------------------------------------------------------------------------------------- */

/* Copy the payload into one block, if necessary, for mad_message_send.  mad_message_send never waits, so a handler may call
 * it. */
static bool pieces_join(op_t *op, size_t len)
{
    if (op->n == 1)
        return true;
    op->copy = malloc(len);
    if (!op->copy)
        return false;
    dev_pieces_gather(op->copy, op->pieces, op->n);
    op->pieces[0] = (struct iovec){op->copy, len};
    op->n = 1;
    return true;
}

static mad_status_t body_now(mad_dev_t *dev, const op_t *op, wire_envelope_t *h, int n)
{
    struct iovec pieces[MAD_DEV_PIECES + 1];
    pieces[0] = (struct iovec){h, sizeof *h};
    for (int i = 0; i < n; i++)
        pieces[i + 1] = op->pieces[i];
    return mad_message_send_now(dev->channel, op->peer, pieces, n + 1);
}

static void body_send(mad_dev_t *dev, op_t *op)
{
    wire_envelope_t h = {.kind = KIND_BODY, .flags = FLAG_WIDE, .number = op->wanted_by};
    mad_block_t blocks[2] = {{&h, sizeof h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS}};
    mad_request_t *request;
    mad_status_t status;
    if (!op->wanted_by) {
        dev_send_advance(dev, op, MAD_OK);
        return;
    }
    h.len = dev_pieces_length(op->pieces, op->n);
    if (h.len <= dev->whole_max && body_now(dev, op, &h, op->n) == MAD_OK) {
        dev_send_advance(dev, op, MAD_OK);
        return;
    }
    if (!pieces_join(op, h.len)) { /* the receiver sees the failure as a payload that is too short */
        dev_answer_send(dev, op->peer, &h);
        dev_send_advance(dev, op, MAD_ERR_NOMEM);
        return;
    }
    h.kind = KIND_BODY_LONG;
    blocks[1] = (mad_block_t){op->pieces[0].iov_base, h.len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    status = mad_message_send(dev->channel, op->peer, blocks, 2, &request);
    if (status)
        dev_send_advance(dev, op, status);
    else
        dev_item_attach(dev, request, &op->item, dev_send_left);
}

/* Continue after the envelope has left, or has failed to leave.  Meanwhile the grant may have come, or the peer may be
 * lost. */
static void envelope_left(mad_dev_t *dev, op_t *op, mad_status_t status)
{
    mad_peer_t to = op->peer;
    if (!status)
        status = dev_peer_status(dev, to);
    op->envelope_waits = false;
    if (op->wanted) {
        body_send(dev, op);
    } else if (status) {
        dev_number_release(dev, op);
        dev_send_advance(dev, op, status);
        dev_peer_suspect(dev, to, status);
    }
}

static void head_done(mad_dev_t *dev, item_t *item)
{
    envelope_left(dev, dev_item_op(item), item->status);
}

mad_status_t dev_announce_send(mad_dev_t *dev, const mad_dev_send_t *s, wire_envelope_t *h, size_t len)
{
    struct iovec piece = {h, sizeof *h};
    mad_block_t block = {h, sizeof *h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request;
    mad_status_t status;
    op_t *op = dev_op_of_send(dev, s, len, true, &status);
    if (!op)
        return status;
    h->kind = KIND_ANNOUNCE;
    h->flags = (uint8_t)((h->flags & ~FLAG_ACK) | FLAG_WIDE);
    h->number = op->number;
    h->len = len;
    status = mad_message_send_now(dev->channel, s->to, &piece, 1);
    if (status) {
        status = mad_message_send(dev->channel, s->to, &block, 1, &request);
        if (!status) {
            dev_item_attach(dev, request, &op->item, head_done);
            return MAD_OK;
        }
    }
    dev_lock(dev);
    envelope_left(dev, op, status); /* this failure is reported like a later one, so that all failures take one path */
    dev_unlock(dev);
    return MAD_OK;
}

void dev_grant_arrive(mad_dev_t *dev, mad_peer_t source, const wire_envelope_t *h)
{
    op_t *op = dev_number_find(dev, h->number);
    if (!op || op->peer != source || !op->done.sent || !op->needs_grant)
        return;
    dev_number_release(dev, op);
    op->wanted = true;
    op->wanted_by = h->len;
    if (!op->envelope_waits)
        body_send(dev, op);
}

/* ---- At the receiver --------------------------------------------------------------------------------------------- */

static void grant_send(mad_dev_t *dev, mad_peer_t source, uint64_t number, uint64_t wanted_by)
{
    dev_answer_send(dev, source,
                    &(wire_envelope_t){.kind = KIND_GRANT, .flags = FLAG_WIDE, .number = number, .len = wanted_by});
}

void dev_announced_receive(mad_dev_t *dev, op_t *op, mad_peer_t source, uint64_t number, size_t len)
{
    op->done.status = dev_peer_status(dev, source);
    op->peer = source;
    if (!op->done.status && len && !dev_number_assign(dev, op))
        op->done.status = MAD_ERR_NOMEM;
    if (op->number) {
        dev_peer_watch(dev, source);
        grant_send(dev, source, number, op->number);
        return;
    }
    grant_send(dev, source, number, 0);
    dev_op_complete(dev, op);
}

void dev_announced_drop(mad_dev_t *dev, mad_peer_t source, uint64_t number)
{
    grant_send(dev, source, number, 0);
}

void dev_body_arrive(mad_dev_t *dev, mad_message_t *message, const wire_envelope_t *h, madi_foreign_t bytes, size_t len)
{
    op_t *op = dev_number_find(dev, h->number);
    if (!op || op->peer != mad_message_peer(message) || op->done.sent) {
        dev_message_end(message); /* malformed: drop it */
        return;
    }
    dev_number_release(dev, op);
    if (h->kind == KIND_BODY_LONG) {
        dev_op_receive_from(dev, op, message, op->done.whole, 0, dev_op_received);
        return;
    }
    if (len == op->done.whole)
        dev_op_fill(op, bytes, len);
    else
        op->done.status = MAD_ERR_NOMEM;
    dev_message_end(message);
    dev_op_complete(dev, op);
}
