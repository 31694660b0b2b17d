/* SPDX-License-Identifier: BSD-3-Clause */
/* Outgoing messages.  A short message is one block, envelope and payload, which is sent at once.  If it cannot be sent at
 * once, or is longer, the payload is a block of its own, moved directly from the program's memory to the receiver's. */
#include "inside.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

/* ---- Later completions ------------------------------------------------------------------------------------------- */

void dev_item_push(void *arg, mad_status_t status)
{
    item_t *item = arg;
    mad_dev_t *dev = item->dev;
    item->status = status;
    item->next = atomic_load_explicit(&dev->items, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&dev->items, &item->next, item, memory_order_release,
                                                  memory_order_relaxed)) /* pairs with look_at_items */
        ;
    if (dev->by_handler && dev_trylock(dev))
        dev_unlock(dev);
}

void dev_item_attach(mad_dev_t *dev, mad_request_t *request, item_t *item, void (*look)(mad_dev_t *dev, item_t *item))
{
    item->dev = dev;
    item->look = look;
    atomic_fetch_add_explicit(&dev->under_way, 1, memory_order_relaxed);
    mad_request_detach(request, dev_item_push, item);
}

bool dev_buffer_take(mad_dev_t *dev, size_t len)
{
    size_t taken = atomic_load_explicit(&dev->buffered, memory_order_relaxed);
    if (len > MAD_DEV_BUFFERED_MAX || taken > MAD_DEV_BUFFERED_MAX - len)
        return false;
    atomic_fetch_add_explicit(&dev->buffered, len, memory_order_relaxed);
    return true;
}

void dev_buffer_release(mad_dev_t *dev, size_t len)
{
    atomic_fetch_sub_explicit(&dev->buffered, len, memory_order_relaxed);
}

mad_status_t dev_op_copy(mad_dev_t *dev, op_t *op, size_t before, size_t len)
{
    size_t takes = len ? len + sizeof *op : 0;
    unsigned char *to;
    if (!dev_buffer_take(dev, takes))
        return MAD_ERR_AGAIN;
    op->copy = to = malloc(before + len);
    if (!to) {
        dev_buffer_release(dev, takes);
        return MAD_ERR_NOMEM;
    }
    op->copy_len = takes;
    if (len) {
        dev_pieces_gather(to + before, op->pieces, op->n);
        op->pieces[0] = (struct iovec){to + before, len};
        op->n = 1;
    }
    return MAD_OK;
}

void dev_send_advance(mad_dev_t *dev, op_t *op, mad_status_t status)
{
    if (status && !op->done.status)
        op->done.status = status;
    if (status && op->number) { /* a message that has not left cannot be matched */
        dev_number_release(dev, op);
        op->awaits--;
    }
    if (--op->awaits > 0)
        return;
    if (op->copy)
        dev_buffer_release(dev, op->copy_len);
    op->silent = op->silent && !op->done.status;
    dev_op_complete(dev, op);
}

void dev_send_left(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    mad_peer_t to = op->peer;
    dev_send_advance(dev, op, item->status);
    dev_peer_suspect(dev, to, item->status);
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

static inline size_t send_envelope_fill(wire_envelope_t *h, const mad_dev_send_t *s, size_t len)
{
    bool wide = s->data >> 32 || s->matched;
    *h = (wire_envelope_t){
        .kind = KIND_WHOLE, .data = (uint32_t)s->data, .tag = s->tag, .data_high = (uint32_t)(s->data >> 32), .len = len};
    h->flags = (uint8_t)((s->space == MAD_DEV_PLAIN ? FLAG_PLAIN : 0) | (s->has_data ? FLAG_DATA : 0) |
                         (s->matched ? FLAG_ACK : 0) | (wide ? FLAG_WIDE : 0));
    return wide ? sizeof *h : ENVELOPE_SHORT;
}

static inline mad_status_t send_whole(mad_dev_t *dev, const mad_dev_send_t *s, wire_envelope_t *h, size_t envelope_len)
{
    struct iovec pieces[MAD_DEV_PIECES + 1];
    pieces[0] = (struct iovec){h, envelope_len};
    for (int i = 0; i < s->n; i++)
        pieces[i + 1] = s->pieces[i];
    return mad_message_send_now(dev->channel, s->to, pieces, s->n + 1);
}

static void pack_blocks(mad_message_t *message, const unsigned char *bytes, size_t len, size_t block)
{
    for (size_t n; len; bytes += n, len -= n) {
        n = len < block ? len : block;
        mad_pack(message, bytes, n, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    }
}

/* True if, as far as this process knows, each process has a core of its own.  Peers, including this process, are numbered
 * from 0. */
static bool cores_suffice(mad_dev_t *dev)
{
    int n = atomic_load_explicit(&dev->known, memory_order_relaxed), adapter;
    while (n <= dev->cores && mad_peer_adapter(dev->session, n, &adapter) != MAD_ERR_INVAL)
        n++;
    /* several threads may store this number; the last value is good, because peers are never removed */
    atomic_store_explicit(&dev->known, n, memory_order_relaxed);
    return n <= dev->cores;
}

/* True if the payload is sent without a grant, in blocks that fit into one packet each: if it needs only a few packets
 * on a network.  Through shared memory a grant costs almost nothing, and both sides can move parts of one block at the
 * same time.  On oversubscribed cores short payloads are sent without a grant there too, because a grant waits until
 * its process runs. */
static bool in_blocks(mad_dev_t *dev, const op_t *op, uint64_t len)
{
    mad_adapter_info_t info;
    int i;
    if (op->n != 1 || len <= dev->whole_max || len > MAD_DEV_LOAD_MAX)
        return false;
    return mad_peer_adapter(dev->session, op->peer, &i) || mad_adapter_get(dev->session, i, &info) ||
           strcmp(info.driver, "shm") != 0 || (len <= MAD_DEV_FETCH_MAX && !cores_suffice(dev));
}

/* Send as two blocks or more, with a request. */
static mad_status_t send_in_blocks(mad_dev_t *dev, op_t *op, wire_envelope_t *h)
{
    mad_message_t *message = mad_begin_packing(dev->channel, op->peer);
    mad_request_t *request;
    mad_status_t status;
    h->kind = KIND_LONG;
    h->flags |= FLAG_WIDE;
    h->block = in_blocks(dev, op, h->len) ? (uint32_t)dev->whole_max : 0;
    mad_pack(message, h, sizeof *h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS);
    if (h->block)
        pack_blocks(message, op->pieces[0].iov_base, h->len, h->block);
    else
        mad_pack_gather(message, op->pieces, op->n, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_packing_request(message, &request);
    if (!status)
        dev_item_attach(dev, request, &op->item, dev_send_left);
    return status;
}

/* Refer to the program's memory, or copy it for a buffered send. */
static mad_status_t op_take_payload(mad_dev_t *dev, op_t *op, const mad_dev_send_t *s, size_t len)
{
    op->n = s->n;
    for (int i = 0; i < s->n; i++)
        op->pieces[i] = s->pieces[i];
    return s->buffered && len ? dev_op_copy(dev, op, 0, len) : MAD_OK;
}

op_t *dev_op_of_send(mad_dev_t *dev, const mad_dev_send_t *s, size_t len, bool needs_grant, mad_status_t *status)
{
    op_t *op;
    dev_lock(dev);
    op = dev_op_new(dev);
    *status = op ? op_take_payload(dev, op, s, len) : MAD_ERR_NOMEM;
    if (!*status) {
        op->peer = s->to;
        op->silent = s->no_completion;
        op->needs_grant = op->envelope_waits = needs_grant;
        op->awaits = s->matched && !needs_grant ? 2 : 1;
        op->context = s->context;
        op->flags = s->flags;
        op->done = (mad_dev_done_t){.sent = true, .released = true};
        if ((needs_grant || s->matched) && !dev_number_assign(dev, op))
            *status = MAD_ERR_NOMEM;
        else if (needs_grant || s->matched)
            dev_peer_watch(dev, s->to);
    }
    if (*status && op) {
        if (op->copy)
            dev_buffer_release(dev, op->copy_len);
        dev_op_free(dev, op);
        op = NULL;
    }
    dev_unlock(dev);
    return op;
}

/* Send with an operation, whose completion is reported by `notify`. */
static mad_status_t send_later(mad_dev_t *dev, const mad_dev_send_t *s, wire_envelope_t *h, size_t len)
{
    mad_status_t status;
    op_t *op = dev_op_of_send(dev, s, len, false, &status);
    if (!op)
        return status;
    h->number = op->number;
    if (s->matched && len <= dev->whole_max && send_whole(dev, s, h, sizeof *h) == MAD_OK) {
        dev_lock(dev);
        dev_send_advance(dev, op, MAD_OK);
        dev_unlock(dev);
        return MAD_OK;
    }
    status = send_in_blocks(dev, op, h);
    if (status) { /* this failure is reported like a later one, so that all failures take one path */
        dev_lock(dev);
        dev_send_advance(dev, op, status);
        dev_unlock(dev);
    }
    return MAD_OK;
}

/* ---- First contact ----------------------------------------------------------------------------------------------- */

/* State of the connection to a peer.  A send without an error report would fail unnoticed if the peer cannot be
 * reached or has another key, and the peer might wait for the message for ever.  So the first send without an error
 * report waits until an empty message has left, unless a connection exists already.  A peer that has sent a message is
 * connected, and answers to it are sent at once.  Open MPI 4.1 sends answers while it reads the queue; if Open MPI had
 * to wait in such a send, it would read the queue again, into the same memory. */
enum { UNKNOWN = 0, GREETED, THERE };

bool dev_peers_grow(unsigned char **by_peer, int *n, mad_peer_t peer)
{
    int room = (peer + 64) / 64 * 64;
    unsigned char *more = peer < *n ? *by_peer : realloc(*by_peer, (size_t)room);
    if (!more)
        return false;
    if (peer >= *n) {
        memset(more + *n, 0, (size_t)(room - *n));
        *n = room;
    }
    *by_peer = more;
    return true;
}

static void greeting_left(mad_dev_t *dev, item_t *item)
{
    op_t *op = dev_item_op(item);
    mad_status_t status = item->status;
    mad_peer_t to = op->peer;
    dev->greeted[to] = status ? UNKNOWN : THERE;
    dev_op_free(dev, op);
    dev_peer_suspect(dev, to, status);
}

static mad_status_t peer_greet(mad_dev_t *dev, mad_peer_t to)
{
    wire_envelope_t h = {.kind = KIND_MATCHED, .flags = FLAG_WIDE}; /* 0 is no send's number */
    mad_block_t block = {&h, sizeof h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request;
    op_t *op = dev_op_new(dev);
    mad_status_t status = op ? mad_message_send(dev->channel, to, &block, 1, &request) : MAD_ERR_NOMEM;
    if (status && op)
        dev_op_free(dev, op);
    if (status)
        return status;
    dev->greeted[to] = GREETED;
    op->peer = to;
    dev_item_attach(dev, request, &op->item, greeting_left);
    return MAD_ERR_AGAIN;
}

static mad_status_t peer_known(mad_dev_t *dev, mad_peer_t to)
{
    mad_status_t status;
    int adapter;
    dev_lock(dev);
    status = dev_peer_status(dev, to);
    if (!status && !dev_peers_grow(&dev->greeted, &dev->n_greeted, to))
        status = MAD_ERR_NOMEM;
    if (!status && dev->greeted[to] != THERE && mad_peer_adapter(dev->session, to, &adapter) == MAD_OK)
        dev->greeted[to] = THERE;
    if (!status && dev->greeted[to] != THERE)
        status = dev->greeted[to] == GREETED ? MAD_ERR_AGAIN : peer_greet(dev, to);
    dev_unlock(dev);
    return status;
}

mad_status_t mad_dev_send_now(mad_dev_t *dev, mad_peer_t to, const void *buf, size_t len, uint64_t tag, uint64_t data)
{
    static_assert(MAD_DEV_DATA(0) == FLAG_DATA << 8 && MAD_DEV_TAGGED == 0, "data are the first word of an envelope");
    /* The envelope as one vector, stored in the size in which it will be read: a reader would have to wait for two smaller
     * stores. */
    typedef uint64_t two_t __attribute__((vector_size(16)));
    uint64_t cost = len + MAD_DEV_ENVELOPE_COST;
    two_t envelope = {KIND_WHOLE | data, tag};
    static_assert(sizeof envelope == ENVELOPE_SHORT && offsetof(wire_envelope_t, flags) == 1 &&
                      offsetof(wire_envelope_t, data) == 4 && offsetof(wire_envelope_t, tag) == 8,
                  "the beginning of an envelope");
    struct iovec pieces[2] = {{&envelope, sizeof envelope}, {(void *)buf, len}};
    /* whole_max is below MAD_DEV_LOAD_MAX, from which on the cost would be 0 (dev_flow_cost). */
    if (MAD_DEV_LIKELY(len <= dev->whole_max && dev_flow_take(dev, to, cost))) {
        if (MAD_DEV_LIKELY(mad_message_send_now(dev->channel, to, pieces, 2) == MAD_OK))
            return MAD_OK;
        dev_flow_refund(dev, to, cost);
    }
    return MAD_ERR_AGAIN;
}

mad_status_t mad_dev_send(mad_dev_t *dev, const mad_dev_send_t *s, bool *later)
{
    size_t len, envelope_len;
    uint64_t cost;
    wire_envelope_t h;
    mad_status_t status;
    if (s->n < 0 || s->n > MAD_DEV_PIECES)
        return MAD_ERR_INVAL;
    len = dev_pieces_length(s->pieces, s->n);
    envelope_len = send_envelope_fill(&h, s, len);
    cost = dev_flow_cost(len);
    if (cost && !dev_flow_take(dev, s->to, cost)) {
        status = dev_announce_send(dev, s, &h, len);
        if (!status)
            *later = true;
        return status;
    }
    if (!s->matched && len <= dev->whole_max && send_whole(dev, s, &h, envelope_len) == MAD_OK) {
        *later = false;
        return MAD_OK;
    }
    status = s->no_error_report ? peer_known(dev, s->to) : MAD_OK;
    if (!status)
        status = send_later(dev, s, &h, len);
    if (!status)
        *later = true;
    else if (cost)
        dev_flow_refund(dev, s->to, cost);
    return status;
}

void dev_matched_send(mad_dev_t *dev, mad_peer_t to, uint64_t number)
{
    dev_answer_send(dev, to, &(wire_envelope_t){.kind = KIND_MATCHED, .flags = FLAG_WIDE, .number = number});
}

void dev_answer_send(mad_dev_t *dev, mad_peer_t to, const wire_envelope_t *h)
{
    struct iovec piece = {(void *)h, sizeof *h};
    mad_block_t block = {(void *)h, sizeof *h, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request;
    if (mad_message_send_now(dev->channel, to, &piece, 1) != MAD_OK &&
        mad_message_send(dev->channel, to, &block, 1, &request) == MAD_OK)
        mad_request_detach(request, NULL, NULL);
}
