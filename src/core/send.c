/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets out of messages: the queue of each connection, credits, rendezvous. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* What a packet costs the receiver who has not asked for it. */
static inline uint32_t packet_cost(size_t total)
{
    return (uint32_t)((total + MADI_LINE - 1) & ~(size_t)(MADI_LINE - 1));
}

void madi_tx_free(madi_tx_t *tx)
{
    for (uint32_t i = 0; i < tx->n_pieces; i++)
        free(tx->pieces[i].own);
    free(tx->pieces);
    if (tx->stage != tx->small)
        free(tx->stage);
    free(tx);
}

/* The message has left, or has failed: everybody who waits for it learns it.  Under tx_lock. */
static void tx_complete(madi_tx_t *tx)
{
    mad_session_t *session = tx->base.session;
    mad_request_t *request = tx->request;
    madi_waitable_t *waiter = tx->waiter;
    mad_status_t status = madi_message_status(&tx->base);

    if (request) {
        madi_tx_free(tx);
        madi_request_complete(request, status);
    } else if (waiter) {
        /* the waiting thread reads the status and frees */
        atomic_store_explicit(&waiter->done, 1, memory_order_release);
        madi_wake(session);
    }
}

static void tx_check_complete(madi_tx_t *tx)
{
    if (tx->ended && tx->all_sent && !tx->rdv_pending && !tx->queued)
        tx_complete(tx);
}

static mad_status_t announce(madi_conn_t *conn)
{
    const char *name = conn->channel->name;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CHANNEL, .channel = conn->number, .length = (uint32_t)strlen(name) + 1};
    struct iovec vec[2] = {{&hdr, sizeof hdr}, {(void *)name, hdr.length}};
    if (conn->gate->ctrl)
        return MAD_ERR_AGAIN;
    if (conn->gate->link->driver->send(conn->gate->link, vec, 2, sizeof hdr + hdr.length, NULL) != MADI_SENT)
        return MAD_ERR_AGAIN;
    conn->announced = true;
    return MAD_OK;
}

/* ---- One packet ----------------------------------------------------------------------------------------------- */

typedef struct packet {
    madi_wire_hdr_t hdr;
    struct iovec vec[MADI_GATHER];
    unsigned char descs[MADI_GATHER][16];
    int n;
    size_t total;
    uint32_t next; /* the piece after the packet's last */
} packet_t;

static void packet_add(packet_t *p, const void *base, size_t len)
{
    p->vec[p->n].iov_base = (void *)base;
    p->vec[p->n++].iov_len = len;
    p->total += len;
}

/* Make the handle of a block that is to be granted. */
static mad_status_t rdv_prepare(madi_tx_t *tx, madi_piece_t *piece, uint32_t eager)
{
    madi_gate_t *gate = tx->conn->gate;
    madi_rdv_send_t *r = calloc(1, sizeof *r);
    if (!r)
        return MAD_ERR_NOMEM;
    r->handle = madi_handle_add(gate->sends, r);
    if (!r->handle) {
        free(r);
        return MAD_ERR_NOMEM;
    }
    r->tx = tx;
    r->base = piece->base;
    r->len = MADI_WIRE_DESC_LEN(piece->desc);
    r->sent = eager;
    piece->handle = r->handle;
    tx->rdv_pending++;
    return MAD_OK;
}

/* Add one block to the packet; false: it does not fit any more. */
static bool packet_add_block(packet_t *p, madi_tx_t *tx, madi_piece_t *piece, const madi_caps_t *caps)
{
    uint64_t len = MADI_WIRE_DESC_LEN(piece->desc);
    size_t room = caps->packet_max - p->total, eager;
    unsigned char *desc = p->descs[p->n];
    uint64_t d = piece->desc;

    if (p->n + 2 > MADI_GATHER)
        return false;
    if (len < caps->rdv_min && len + 8 + sizeof p->hdr <= caps->packet_max) {
        if (len + 8 > room)
            return false;
        memcpy(desc, &d, 8);
        packet_add(p, desc, 8);
        if (len)
            packet_add(p, piece->base, len);
        return true;
    }
    if (room < 16)
        return false;
    eager = room - 16 < caps->rdv_eager ? room - 16 : caps->rdv_eager;
    if (eager > len)
        eager = len;
    if (!piece->handle && rdv_prepare(tx, piece, (uint32_t)eager)) {
        madi_message_fail(&tx->base, MAD_ERR_NOMEM);
        return false;
    } else {
        madi_rdv_send_t *r = madi_handle_get(tx->conn->gate->sends, piece->handle);
        madi_wire_rdv_t rdv = {piece->handle, (uint32_t)eager};
        r->sent = eager;
        d |= (uint64_t)MADI_WIRE_RDV << 48;
        memcpy(desc, &d, 8);
        memcpy(desc + 8, &rdv, 8);
        packet_add(p, desc, 16);
        if (eager)
            packet_add(p, piece->base, eager);
    }
    return true;
}

/* Collect the next packet of a message from its pieces. */
static void packet_build(packet_t *p, madi_tx_t *tx, const madi_caps_t *caps)
{
    uint32_t i = tx->next_piece;
    p->n = 0;
    p->total = 0;
    packet_add(p, &p->hdr, sizeof p->hdr);
    for (; i < tx->n_pieces; i++) {
        madi_piece_t *piece = &tx->pieces[i];
        if (piece->later && !tx->ended)
            break;
        if (!piece->base && piece->len) {
            if (p->n + 1 > MADI_GATHER || p->total + piece->len > caps->packet_max)
                break;
            packet_add(p, tx->stage + piece->off, piece->len);
        } else if (!packet_add_block(p, tx, piece, caps)) {
            break;
        }
    }
    p->next = i;
    p->hdr.type = MADI_WIRE_MSG;
    p->hdr.flags = (uint8_t)((tx->started ? 0 : MADI_WIRE_FIRST) |
                             (tx->ended && i == tx->n_pieces ? MADI_WIRE_LAST : 0) |
                             (tx->base.session->check_modes ? MADI_WIRE_MODES : 0));
    p->hdr.channel = tx->conn->number;
    p->hdr.length = (uint32_t)(p->total - sizeof p->hdr);
    p->hdr.seq = tx->seq;
    p->hdr.aux = packet_cost(p->total);
}

/* Can all pieces of an ended message go in one packet, without a rendezvous? */
static bool fits_packet(const madi_tx_t *tx, const madi_caps_t *caps)
{
    size_t total = sizeof(madi_wire_hdr_t);
    if (2 * tx->n_pieces + 1 > MADI_GATHER)
        return false;
    for (uint32_t i = 0; i < tx->n_pieces; i++) {
        const madi_piece_t *piece = &tx->pieces[i];
        uint64_t len = MADI_WIRE_DESC_LEN(piece->desc);
        if (piece->base && len >= caps->rdv_min)
            return false;
        total += piece->base ? len + 8 : piece->len;
    }
    return total <= caps->packet_max;
}

bool madi_tx_send_whole(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    packet_t p;

    if (!madi_conn_idle(conn) || !fits_packet(tx, &link->adapter->caps))
        return false;
    tx->ended = true;
    tx->seq = conn->tx_seq;
    packet_build(&p, tx, &link->adapter->caps);
    if (conn->credit_used + p.hdr.aux > atomic_load_explicit(&conn->credit_limit, memory_order_relaxed) ||
        link->driver->send(link, p.vec, p.n, p.total, NULL) != MADI_SENT)
        return false;
    conn->tx_seq++;
    conn->credit_used += p.hdr.aux;
    return true;
}

/* Send what a message has ready.  MAD_ERR_AGAIN: the link or the credits are exhausted. */
static mad_status_t tx_pump(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    const madi_caps_t *caps = &link->adapter->caps;
    packet_t p;

    while (!tx->all_sent) {
        packet_build(&p, tx, caps);
        if (madi_message_status(&tx->base) == MAD_ERR_NOMEM && p.next == tx->next_piece)
            return MAD_ERR_AGAIN;
        if (p.next == tx->next_piece && !(p.hdr.flags & MADI_WIRE_LAST) && (tx->started || !tx->n_pieces))
            return MAD_OK; /* flushed, and waits for more */
        if (p.next == tx->next_piece && !(p.hdr.flags & MADI_WIRE_LAST))
            return MAD_OK; /* begins with LATER */
        conn->starved =
            conn->credit_used + p.hdr.aux > atomic_load_explicit(&conn->credit_limit, memory_order_relaxed);
        if (conn->starved)
            return MAD_ERR_AGAIN;
        if (link->driver->send(link, p.vec, p.n, p.total, NULL) != MADI_SENT)
            return MAD_ERR_AGAIN;
        conn->credit_used += p.hdr.aux;
        tx->started = true;
        tx->next_piece = p.next;
        if (p.hdr.flags & MADI_WIRE_LAST)
            tx->all_sent = true;
    }
    return MAD_OK;
}

/* ---- The queue of a connection -------------------------------------------------------------------------------- */

bool madi_conn_pump(madi_conn_t *conn)
{
    if (atomic_load_explicit(&conn->gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return false;
    if (!conn->announced && announce(conn) != MAD_OK)
        return false;
    while (conn->queue) {
        madi_tx_t *tx = conn->queue;
        if (tx_pump(tx) != MAD_OK)
            return false;
        if (!tx->all_sent)
            return true; /* it is still being packed */
        conn->queue = tx->next;
        if (!conn->queue)
            conn->queue_tail = &conn->queue;
        tx->queued = false;
        tx_check_complete(tx);
    }
    return true;
}

/* Without credits it is the peer's turn: no need to try again before they come. */
bool madi_conn_wants_link(const madi_conn_t *conn)
{
    return !conn->starved;
}

void madi_conn_kick(madi_conn_t *conn)
{
    madi_gate_t *gate = conn->gate;
    if (conn->in_pending)
        return;
    conn->in_pending = true;
    conn->next_pending = NULL;
    if (gate->pending_last)
        gate->pending_last->next_pending = conn;
    else
        gate->pending = conn;
    gate->pending_last = conn;
    madi_gate_work(gate);
}

void madi_conn_fail(madi_conn_t *conn, mad_status_t status)
{
    for (int i = 0; i < 2; i++) {
        madi_tx_t *tx = i ? conn->deferred : conn->queue, *next;
        for (; tx; tx = next) {
            next = tx->next;
            madi_message_fail(&tx->base, status);
            tx->queued = false;
            tx->all_sent = true;
            tx_check_complete(tx);
        }
    }
    conn->queue = conn->deferred = NULL;
    conn->queue_tail = &conn->queue;
    conn->deferred_tail = &conn->deferred;
}

/* ---- Rendezvous ----------------------------------------------------------------------------------------------- */

static void rdv_finish(madi_gate_t *gate, madi_rdv_send_t *r)
{
    madi_tx_t *tx = r->tx;
    madi_handle_del(gate->sends, r->handle);
    free(r);
    tx->rdv_pending--;
    tx_check_complete(tx);
}

/* The driver is done with a piece (it had been taken). */
static void rdv_piece_done(madi_op_t *op, mad_status_t status)
{
    madi_rdv_send_t *r = (madi_rdv_send_t *)op;
    madi_gate_t *gate = r->tx->conn->gate;

    madi_lock(&gate->tx_lock);
    r->busy = false;
    if (status)
        madi_message_fail(&r->tx->base, status);
    if (status || r->sent == r->len)
        rdv_finish(gate, r);
    madi_gate_work(gate);
    madi_unlock(&gate->tx_lock);
}

/* Long enough to be cheap, short enough that sender and receiver work on a block at the same time. */
static size_t piece_size(const madi_caps_t *caps, uint64_t len)
{
    size_t max = caps->chunk_max - sizeof(madi_wire_hdr_t), n = (size_t)(len / 4) & ~(size_t)4095;
    if (!caps->chunk_min || n > max)
        return max;
    return n < caps->chunk_min ? caps->chunk_min : n;
}

/* Send pieces of the first granted block.  False: the link is full. */
static bool rdv_send(madi_gate_t *gate, madi_rdv_send_t *r)
{
    madi_link_t *link = gate->link;
    size_t max = piece_size(&link->adapter->caps, r->len);

    while (r->sent < r->len) {
        size_t n = r->len - r->sent < max ? (size_t)(r->len - r->sent) : max;
        struct iovec vec[2] = {{&r->hdr, sizeof r->hdr}, {(void *)(r->base + r->sent), n}};
        madi_sent_t sent;
        r->hdr.type = MADI_WIRE_DATA;
        r->hdr.length = (uint32_t)n;
        r->hdr.seq = (uint32_t)r->sent;
        r->hdr.channel = (uint16_t)(r->sent >> 32);
        r->hdr.aux = r->receiver;
        r->busy = true;
        sent = link->driver->send(link, vec, 2, sizeof r->hdr + n, &r->op);
        if (sent == MADI_AGAIN) {
            r->busy = false;
            return false;
        }
        r->sent += n;
        if (sent == MADI_TAKEN)
            return r->sent == r->len;
        r->busy = false;
    }
    return true;
}

bool madi_rdv_pump(madi_gate_t *gate)
{
    while (gate->granted) {
        madi_rdv_send_t *r = gate->granted;
        if (r->busy || !rdv_send(gate, r))
            return false;
        gate->granted = r->next;
        if (!gate->granted)
            gate->granted_tail = &gate->granted;
        if (!r->busy)
            rdv_finish(gate, r);
    }
    return true;
}

void madi_rdv_granted(madi_gate_t *gate, const madi_wire_grant_t *grant)
{
    madi_rdv_send_t *r = madi_handle_get(gate->sends, grant->sender);
    if (!r || r->granted)
        return; /* already failed here */
    if (!grant->drop && grant->len != r->len) {
        madi_message_fail(&r->tx->base, MAD_ERR_MISMATCH);
        rdv_finish(gate, r);
        return;
    }
    if (grant->drop || r->sent == r->len) {
        rdv_finish(gate, r);
        return;
    }
    r->granted = true;
    r->receiver = grant->receiver;
    r->op.done = rdv_piece_done;
    r->next = NULL;
    *gate->granted_tail = r;
    gate->granted_tail = &r->next;
}

static void rdv_fail(void *object, void *arg)
{
    madi_rdv_send_t *r = object;
    const mad_status_t *status = arg;
    if (r->busy)
        return; /* the driver finishes it */
    madi_message_fail(&r->tx->base, *status);
    rdv_finish(r->tx->conn->gate, r);
}

void madi_rdv_fail_all(madi_gate_t *gate, mad_status_t status)
{
    gate->granted = NULL;
    gate->granted_tail = &gate->granted;
    madi_handles_each(gate->sends, rdv_fail, &status);
}

typedef struct find_seq {
    madi_conn_t *conn;
    uint32_t seq;
    madi_tx_t *tx;
} find_seq_t;

static void match_seq(void *object, void *arg)
{
    madi_rdv_send_t *r = object;
    find_seq_t *f = arg;
    if (r->tx->conn == f->conn && r->tx->seq == f->seq)
        f->tx = r->tx;
}

/* The receiver says that it expected something else. */
void madi_tx_mismatch(madi_conn_t *conn, const madi_wire_mismatch_t *mm)
{
    find_seq_t f = {conn, mm->seq, NULL};
    for (madi_tx_t *tx = conn->queue; tx && !f.tx; tx = tx->next)
        if (tx->seq == mm->seq && tx->started)
            f.tx = tx;
    if (!f.tx)
        madi_handles_each(conn->gate->sends, match_seq, &f);
    if (f.tx) {
        madi_message_fail(&f.tx->base, MAD_ERR_MISMATCH);
        return;
    }
    madi_event(conn->gate->session, MAD_ERR_MISMATCH, conn->gate->peer,
               "channel %s, peer %d, message %u, block %u: sent %llu bytes %s, the receiver expects %llu bytes %s",
               conn->channel->name, conn->gate->peer, mm->seq, mm->index,
               (unsigned long long)MADI_WIRE_DESC_LEN(mm->sent), MADI_WIRE_DESC_RMODE(mm->sent) ? "CHEAPER" : "EXPRESS",
               (unsigned long long)MADI_WIRE_DESC_LEN(mm->expected),
               MADI_WIRE_DESC_RMODE(mm->expected) ? "CHEAPER" : "EXPRESS");
}
