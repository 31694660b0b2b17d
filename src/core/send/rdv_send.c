/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous blocks: announced, and sent after the receiver's grant.  Rendezvous blocks are long, or were LATER when the
 * message was flushed.  All under gate->tx_lock, except the functions that drivers call. */
#include "base/clock.h"
#include "core/conn/credit.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/tx.h"
#include "core/send/policy.h"
#include "core/send/rdv_send.h"
#include "core/send/send.h"
#include "core/send/send_gate.h"
#include "core/wire/handle.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* bytes of a shared block that are sent as a packet, which shows that the others have been written */
#define PUT_REST MADI_SHORT_MAX

static void announced_count(madi_gate_t *gate, int n)
{
    int old = atomic_load_explicit(&gate->n_announced, memory_order_relaxed);
    atomic_store_explicit(&gate->n_announced, old + n, memory_order_relaxed);
}

static madi_rdv_send_t *announced_alloc(madi_tx_t *tx)
{
    madi_rdv_send_t *r = tx->free_block;
    tx->free_block = NULL;
    return r ? r : malloc(sizeof *r); /* faster than calloc, for which glibc does not use the thread's cache */
}

/* Keep the memory of one block with the message, whose structure is mostly reused. */
static void announced_free(madi_tx_t *tx, madi_rdv_send_t *r)
{
    if (tx->free_block)
        free(r);
    else
        tx->free_block = r;
}

uint32_t madi_rdv_announce(madi_tx_t *tx, madi_piece_t *piece, uint32_t eager, bool held, bool readable)
{
    madi_gate_t *gate = tx->conn->gate;
    madi_rdv_send_t *r = piece->handle ? madi_handle_get(gate->send->blocks, piece->handle) : NULL;
    if (!r) {
        r = announced_alloc(tx);
        if (!r)
            return 0;
        *r = (madi_rdv_send_t){.tx = tx, .base = piece->base, .segs = piece->segs, .n_segs = piece->n_segs, .held = held};
        r->handle = madi_handle_add(gate->send->blocks, r);
        if (!r->handle) {
            announced_free(tx, r);
            return 0;
        }
        announced_count(gate, 1);
        r->len = r->end = MADI_WIRE_DESC_LEN(piece->desc);
        piece->handle = r->handle;
        tx->rdv_pending++;
        tx->conn->n_blocks++;
        r->asked = piece->timed && piece->way == MADI_WAY_ANNOUNCED ? madi_now() : 0;
        r->began = madi_trace_now();
        if (MADI_UNLIKELY(madi_tracing))
            madi_trace_conn(MADI_TRACE_REQUEST, 0, tx->conn, r->handle, r->len);
        tx->sending.n_held += held;
    }
    r->sent = eager;
    r->readable = readable;
    return r->handle;
}

/* ---- Written into the receiver's memory ------------------------------------------------------------------------ */

/* Claim the receiver's offer for the first block of a message.  Only for a thread that waits: such a thread has nothing
 * else to do, while the receiver may be computing. */
static void offer_claim(madi_tx_t *tx, const madi_piece_t *piece)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    madi_offer_t offer = {
        .position = madi_credit_used(conn), .len = MADI_WIRE_DESC_LEN(piece->desc), .channel = conn->number};
    tx->sending.put_tried = true;
    if (link->direct && tx->wait && !tx->started && piece == tx->pieces && piece->base && !piece->handle &&
        link->driver->direct.claim(link, &offer))
        tx->sending.put_at = offer.at;
}

bool madi_tx_put(madi_tx_t *tx, const madi_piece_t *piece)
{
    madi_gate_t *gate = tx->conn->gate;
    uint64_t len = MADI_WIRE_DESC_LEN(piece->desc), n = len - tx->sending.put_bytes;
    if (!tx->sending.put_tried)
        offer_claim(tx, piece);
    if (!tx->sending.put_at || piece != tx->pieces)
        return false;
    if (!n)
        return true;
    if (n > MADI_STRIDE)
        n = MADI_STRIDE;
    if (!gate->link->driver->direct.put(gate->link, tx->sending.put_at + tx->sending.put_bytes,
                                        (const unsigned char *)piece->base + tx->sending.put_bytes, n)) {
        tx->sending.put_at = 0; /* the block is then sent like other blocks, if the peer is still there */
        return false;
    }
    tx->sending.put_bytes += n;
    gate->send->count.put_blocks += tx->sending.put_bytes == len;
    gate->send->count.put_bytes += n;
    tx->conn->block_bytes_out += n;
    return true;
}

/* Write a stride of a shared block.  The rest of this side's part is sent as a packet at the end.  Return false if more
 * strides have to be written before that packet. */
static bool share_put_stride(madi_gate_t *gate, madi_rdv_send_t *r)
{
    uint64_t n = r->end - r->sent;
    if (!r->put_at || n <= PUT_REST)
        return true;
    n = n - PUT_REST < MADI_STRIDE ? n - PUT_REST : MADI_STRIDE;
    if (!gate->link->driver->direct.put(gate->link, r->put_at + r->sent, r->base + r->sent, n)) {
        r->put_at = 0;
        return true;
    }
    r->sent += n;
    gate->send->count.put_bytes += n;
    r->tx->conn->block_bytes_out += n;
    if (r->end - r->sent == PUT_REST)
        return true;
    madi_gate_go_on(gate);
    return false;
}

/* ---- Announced ------------------------------------------------------------------------------------------------- */

/* Record that no prepared piece is left: it was sent, or never will be. */
static void prepared_clear(madi_gate_t *gate, madi_rdv_send_t *r)
{
    r->prepared = NULL;
    gate->send->prepared = false;
}

static void rdv_finish(madi_gate_t *gate, madi_rdv_send_t *r)
{
    madi_tx_t *tx = r->tx;
    if (r->prepared) {
        if (atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_UP)
            gate->link->driver->fast.forget(gate->link, r->prepared);
        prepared_clear(gate, r);
    }
    madi_handle_del(gate->send->blocks, r->handle);
    announced_count(gate, -1);
    gate->send->count.granted_blocks += r->granted;
    if (r->asked && gate->send->ways)
        madi_share_record(gate->send->ways, r->len, true, madi_now() - r->asked);
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_BLOCK_OUT, r->began, tx->conn, r->handle, r->len);
    announced_free(tx, r);
    tx->rdv_pending--;
    tx->conn->n_blocks--;
    madi_tx_check_complete(tx);
}

static MADI_COLD void piece_trace(const madi_gate_t *gate, const madi_rdv_send_t *r)
{
    if (gate->link)
        madi_trace_link(MADI_TRACE_PIECE_OUT, r->piece_began, gate->link, r->handle, r->hdr.length);
}

/* True if this side has sent its part of the block, and the receiver has read the other part, if there is one. */
static bool rdv_is_complete(const madi_rdv_send_t *r)
{
    return r->sent == r->end && (r->end == r->len || r->fetched);
}

/* Complete a piece that the driver had taken. */
static void rdv_piece_done(madi_op_t *op, mad_status_t status)
{
    madi_rdv_send_t *r = (madi_rdv_send_t *)op;
    madi_gate_t *gate = r->tx->conn->gate;

    madi_lock(&gate->tx_lock);
    r->busy--;
    if (MADI_UNLIKELY(madi_tracing))
        piece_trace(gate, r);
    if (!status && !rdv_is_complete(r) && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN)
        status = gate->status; /* this piece has left, but the link has failed, so the rest cannot leave */
    if (status)
        madi_message_fail(&r->tx->base, status);
    if (!r->busy && (status || rdv_is_complete(r)))
        rdv_finish(gate, r);
    madi_gate_work(gate);
    madi_unlock(&gate->tx_lock);
}

/* Return the length of the pieces of a block: long enough to be cheap, short enough that sender and receiver work on the
 * block at the same time. */
static size_t piece_size(const madi_caps_t *caps, uint64_t len)
{
    size_t max = caps->chunk_max - sizeof(madi_wire_hdr_t), n = (size_t)(len / 4) & ~(size_t)4095;
    if (!caps->chunk_min || n > max)
        return max;
    return n < caps->chunk_min ? caps->chunk_min : n;
}

static size_t next_size(const madi_link_t *link, const madi_rdv_send_t *r)
{
    size_t max = r->prepared ? r->prepared_len : piece_size(&link->adapter->caps, r->len);
    return r->end - r->sent < max ? (size_t)(r->end - r->sent) : max;
}

/* Copy the first piece of a block while its grant is on its way.  Used only if the sending thread waits, since such a
 * thread has nothing else to do.  Used for one block of a gate at a time, because a prepared piece takes room from all
 * other packets. */
void madi_rdv_prepare(madi_gate_t *gate, uint32_t handle)
{
    madi_link_t *link = gate->link;
    madi_rdv_send_t *r = madi_handle_get(gate->send->blocks, handle);
    size_t len;
    if (gate->send->prepared || !link->driver->fast.prepare || !r->base || r->sent == r->len)
        return;
    len = next_size(link, r);
    r->prepared_len = len < MADI_PREPARED_MAX ? len : MADI_PREPARED_MAX;
    r->prepared = link->driver->fast.prepare(link, r->base + r->sent, r->prepared_len);
    gate->send->prepared = r->prepared != NULL;
}

/* Collect up to max bytes that are to be sent next.  Return their number; *n: the number of entries of vec. */
static size_t next_bytes(const madi_rdv_send_t *r, size_t max, struct iovec *vec, int room, int *n)
{
    uint64_t skip = r->sent;
    size_t sum = 0;
    *n = 0;
    if (r->base) {
        vec[(*n)++] = (struct iovec){(void *)(r->base + r->sent), max};
        return max;
    }
    for (int i = 0; i < r->n_segs && *n < room && sum < max; i++) {
        size_t len = r->segs[i].iov_len;
        if (skip >= len) {
            skip -= len;
            continue;
        }
        len -= (size_t)skip;
        if (len > max - sum)
            len = max - sum;
        vec[(*n)++] = (struct iovec){(char *)r->segs[i].iov_base + skip, len};
        sum += len;
        skip = 0;
    }
    return sum;
}

/* Send the prepared piece, or the next bytes from the program's memory. */
static madi_sent_t piece_send(madi_gate_t *gate, madi_rdv_send_t *r, size_t *len)
{
    madi_link_t *link = gate->link;
    const madi_caps_t *caps = &link->adapter->caps;
    struct iovec vec[MADI_GATHER] = {{&r->hdr, sizeof r->hdr}};
    int n_vec, room = (caps->gather_max < MADI_GATHER ? caps->gather_max : MADI_GATHER) - 1;

    *len = next_bytes(r, next_size(link, r), vec + 1, room, &n_vec);
    r->hdr.type = MADI_WIRE_DATA;
    r->hdr.length = (uint32_t)*len;
    r->hdr.seq = (uint32_t)r->sent;
    r->hdr.channel = (uint16_t)(r->sent >> 32);
    r->hdr.aux = r->receiver;
    r->op.last = r->sent + *len == r->end;
    r->op.of = r->len;
    r->op.shareable = r->readable && (r->tx->wait || r->tx->sender_polls);
    if (!r->prepared)
        return link->driver->send(link, vec, n_vec + 1, sizeof r->hdr + *len, &r->op);
    if (!link->driver->fast.send_prepared(link, &r->hdr, r->prepared))
        return MADI_AGAIN;
    prepared_clear(gate, r);
    return MADI_SENT;
}

/* Send pieces of the first granted block.  Return false if the link is full, or if other messages are to be sent first. */
static bool rdv_send(madi_gate_t *gate, madi_rdv_send_t *r)
{
    bool many = gate->link->adapter->caps.many;
    if (!share_put_stride(gate, r))
        return false;
    while (r->sent < r->end) {
        size_t n;
        madi_sent_t sent;
        r->busy++;
        r->piece_began = madi_trace_now();
        sent = piece_send(gate, r, &n);
        if (sent != MADI_TAKEN)
            r->busy--;
        if (sent == MADI_AGAIN)
            return false;
        r->sent += n;
        gate->send->count.granted_bytes += n;
        r->tx->conn->block_bytes_out += n;
        if (sent == MADI_TAKEN && many)
            continue;
        if (sent == MADI_TAKEN)
            return r->sent == r->end;
        if (MADI_UNLIKELY(madi_tracing))
            piece_trace(gate, r);
    }
    return true;
}

bool madi_rdv_pump(madi_gate_t *gate)
{
    while (gate->send->granted) {
        madi_rdv_send_t *r = gate->send->granted;
        if ((r->busy && !gate->link->adapter->caps.many) || !rdv_send(gate, r))
            return false;
        gate->send->granted = r->next;
        if (!gate->send->granted)
            gate->send->granted_tail = &gate->send->granted;
        if (!r->busy && rdv_is_complete(r))
            rdv_finish(gate, r);
    }
    return true;
}

bool madi_rdv_goes_on(const madi_gate_t *gate)
{
    return gate->send->granted && !gate->send->granted->busy;
}

static void rdv_queue(madi_gate_t *gate, madi_rdv_send_t *r)
{
    r->next = NULL;
    *gate->send->granted_tail = r;
    gate->send->granted_tail = &r->next;
}

static void count_fetched(madi_gate_t *gate, const madi_rdv_send_t *r)
{
    gate->send->count.fetched_blocks++;
    gate->send->count.fetched_bytes += r->len - r->sent;
    r->tx->conn->block_bytes_out += r->len - r->sent;
}

/* Handle the second grant of a shared block.  Either the receiver has read its part, or it cannot read, and this side
 * has to send that part. */
static void rest_granted(madi_gate_t *gate, madi_rdv_send_t *r, const madi_wire_grant_t *grant)
{
    bool queued = r->sent < r->end;
    if (r->fetched || r->end == r->len || grant->len != r->len)
        return;
    if (!grant->drop) {
        r->end = r->len;
        r->put_at = 0;
        if (!queued)
            rdv_queue(gate, r);
        return;
    }
    r->fetched = true;
    gate->send->count.fetched_bytes += r->len - r->end;
    r->tx->conn->block_bytes_out += r->len - r->end;
    if (!r->busy && rdv_is_complete(r))
        rdv_finish(gate, r);
}

void madi_rdv_shared(madi_gate_t *gate, const madi_wire_share_t *share)
{
    madi_rdv_send_t *r = madi_handle_get(gate->send->blocks, share->sender);
    if (!r || r->granted)
        return;
    if (share->len != r->len || share->end <= r->sent || share->end >= r->len || !r->base || r->held) {
        madi_message_fail(&r->tx->base, share->len != r->len ? MAD_ERR_MISMATCH : MAD_ERR_PROTOCOL);
        rdv_finish(gate, r);
        return;
    }
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_GRANTED, 0, r->tx->conn, r->handle, r->len);
    if (r->prepared) { /* the piece was prepared in vain: the peer shares the block */
        gate->link->driver->fast.forget(gate->link, r->prepared);
        prepared_clear(gate, r);
    }
    gate->send->shares = true;
    gate->send->count.shared_blocks++;
    r->granted = r->shared = true;
    r->receiver = share->receiver;
    r->end = share->end;
    r->put_at = gate->link->direct ? share->at : 0;
    r->op.done = rdv_piece_done;
    rdv_queue(gate, r);
}

void madi_rdv_granted(madi_gate_t *gate, const madi_wire_grant_t *grant)
{
    madi_rdv_send_t *r = madi_handle_get(gate->send->blocks, grant->sender);
    if (r && r->shared) {
        rest_granted(gate, r, grant);
        return;
    }
    if (!r || r->granted)
        return; /* this side has already failed the block */
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_GRANTED, 0, r->tx->conn, r->handle, r->len);
    if (!grant->drop && grant->len != r->len) {
        madi_message_fail(&r->tx->base, MAD_ERR_MISMATCH);
        rdv_finish(gate, r);
        return;
    }
    if (grant->drop || r->sent == r->len) {
        if (grant->drop && r->readable && r->sent < r->len && grant->len == r->len) {
            /* remember that the peer shares blocks, so that no further piece is prepared in vain */
            gate->send->shares = true;
            count_fetched(gate, r);
        }
        rdv_finish(gate, r);
        return;
    }
    gate->send->shares = false;
    r->granted = true;
    r->receiver = grant->receiver;
    r->op.done = rdv_piece_done;
    if (!r->held)
        rdv_queue(gate, r);
}

void madi_tx_release_held(madi_tx_t *tx)
{
    madi_gate_t *gate = tx->conn->gate;
    bool any = false;
    for (uint32_t i = 0; tx->sending.n_held && i < tx->n_pieces; i++) {
        madi_rdv_send_t *r = tx->pieces[i].handle ? madi_handle_get(gate->send->blocks, tx->pieces[i].handle) : NULL;
        if (!r || !r->held)
            continue;
        r->held = false;
        tx->sending.n_held--;
        if (r->granted) {
            rdv_queue(gate, r);
            any = true;
        }
    }
    tx->sending.n_held = 0;
    if (any)
        madi_gate_work(gate);
}

static void rdv_fail(void *object, void *arg)
{
    madi_rdv_send_t *r = object;
    const mad_status_t *status = arg;
    if (r->busy)
        return; /* the driver finishes the block */
    madi_message_fail(&r->tx->base, *status);
    rdv_finish(r->tx->conn->gate, r);
}

void madi_rdv_fail_all(madi_gate_t *gate, mad_status_t status)
{
    gate->send->granted = NULL;
    gate->send->granted_tail = &gate->send->granted;
    madi_handles_each(gate->send->blocks, rdv_fail, &status);
}
