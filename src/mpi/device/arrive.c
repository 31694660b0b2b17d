/* SPDX-License-Identifier: BSD-3-Clause */
/* Incoming messages: the envelope is read in place and matched; then the payload is placed or kept. */
#include "match.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

/* ---- Telling ----------------------------------------------------------------------------------------------------- */

void dev_op_complete(mad_dev_t *dev, op_t *op)
{
    op_t *parent = op->parent;
    if (parent)
        op->done.released = --parent->parts == 0 && parent->closed;
    else
        op->done.released = true;
    op->done.context = op->context;
    op->done.flags = op->flags;
    if (!op->silent)
        dev->notify(dev->arg, &op->done);
    if (parent && op->done.released)
        dev_op_free(dev, parent);
    dev_op_free(dev, op);
}

/* Make an operation for a part of a multi-receive: it gets the next len bytes of that receive's buffer. */
op_t *dev_op_part(mad_dev_t *dev, op_t *op, size_t len)
{
    op_t *part;
    dev_op_settle(op);
    if (!op->multi) {
        dev_match_unpost(&dev->matchers[op->space], op);
        return op;
    }
    part = dev_op_new(dev);
    if (!part)
        return NULL;
    if (len > op->room)
        len = op->room;
    part->parent = op;
    part->n = 1;
    part->pieces[0] = (struct iovec){op->pieces[0].iov_base, len};
    part->room = len;
    part->context = op->context;
    part->flags = op->flags;
    op->pieces[0].iov_base = (unsigned char *)op->pieces[0].iov_base + len;
    op->room -= len;
    op->parts++;
    if (op->room < op->multi) {
        op->closed = true;
        dev_match_unpost(&dev->matchers[op->space], op);
    }
    return part;
}

/* ---- Payload ----------------------------------------------------------------------------------------------------- */

void dev_op_fill(op_t *op, madi_foreign_t bytes, size_t len)
{
    size_t left = len < op->room ? len : op->room;
    op->done.len = left;
    if (left == 8 && op->pieces[0].iov_len >= 8) { /* the most common length, copied without a function call */
        madi_foreign_copy(op->pieces[0].iov_base, bytes, 8);
        return;
    }
    for (int i = 0; left; i++) {
        size_t n = op->pieces[i].iov_len < left ? op->pieces[i].iov_len : left;
        madi_foreign_copy(op->pieces[i].iov_base, bytes, n);
        bytes = madi_foreign_skip(bytes, n);
        left -= n;
    }
}

void dev_op_describe(op_t *op, const dev_envelope_t *u)
{
    mad_dev_done_t *done = &op->done;
    done->source = u->source;
    done->tag = u->tag;
    done->data = u->data;
    done->has_data = u->has_data;
    done->whole = u->len;
    done->buffer = op->n ? op->pieces[0].iov_base : NULL;
}

void dev_op_received(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    mad_peer_t source = op->done.source;
    op->done.status = item->status;
    if (item->status)
        op->done.len = 0;
    dev_op_complete(dev, op);
    dev_peer_suspect(dev, source, item->status);
}

/* Make pieces for len bytes: first those of the receive, then the sink as often as necessary.  Return their number. */
static int op_pieces_for(const mad_dev_t *dev, const op_t *op, size_t len, struct iovec *pieces, int max)
{
    int n = 0;
    for (int i = 0; i < op->n && len; i++) {
        size_t part = op->pieces[i].iov_len < len ? op->pieces[i].iov_len : len;
        if (part)
            pieces[n++] = (struct iovec){op->pieces[i].iov_base, part};
        len -= part;
    }
    while (len && n < max) {
        size_t part = MAD_DEV_SINK < len ? MAD_DEV_SINK : len;
        pieces[n++] = (struct iovec){dev->sink, part};
        len -= part;
    }
    return n;
}

mad_status_t dev_unpack_blocks(mad_message_t *message, struct iovec *pieces, int n, size_t len, size_t block)
{
    mad_status_t status = MAD_OK, all = MAD_OK;
    do {
        size_t left = !block || len < block ? len : block;
        int used = 0;
        struct iovec *last;
        len -= left;
        while (used < n && left >= pieces[used].iov_len)
            left -= pieces[used++].iov_len;
        last = &pieces[used];
        if (left) { /* the next block goes to the rest of this piece */
            struct iovec rest = {(unsigned char *)last->iov_base + left, last->iov_len - left};
            last->iov_len = left;
            status = mad_unpack_scatter(message, pieces, used + 1, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
            *last = rest;
        } else {
            status = mad_unpack_scatter(message, pieces, used, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
        }
        pieces += used;
        n -= used;
        if (!all)
            all = status;
    } while (len);
    return all;
}

static mad_status_t unpack_into(mad_dev_t *dev, mad_message_t *message, const op_t *op, size_t len, size_t block)
{
    struct iovec few[MAD_DEV_PIECES], *pieces = few;
    int max = MAD_DEV_PIECES, n;
    mad_status_t status;
    if (len <= op->room && op->n == 1 && !block)
        return mad_unpack(message, op->pieces[0].iov_base, len, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (len > op->room) {
        if ((len - op->room) / MAD_DEV_SINK >= MAD_DEV_SINKS)
            return MAD_ERR_NOMEM;
        max += (int)((len - op->room + MAD_DEV_SINK - 1) / MAD_DEV_SINK);
        pieces = malloc((size_t)max * sizeof *pieces);
        if (!dev->sink)
            dev->sink = malloc(MAD_DEV_SINK);
    }
    if (!pieces || (len > op->room && !dev->sink)) {
        free(pieces);
        return MAD_ERR_NOMEM;
    }
    n = op_pieces_for(dev, op, len, pieces, max);
    status = dev_unpack_blocks(message, pieces, n, len, block);
    if (pieces != few)
        free(pieces);
    return status;
}

/* Unpack from the network directly into the receive's buffer. */
void dev_op_receive_from(mad_dev_t *dev, op_t *op, mad_message_t *message, size_t len, size_t block,
                         void (*look)(mad_dev_t *dev, item_t *item))
{
    mad_request_t *request;
    mad_status_t status = unpack_into(dev, message, op, len, block);
    mad_status_t end = mad_end_unpacking_request(message, &request);
    op->done.len = len < op->room ? len : op->room;
    if (!end) {
        if (status) /* the request may have another status: report the first cause */
            op->done.len = 0;
        dev_item_attach(dev, request, &op->item, look);
        return;
    }
    op->item.status = status ? status : end;
    look(dev, &op->item);
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

/* Match a message or keep it.  Return false if out of memory; the message is then tried again. */
static bool message_in(mad_dev_t *dev, const dev_envelope_t *u, mad_message_t *message, madi_foreign_t bytes)
{
    op_t *op = dev_match_arrival(&dev->matchers[u->space], u->source, u->tag);
    if (!op)
        return dev_message_keep(dev, u, message, bytes);
    op = dev_op_part(dev, op, u->len);
    if (!op)
        return false;
    dev_op_describe(op, u);
    if (u->ack)
        dev_matched_send(dev, u->source, u->number);
    if (u->cost)
        dev_flow_consume(dev, u->source, u->cost);
    if (madi_foreign_is_set(bytes)) {
        dev_op_fill(op, bytes, u->len);
        dev_message_end(message);
        dev_op_complete(dev, op);
    } else if (u->needs_grant) {
        dev_message_end(message);
        dev_announced_receive(dev, op, u->source, u->number, u->len);
    } else {
        dev_op_receive_from(dev, op, message, u->len, u->block, dev_op_received);
    }
    return true;
}

static void matched_in(mad_dev_t *dev, mad_peer_t source, uint64_t number)
{
    op_t *op = dev_number_find(dev, number);
    if (!op || op->peer != source || !op->done.sent || op->needs_grant || op->remote)
        return;
    dev_number_release(dev, op);
    dev_send_advance(dev, op, MAD_OK);
}

/* Handle an answer or a payload, which are blocks that are not messages by themselves. */
static void answer_in(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const wire_envelope_t *h,
                      madi_foreign_t rest, size_t len)
{
    if (h->kind == KIND_BODY || h->kind == KIND_BODY_LONG) {
        dev_body_arrive(dev, message, h, rest, len);
        return;
    }
    dev_message_end(message);
    if (h->kind == KIND_MATCHED)
        matched_in(dev, source, h->number);
    else if (h->kind == KIND_GRANT)
        dev_grant_arrive(dev, source, h);
    else
        dev_flow_raise(dev, source, h->number);
}

static bool message_read(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const wire_envelope_t *h,
                         madi_foreign_t rest, size_t len)
{
    bool whole = h->kind == KIND_WHOLE;
    dev_envelope_t u = {.space = h->flags & FLAG_PLAIN ? MAD_DEV_PLAIN : MAD_DEV_TAGGED,
                        .source = source,
                        .tag = h->tag,
                        .data = (uint64_t)h->data_high << 32 | h->data,
                        .number = h->number,
                        .len = whole ? len : h->len,
                        .block = h->kind == KIND_LONG ? h->block : 0,
                        .has_data = h->flags & FLAG_DATA,
                        .ack = h->flags & FLAG_ACK,
                        .needs_grant = h->kind == KIND_ANNOUNCE};
    u.cost = u.needs_grant ? 0 : dev_flow_cost(u.len);
    if (whole && len > MAD_DEV_LOAD_MAX) { /* no device sends this; if there is no memory to keep it, all peers would wait */
        dev_message_end(message);
        return true;
    }
    return message_in(dev, &u, message, whole ? rest : (madi_foreign_t){0});
}

static bool envelope_is_valid(const wire_envelope_t *h)
{
    return h->kind >= KIND_WHOLE && h->kind < KIND_END && (h->kind != KIND_LONG || !h->block || h->len <= MAD_DEV_LOAD_MAX);
}

/* Handle a first block that does not begin with the short envelope of a whole message.  h: the beginning of the block. */
static bool wide_in(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const hdrs_t *h, madi_foreign_t block,
                    size_t len)
{
    const wire_envelope_t *m = &h->message;
    madi_foreign_t rest = madi_foreign_skip(block, sizeof *m);
    if (m->kind >= KIND_WRITE)
        return dev_remote_serve(dev, source, message, &h->access, block, len);
    if (len < sizeof *m || !(m->flags & FLAG_WIDE) || !envelope_is_valid(m)) {
        dev_message_end(message); /* malformed: drop it */
        return true;
    }
    if (m->kind == KIND_WHOLE || m->kind == KIND_LONG || m->kind == KIND_ANNOUNCE)
        return message_read(dev, source, message, m, rest, len - sizeof *m);
    answer_in(dev, source, message, m, rest, len - sizeof *m);
    return true;
}

/* Handle a first block that has arrived completely.  Return false if out of memory. */
static bool first_block_in(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, madi_foreign_t block, size_t len)
{
    hdrs_t h = {0};
    madi_foreign_copy(&h, block, len < sizeof h ? len : sizeof h);
    if (len < ENVELOPE_SHORT || h.message.kind != KIND_WHOLE || h.message.flags & FLAG_WIDE)
        return wide_in(dev, source, message, &h, block, len);
    memset((char *)&h + ENVELOPE_SHORT, 0, sizeof h - ENVELOPE_SHORT); /* the bytes behind the short envelope were payload */
    return message_read(dev, source, message, &h.message, madi_foreign_skip(block, ENVELOPE_SHORT), len - ENVELOPE_SHORT);
}

mad_status_t dev_arrival_try(mad_dev_t *dev, mad_arrival_t *a)
{
    mad_status_t status = a->base ? MAD_OK : mad_unpack_borrow(a->message, &a->base, &a->len);
    if (!status)
        return first_block_in(dev, a->peer, a->message, madi_foreign_of(a->base), a->len) ? MAD_OK : MAD_ERR_NOMEM;
    if (status == MAD_ERR_AGAIN)
        return status;
    dev_message_end(a->message);
    return MAD_OK;
}

/* Like dev_arrival_take, for a message whose first block is not in place yet. */
static __attribute__((noinline)) bool arrival_borrow(mad_dev_t *dev, const mad_arrival_t *a)
{
    mad_arrival_t tried = {.message = a->message, .peer = a->peer};
    mad_status_t status = dev_arrival_try(dev, &tried);
    if (status == MAD_ERR_AGAIN)
        dev_arrival_stick(dev, &tried);
    else if (status)
        dev_arrival_starve(dev, &tried);
    return !status;
}

bool dev_arrival_take(mad_dev_t *dev, const mad_arrival_t *a)
{
    if (!a->base)
        return arrival_borrow(dev, a);
    if (first_block_in(dev, a->peer, a->message, madi_foreign_of(a->base), a->len))
        return true;
    dev_arrival_starve(dev, a);
    return false;
}

typedef enum arrived { ARRIVED_OTHER, ARRIVED_UNMATCHED, ARRIVED_RECEIVED, ARRIVED_KEPT } arrived_t;

/* Keep a short message that no receive matches.  The caller counts its cost.  ARRIVED_OTHER, and nothing is done, if
 * the message is too long or if out of memory. */
__attribute__((always_inline)) static inline arrived_t short_keep(mad_dev_t *dev, matcher_t *m, const mad_arrival_t *a,
                                                                  uint64_t envelope, uint64_t tag)
{
    madi_foreign_t bytes = madi_foreign_skip(madi_foreign_of(a->base), ENVELOPE_SHORT);
    size_t len = a->len - ENVELOPE_SHORT;
    mad_dev_message_t *u = MAD_DEV_LIKELY(len <= sizeof u->inside) ? dev_message_new(dev) : NULL;
    if (!u)
        return ARRIVED_OTHER;
    u->envelope = (dev_envelope_t){.space = envelope >> 8 & FLAG_PLAIN ? MAD_DEV_PLAIN : MAD_DEV_TAGGED,
                                   .source = a->peer,
                                   .tag = tag,
                                   .data = envelope >> 32,
                                   .len = len,
                                   .cost = len + MAD_DEV_ENVELOPE_COST,
                                   .has_data = envelope >> 8 & FLAG_DATA};
    if (!dev_match_keep(m, u)) {
        dev_message_free(dev, u);
        return ARRIVED_OTHER;
    }
    u->bytes = u->inside;
    u->here = true;
    if (MAD_DEV_LIKELY(len == 8)) /* the most common length, without a function call */
        madi_foreign_copy(u->inside, bytes, 8);
    else if (len)
        madi_foreign_copy(u->inside, bytes, len);
    dev_message_end(a->message);
    return ARRIVED_KEPT;
}

/* Match a message with a short envelope, as arrive_quick does. */
__attribute__((always_inline)) static inline arrived_t short_match(mad_dev_t *dev, matcher_t *m, const mad_arrival_t *a,
                                                                   uint64_t envelope, uint64_t tag, bool keeps)
{
    mad_dev_got_t got;
    op_t *op = dev_match_arrival(m, a->peer, tag);
    if (!op)
        return keeps ? short_keep(dev, m, a, envelope, tag) : ARRIVED_UNMATCHED;
    if (!op->quick || a->len - ENVELOPE_SHORT > op->room)
        return ARRIVED_OTHER;
    dev_match_unpost(m, op);
    dev_short_receive(a, envelope, tag, op->pieces[0].iov_base, &got);
    dev->notify_received(dev->arg, op->context, op->flags, &got);
    op->next = dev->free_ops; /* op has nothing else to be freed, because op->copy is NULL */
    dev->free_ops = op;
    return ARRIVED_RECEIVED;
}

static __attribute__((noinline)) arrived_t plain_match(mad_dev_t *dev, const mad_arrival_t *a, uint64_t envelope,
                                                       uint64_t tag, bool keeps)
{
    return short_match(dev, &dev->matchers[MAD_DEV_PLAIN], a, envelope, tag, keeps);
}

/* Fast path, for most messages: one block with a short envelope and the payload, for a receive of one message that has
 * room for it.  A message that no receive matches is kept if `keeps`.  The caller counts the cost of what was received or
 * kept.  Otherwise nothing is done. */
static inline arrived_t arrive_quick(mad_dev_t *dev, const mad_arrival_t *a, bool keeps)
{
    uint64_t envelope, tag;
    if (!dev_envelope_is_short(a, &envelope, &tag))
        return ARRIVED_OTHER;
    if (!MAD_DEV_LIKELY(!(envelope & FLAG_PLAIN << 8)))
        return plain_match(dev, a, envelope, tag, keeps);
    return short_match(dev, &dev->matchers[MAD_DEV_TAGGED], a, envelope, tag, keeps);
}

static MAD_DEV_RARE void costs_count(mad_dev_t *dev, mad_peer_t peer, uint64_t received, uint64_t kept)
{
    if (received)
        dev_flow_consume(dev, peer, received);
    if (kept)
        dev_flow_hold(dev, peer, kept);
}

int dev_arrivals_take(mad_dev_t *dev, const mad_arrival_t *arrivals, int n, bool keeps)
{
    const mad_arrival_t *a = arrivals, *end = a + n;
    uint64_t received = 0, kept = 0; /* cost of the messages of one peer that are not counted yet */
    mad_peer_t peer = arrivals->peer;
    for (; a < end; a++) {
        arrived_t arrived;
        if (!MAD_DEV_LIKELY(a->peer == peer)) {
            costs_count(dev, peer, received, kept);
            received = kept = 0;
            peer = a->peer;
        }
        arrived = arrive_quick(dev, a, keeps);
        if (MAD_DEV_LIKELY(arrived == ARRIVED_RECEIVED))
            received += a->len - ENVELOPE_SHORT + MAD_DEV_ENVELOPE_COST;
        else if (MAD_DEV_LIKELY(arrived == ARRIVED_KEPT))
            kept += a->len - ENVELOPE_SHORT + MAD_DEV_ENVELOPE_COST;
        else if (arrived == ARRIVED_UNMATCHED)
            break;
        else if (!dev_arrival_take(dev, a)) {
            a++; /* this message waits elsewhere (stuck.c) */
            break;
        }
    }
    if (MAD_DEV_LIKELY(received && !kept))
        dev_flow_consume(dev, peer, received);
    else
        costs_count(dev, peer, received, kept);
    return (int)(a - arrivals);
}
