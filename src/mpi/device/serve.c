/* SPDX-License-Identifier: BSD-3-Clause */
/* Accesses by peers to memory of this process.  The requests are not trusted: targets are looked up when they are used. */
#include "inside.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

/* one lock for all devices, because two devices may share memory */
static pthread_mutex_t atomics = PTHREAD_MUTEX_INITIALIZER;

typedef struct remote_request {
    remote_hdr_t h;
    mad_dev_access_t access;
    mad_peer_t source;
    mad_dev_target_t targets[MAD_DEV_PIECES];
    struct iovec pieces[MAD_DEV_PIECES]; /* addresses of the targets in this process */
    size_t total;
    bool refused;
} remote_request_t;

/* ---- Targets ----------------------------------------------------------------------------------------------------- */

/* Release all targets. good: the access was made; this is reported once for each key.  op: the atomic operation, 0 for
 * other accesses. */
static void targets_release(mad_dev_t *dev, const mad_dev_target_t *targets, int n, mad_dev_access_t access, uint8_t op,
                            bool good)
{
    for (int i = 0; i < n; i++) {
        bool first = true;
        for (int j = 0; j < i; j++)
            first = first && targets[j].key != targets[i].key;
        dev->memory->drop(dev->arg, &targets[i], access, op, good && first);
    }
}

/* Hold all targets, or none if one is refused; the request is then refused. */
static void targets_hold(mad_dev_t *dev, remote_request_t *r)
{
    int i;
    r->refused = !dev->memory;
    for (i = 0; i < r->h.n && !r->refused; i++) {
        void *at = dev->memory->hold(dev->arg, &r->targets[i], r->access, r->h.op);
        r->pieces[i] = (struct iovec){at, r->targets[i].len};
        r->total += r->targets[i].len;
        r->refused = !at;
    }
    if (r->refused && i > 1)
        targets_release(dev, r->targets, i - 1, r->access, r->h.op, false);
}

static void served_notify(mad_dev_t *dev, mad_dev_access_t access, uint8_t op, mad_peer_t source, size_t len)
{
    mad_dev_done_t done = {.served = access, .op = op, .source = source, .len = len};
    dev->notify(dev->arg, &done);
}

static void written_notify(mad_dev_t *dev, mad_peer_t source, size_t len, bool has_data, uint64_t data)
{
    mad_dev_done_t done = {.served = MAD_DEV_WRITE, .source = source, .len = len, .has_data = has_data, .data = data};
    dev->notify(dev->arg, &done);
}

/* ---- Accesses under way ------------------------------------------------------------------------------------------ */

/* Count an access that is not over with its request: a long one, or one whose answer cannot leave at once.  Return false if
 * the peer has too many of them, or has broken the protocol before: the access is then not made, or not answered. */
static bool served_take(mad_dev_t *dev, mad_peer_t peer)
{
    flow_t *f = dev_flow_make(dev, peer);
    if (f && (f->shut || f->served >= MAD_DEV_SERVED_MAX)) {
        dev_peer_breach(dev, peer);
        return false;
    }
    if (f)
        f->served++;
    return true;
}

static void served_release(mad_dev_t *dev, mad_peer_t peer)
{
    flow_t *f = dev_flow_find(dev, peer);
    if (f && f->served) /* not if memory was lacking when the access was to be counted */
        f->served--;
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static void remote_answer_left(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    served_release(dev, op->peer);
    dev_op_free(dev, op);
}

/* Send an answer as soon as possible. */
static void answer_queue(mad_dev_t *dev, mad_peer_t to, const mad_block_t *block)
{
    mad_request_t *request;
    op_t *op;
    if (!served_take(dev, to))
        return;
    op = dev_op_new(dev);
    if (op && mad_message_send(dev->channel, to, block, 1, &request) == MAD_OK) {
        op->peer = to;
        dev_item_attach(dev, request, &op->item, remote_answer_left);
        return;
    }
    if (op)
        dev_op_free(dev, op);
    served_release(dev, to);
}

/* Send an answer.  bytes: has room for a header before it; NULL if nothing was read. */
static void remote_answer(mad_dev_t *dev, mad_peer_t to, uint64_t number, bool refused, unsigned char *bytes, size_t len)
{
    remote_hdr_t h = {.kind = KIND_ANSWER, .number = number, .refused = refused, .len = len}, alone;
    unsigned char *at = bytes ? bytes - sizeof h : (unsigned char *)&alone;
    mad_block_t block = {at, sizeof h + len, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    struct iovec piece = {at, sizeof h + len};
    memcpy(at, &h, sizeof h);
    if (mad_message_send_now(dev->channel, to, &piece, 1) != MAD_OK)
        answer_queue(dev, to, &block);
}

static void remote_refuse(mad_dev_t *dev, const remote_request_t *r)
{
    remote_answer(dev, r->source, r->h.number, true, NULL, 0);
}

/* Make an operation that keeps the request until its payload has left or arrived.  room: further bytes, after the
 * targets. */
static op_t *op_of_request(mad_dev_t *dev, const remote_request_t *r, size_t room)
{
    op_t *op = dev_op_new(dev);
    size_t len = r->h.n * sizeof *r->targets;
    if (!op)
        return NULL;
    op->copy = malloc(len + room + 1);
    if (!op->copy) {
        dev_op_free(dev, op);
        return NULL;
    }
    memcpy(op->copy, r->targets, len);
    op->peer = r->source;
    op->order = r->h.number;
    op->n = r->refused ? 0 : r->h.n;
    op->room = r->refused ? 0 : r->total;
    memcpy(op->pieces, r->pieces, (size_t)op->n * sizeof *op->pieces);
    op->closed = r->refused;
    op->done.has_data = r->h.flags & FLAG_DATA;
    op->done.data = r->h.data;
    return op;
}

/* ---- Writes ------------------------------------------------------------------------------------------------------ */

static void write_done(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    mad_peer_t source = op->peer;
    mad_status_t status = item->status;
    bool good = !status && !op->closed;
    served_release(dev, source);
    targets_release(dev, op->copy, op->n, MAD_DEV_WRITE, 0, good);
    if (!status)
        remote_answer(dev, source, op->order, op->closed, NULL, 0);
    if (good)
        written_notify(dev, source, op->room, op->done.has_data, op->done.data);
    dev_op_free(dev, op);
    dev_peer_suspect(dev, source, status);
}

static bool write_long_in(mad_dev_t *dev, mad_message_t *message, remote_request_t *r)
{
    bool allowed = served_take(dev, r->source);
    op_t *op;
    if (!r->refused && (r->total != r->h.len || !allowed)) {
        targets_release(dev, r->targets, r->h.n, r->access, 0, false);
        r->refused = true;
    }
    if (!allowed) {
        dev_message_end(message);
        return true;
    }
    op = op_of_request(dev, r, 0);
    if (op) {
        dev_op_receive_from(dev, op, message, r->h.len, 0, write_done);
        return true;
    }
    served_release(dev, r->source);
    if (!r->refused)
        targets_release(dev, r->targets, r->h.n, r->access, 0, false);
    return false;
}

static void write_in(mad_dev_t *dev, remote_request_t *r, madi_foreign_t bytes, size_t len)
{
    op_t op = {.n = r->h.n, .room = r->total};
    bool good = r->total == len;
    memcpy(op.pieces, r->pieces, sizeof op.pieces);
    if (good)
        dev_op_fill(&op, bytes, len);
    targets_release(dev, r->targets, r->h.n, r->access, 0, good);
    remote_answer(dev, r->source, r->h.number, !good, NULL, 0);
    if (good)
        written_notify(dev, r->source, len, r->h.flags & FLAG_DATA, r->h.data);
}

/* ---- Reads ------------------------------------------------------------------------------------------------------- */

static void read_out(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    mad_peer_t to = op->peer;
    mad_status_t status = item->status;
    served_release(dev, to);
    targets_release(dev, op->copy, op->n, MAD_DEV_READ, 0, !status);
    dev_buffer_release(dev, op->copy_len);
    if (!status)
        served_notify(dev, MAD_DEV_READ, 0, to, op->room);
    dev_op_free(dev, op);
    dev_peer_suspect(dev, to, status);
}

/* Make the operation of a long read, with room for a copy.  The copies are bounded: targets may overlap, and the peer need not
 * take the answer.  NULL: there is no room, or no memory. */
static op_t *op_of_long_read(mad_dev_t *dev, const remote_request_t *r, size_t copied)
{
    op_t *op;
    if (!dev_buffer_take(dev, copied))
        return NULL;
    op = op_of_request(dev, r, copied);
    if (op)
        op->copy_len = copied;
    else
        dev_buffer_release(dev, copied);
    return op;
}

/* Answer a long read directly from memory if it has only one target.  Later accesses may change that memory before it is
 * sent. */
static bool read_long_in(mad_dev_t *dev, const remote_request_t *r)
{
    remote_hdr_t h = {.kind = KIND_ANSWER_LONG, .number = r->h.number, .len = r->total};
    mad_block_t blocks[] = {{&h, sizeof h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                            {r->pieces[0].iov_base, r->total, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    size_t copied = r->h.n > 1 ? r->total : 0;
    mad_request_t *request;
    op_t *op;
    if (!served_take(dev, r->source)) {
        targets_release(dev, r->targets, r->h.n, r->access, 0, false);
        return true;
    }
    op = op_of_long_read(dev, r, copied);
    if (!op) {
        served_release(dev, r->source);
        targets_release(dev, r->targets, r->h.n, r->access, 0, false);
        if (!copied)
            return false;
        remote_refuse(dev, r); /* waiting for that much memory would stop all peers */
        return true;
    }
    if (copied) {
        blocks[1].base = (mad_dev_target_t *)op->copy + r->h.n;
        dev_pieces_gather(blocks[1].base, r->pieces, r->h.n);
    }
    op->item.status = mad_message_send(dev->channel, r->source, blocks, 2, &request);
    if (!op->item.status)
        dev_item_attach(dev, request, &op->item, read_out);
    else
        read_out(dev, &op->item);
    return true;
}

static void read_short_in(mad_dev_t *dev, const remote_request_t *r)
{
    unsigned char bytes[sizeof(remote_hdr_t) + MAD_DEV_ORDERED];
    dev_pieces_gather(bytes + sizeof(remote_hdr_t), r->pieces, r->h.n);
    targets_release(dev, r->targets, r->h.n, r->access, 0, true);
    remote_answer(dev, r->source, r->h.number, false, bytes + sizeof(remote_hdr_t), r->total);
    served_notify(dev, MAD_DEV_READ, 0, r->source, r->total);
}

void dev_remote_forget(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    if (item->look == write_done)
        targets_release(dev, op->copy, op->n, MAD_DEV_WRITE, 0, false);
    else if (item->look == read_out)
        targets_release(dev, op->copy, op->n, MAD_DEV_READ, 0, false);
}

/* ---- Atomic operations ------------------------------------------------------------------------------------------- */

/* True if there is an operand for every element, or (FETCH only) none at all. */
static bool atomic_good(const mad_dev_t *dev, const remote_request_t *r, size_t len)
{
    bool operand = len != 0;
    size_t wanted = r->access == MAD_DEV_COMPARE ? 2 * r->total : r->total;
    if (r->total > MAD_DEV_ATOMIC_MAX || (len != wanted && (operand || r->access != MAD_DEV_FETCH)))
        return false;
    for (int i = 0; i < r->h.n; i++)
        if (!dev->memory->is_good(r->access, r->h.type, r->h.op, r->pieces[i].iov_len, operand))
            return false;
    return true;
}

static void atomic_in(mad_dev_t *dev, const remote_request_t *r, madi_foreign_t bytes, size_t len)
{
    unsigned char operands[2 * MAD_DEV_ATOMIC_MAX];
    unsigned char room[sizeof(remote_hdr_t) + MAD_DEV_ATOMIC_MAX], *results = room + sizeof(remote_hdr_t);
    bool fetches = r->access != MAD_DEV_ATOMIC, compares = r->access == MAD_DEV_COMPARE, good = atomic_good(dev, r, len);
    size_t at = 0;
    if (good)
        madi_foreign_copy(operands, bytes, len);
    if (good)
        pthread_mutex_lock(&atomics);
    for (int i = 0; i < r->h.n && good; at += r->pieces[i++].iov_len)
        dev->memory->operate(r->h.type, r->h.op, r->pieces[i].iov_base, r->pieces[i].iov_len, len ? operands + at : NULL,
                             compares ? operands + r->total + at : NULL, fetches ? results + at : NULL);
    if (good)
        pthread_mutex_unlock(&atomics);
    targets_release(dev, r->targets, r->h.n, r->access, r->h.op, good);
    remote_answer(dev, r->source, r->h.number, !good, good && fetches ? results : NULL, good && fetches ? r->total : 0);
    if (good)
        served_notify(dev, r->access, r->h.op, r->source, r->total);
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

/* Read the targets.  *bytes: the data after them; *len: length of the block before the call, of these data afterwards.
 * Return false if the request is malformed. */
static bool request_read(remote_request_t *r, madi_foreign_t block, madi_foreign_t *bytes, size_t *len)
{
    static const mad_dev_access_t accesses[] = {MAD_DEV_WRITE,  MAD_DEV_WRITE, MAD_DEV_READ,
                                                MAD_DEV_ATOMIC, MAD_DEV_FETCH, MAD_DEV_COMPARE};
    size_t targets = r->h.n * sizeof *r->targets;
    if (r->h.kind < KIND_WRITE || r->h.kind > KIND_COMPARE || r->h.n > MAD_DEV_PIECES || *len < sizeof r->h + targets)
        return false;
    if (!r->h.n) /* without a target no key would be checked */
        return false;
    r->access = accesses[r->h.kind - KIND_WRITE];
    madi_foreign_copy(r->targets, madi_foreign_skip(block, sizeof r->h), targets);
    *bytes = madi_foreign_skip(block, sizeof r->h + targets);
    *len -= sizeof r->h + targets;
    return true;
}

bool dev_remote_serve(mad_dev_t *dev, mad_peer_t source, mad_message_t *message, const remote_hdr_t *h, madi_foreign_t block,
                      size_t len)
{
    remote_request_t r = {.source = source};
    madi_foreign_t bytes;
    bool room = true;
    if (len >= sizeof r.h)
        r.h = *h;
    if (!message && (r.h.kind == KIND_ANSWER_LONG || r.h.kind == KIND_WRITE_LONG))
        return true; /* the request is malformed: the second block is missing */
    if (r.h.kind == KIND_ANSWER || r.h.kind == KIND_ANSWER_LONG) {
        dev_remote_answered(dev, source, message, &r.h, madi_foreign_skip(block, sizeof r.h), len - sizeof r.h);
        return true;
    }
    if (!request_read(&r, block, &bytes, &len)) {
        dev_message_end(message);
        return true;
    }
    targets_hold(dev, &r);
    if (r.h.kind == KIND_WRITE_LONG)
        return write_long_in(dev, message, &r);
    if (r.refused)
        remote_refuse(dev, &r);
    else if (r.access == MAD_DEV_WRITE)
        write_in(dev, &r, bytes, len);
    else if (r.access != MAD_DEV_READ)
        atomic_in(dev, &r, bytes, len);
    else if (r.total <= MAD_DEV_ORDERED)
        read_short_in(dev, &r);
    else
        room = read_long_in(dev, &r);
    if (room)
        dev_message_end(message);
    return room;
}
