/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of peers: the side that requests an access.  Each access has a number, and completes when the answer arrives,
 * after it has been made at the peer.  A short access is one block, and short accesses are made in order.  A long
 * payload is a block of its own, moved directly from memory to memory. */
#include "inside.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

unsigned char *dev_pieces_gather(unsigned char *to, const struct iovec *pieces, int n)
{
    for (int i = 0; i < n; to += pieces[i++].iov_len)
        if (pieces[i].iov_len)
            memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
    return to;
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static bool number_good(int n)
{
    return n >= 0 && n <= MAD_DEV_PIECES;
}

/* True if all lengths are consistent. *total: their sum. */
static bool remote_good(const mad_dev_remote_t *r, size_t *total)
{
    size_t given, results, compares;
    if (r->n_targets < 1 || !number_good(r->n_targets) || !number_good(r->n) || !number_good(r->n_results) ||
        !number_good(r->n_compares))
        return false;
    *total = 0;
    for (int i = 0; i < r->n_targets; i++)
        *total += r->targets[i].len;
    given = dev_pieces_length(r->pieces, r->n);
    results = dev_pieces_length(r->results, r->n_results);
    compares = dev_pieces_length(r->compares, r->n_compares);
    switch (r->access) {
    case MAD_DEV_WRITE: return given == *total;
    case MAD_DEV_READ: return results == *total;
    case MAD_DEV_ATOMIC: return given == *total && *total <= MAD_DEV_ATOMIC_MAX;
    case MAD_DEV_FETCH: return (given == *total || !given) && results == *total && *total <= MAD_DEV_ATOMIC_MAX;
    case MAD_DEV_COMPARE: return given == *total && results == *total && compares == *total && *total <= MAD_DEV_ATOMIC_MAX;
    }
    return false;
}

/* Write header and targets; return their length. */
static size_t remote_hdr_fill(unsigned char *block, const mad_dev_remote_t *r, uint64_t number, size_t payload)
{
    static const uint8_t kinds[] = {[MAD_DEV_WRITE] = KIND_WRITE,
                                    [MAD_DEV_READ] = KIND_READ,
                                    [MAD_DEV_ATOMIC] = KIND_ATOMIC,
                                    [MAD_DEV_FETCH] = KIND_FETCH,
                                    [MAD_DEV_COMPARE] = KIND_COMPARE};
    remote_hdr_t h = {.kind = kinds[r->access],
                      .flags = r->has_data ? FLAG_DATA : 0,
                      .type = r->type,
                      .op = r->op,
                      .n = (uint8_t)r->n_targets,
                      .number = number,
                      .data = r->data,
                      .len = payload};
    size_t len = (size_t)r->n_targets * sizeof *r->targets;
    memcpy(block, &h, sizeof h);
    memcpy(block + sizeof h, r->targets, len);
    return sizeof h + len;
}

/* Make an operation with a number, and count it as an access to the peer.  Return NULL with the reason in *status. */
static op_t *op_of_access(mad_dev_t *dev, mad_peer_t to, mad_status_t *status)
{
    flow_t *f = dev_flow_make(dev, to);
    op_t *op = NULL;
    *status = MAD_ERR_NOMEM;
    if (f && f->accesses >= MAD_DEV_ACCESSES_MAX)
        *status = MAD_ERR_AGAIN; /* with more answers that wait, the peer might take this process for a hostile one */
    else if (f)
        op = dev_op_new(dev);
    if (op && !dev_number_assign(dev, op)) {
        dev_op_free(dev, op);
        return NULL;
    }
    if (op) {
        op->remote = true;
        op->peer = to;
        f->accesses++;
    }
    return op;
}

static op_t *op_of_remote(mad_dev_t *dev, const mad_dev_remote_t *r, mad_status_t *status)
{
    const struct iovec *pieces = r->access == MAD_DEV_WRITE ? r->pieces : r->results;
    op_t *op;
    dev_lock(dev);
    op = op_of_access(dev, r->to, status);
    if (op) {
        op->silent = r->no_completion;
        op->n = r->access == MAD_DEV_WRITE ? r->n : r->n_results;
        for (int i = 0; i < op->n; i++)
            op->pieces[i] = pieces[i];
        op->room = r->access == MAD_DEV_WRITE ? 0 : dev_pieces_length(pieces, op->n);
        op->awaits = r->access == MAD_DEV_WRITE ? 2 : 1;
        dev_peer_watch(dev, r->to);
        op->context = r->context;
        op->flags = r->flags;
        op->done = (mad_dev_done_t){.sent = true, .released = true};
    }
    dev_unlock(dev);
    return op;
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

static mad_status_t write_later(mad_dev_t *dev, op_t *op, size_t envelope_len, bool whole)
{
    mad_message_t *message = mad_begin_packing(dev->channel, op->peer);
    mad_request_t *request;
    mad_status_t status;
    struct iovec pieces[MAD_DEV_PIECES + 1] = {{op->copy, envelope_len}};
    if (whole) {
        memcpy(pieces + 1, op->pieces, (size_t)op->n * sizeof *pieces);
        mad_pack_gather(message, pieces, op->n + 1, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    } else {
        ((remote_hdr_t *)op->copy)->kind = KIND_WRITE_LONG;
        mad_pack(message, op->copy, envelope_len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
        mad_pack_gather(message, op->pieces, op->n, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    }
    status = mad_end_packing_request(message, &request);
    if (!status)
        dev_item_attach(dev, request, &op->item, dev_send_left);
    return status;
}

static mad_status_t write_out(mad_dev_t *dev, op_t *op, const mad_dev_remote_t *r, size_t len)
{
    unsigned char block[REMOTE_HDR_MAX];
    size_t envelope_len = remote_hdr_fill(block, r, op->number, len);
    bool whole = len <= MAD_DEV_ORDERED || len + REMOTE_HDR_MAX <= dev->whole_max;
    mad_status_t status = MAD_ERR_AGAIN;
    if (whole) { /* a request that is longer than this network's packets is still sent as one block */
        struct iovec pieces[MAD_DEV_PIECES + 1] = {{block, envelope_len}};
        memcpy(pieces + 1, op->pieces, (size_t)op->n * sizeof *pieces);
        status = mad_message_send_now(dev->channel, r->to, pieces, op->n + 1);
    }
    if (status) {
        status = dev_op_copy(dev, op, envelope_len, r->buffered ? len : 0);
        if (status)
            return status;
        memcpy(op->copy, block, envelope_len);
        status = write_later(dev, op, envelope_len, whole);
        if (!status)
            return MAD_OK;
    }
    dev_lock(dev); /* this failure is reported like a later one, so that all failures take one path */
    dev_send_advance(dev, op, status);
    dev_unlock(dev);
    return MAD_OK;
}

/* Handle the end of a request that was sent with an operation and memory of its own.  Only a failure is reported. */
static void request_left(mad_dev_t *dev, item_t *item)
{
    op_t *carrier = dev_item_op(item), *op = dev_number_find(dev, carrier->order);
    mad_peer_t to = carrier->peer;
    mad_status_t status = item->status;
    dev_op_free(dev, carrier);
    if (status && op)
        dev_send_advance(dev, op, status);
    dev_peer_suspect(dev, to, status);
}

static mad_status_t request_out(mad_dev_t *dev, op_t *op, const mad_dev_remote_t *r)
{
    unsigned char bytes[REMOTE_HDR_MAX + 2 * MAD_DEV_ATOMIC_MAX];
    size_t len = dev_pieces_length(r->pieces, r->n) + dev_pieces_length(r->compares, r->n_compares);
    size_t envelope_len = remote_hdr_fill(bytes, r, op->number, len);
    struct iovec piece = {bytes, envelope_len + len};
    mad_block_t block = {bytes, envelope_len + len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    uint64_t number = op->number;
    mad_request_t *request;
    mad_status_t status;
    op_t *carrier;
    dev_pieces_gather(dev_pieces_gather(bytes + envelope_len, r->pieces, r->n), r->compares, r->n_compares);
    if (mad_message_send_now(dev->channel, r->to, &piece, 1) == MAD_OK)
        return MAD_OK;
    dev_lock(dev);
    carrier = dev_op_new(dev);
    dev_unlock(dev);
    if (!carrier)
        return MAD_ERR_NOMEM;
    carrier->peer = r->to;
    carrier->order = number;
    status = mad_message_send(dev->channel, r->to, &block, 1, &request);
    if (!status) {
        dev_item_attach(dev, request, &carrier->item, request_left);
        return MAD_OK;
    }
    dev_lock(dev);
    carrier->item.status = status;
    request_left(dev, &carrier->item);
    dev_unlock(dev);
    return MAD_OK;
}

mad_status_t mad_dev_remote(mad_dev_t *dev, const mad_dev_remote_t *r)
{
    size_t total;
    op_t *op;
    mad_status_t status;
    if (r->to < 0 || !remote_good(r, &total))
        return MAD_ERR_INVAL;
    op = op_of_remote(dev, r, &status);
    if (!op)
        return status;
    status = r->access == MAD_DEV_WRITE ? write_out(dev, op, r, total) : request_out(dev, op, r);
    if (status) { /* nothing was sent */
        dev_lock(dev);
        dev_number_release(dev, op);
        dev_op_free(dev, op);
        dev_unlock(dev);
    }
    return status;
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

void dev_remote_answered(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const remote_hdr_t *h,
                         madi_foreign_t bytes, size_t len)
{
    op_t *op = dev_number_find(dev, h->number);
    size_t there = h->kind == KIND_ANSWER ? len : h->len;
    if (!op || !op->remote || op->peer != source) {
        dev_message_end(message); /* malformed: drop it */
        return;
    }
    dev_number_release(dev, op);
    /* An operation without room is a write: its item may still be used by the request. */
    if (h->kind == KIND_ANSWER_LONG && !h->refused && there == op->room && there) {
        dev_op_receive_from(dev, op, message, there, 0, dev_send_left);
        return;
    }
    if (!h->refused && there == op->room)
        dev_op_fill(op, bytes, len);
    else
        op->done.status = h->refused ? MAD_ERR_INVAL : MAD_ERR_MISMATCH;
    dev_message_end(message);
    dev_send_advance(dev, op, MAD_OK);
}
