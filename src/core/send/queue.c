/* SPDX-License-Identifier: BSD-3-Clause */
/* Making packets from messages: the queue of each connection, and its credits. */
#include "base/clock.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/conn/tx_pool.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/link/notify.h"
#include "core/link/trace.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/tx.h"
#include "core/send/policy.h"
#include "core/send/rdv_send.h"
#include "core/send/send.h"
#include "core/send/send_gate.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

static uint64_t packed_bytes(const madi_tx_t *tx)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < tx->n_pieces; i++)
        n += tx->pieces[i].run ? tx->pieces[i].len : MADI_WIRE_DESC_LEN(tx->pieces[i].desc);
    return n;
}

/* Complete a message that has left or has failed: notify its request, or the thread that waits.  Under tx_lock. */
static void tx_complete(madi_tx_t *tx)
{
    mad_session_t *session = tx->base.session;
    mad_request_t *request = tx->request;
    madi_waitable_t *wait = tx->wait;
    mad_status_t status = madi_message_status(&tx->base);

    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_SEND, tx->began, tx->conn, tx->seq, packed_bytes(tx));
    if (request) {
        madi_tx_free(tx);
        madi_request_complete(request, status);
    } else if (wait) {
        atomic_store_explicit(&wait->done, 1, memory_order_release); /* pairs with madi_done */
        /* safe, since the woken thread takes tx_lock before it frees tx */
        marceli_waiter_wake(wait->waiter);
        madi_watchers_wake(session);
    }
}

void madi_tx_check_complete(madi_tx_t *tx)
{
    if (tx->ended && tx->all_sent && !tx->rdv_pending && !tx->queued)
        tx_complete(tx);
}

static mad_status_t channel_announce(madi_conn_t *conn)
{
    const char *name = conn->channel->name;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CHANNEL, .channel = conn->number, .length = (uint32_t)strlen(name) + 1};
    struct iovec vec[2] = {{&hdr, sizeof hdr}, {(void *)name, hdr.length}};
    /* wait if the channel is open again and the peer still holds messages of its last opening */
    conn->starved = conn->close_sent;
    if (madi_ctrl_waits(conn->gate) || conn->close_sent)
        return MAD_ERR_AGAIN;
    if (conn->gate->link->driver->send(conn->gate->link, vec, 2, sizeof hdr + hdr.length, NULL) != MADI_SENT)
        return MAD_ERR_AGAIN;
    conn->announced = true;
    return MAD_OK;
}

/* ---- One packet ----------------------------------------------------------------------------------------------- */

typedef struct packet {
    struct iovec vec[MADI_GATHER + 2]; /* two entries more than a packet has, for the rest of a continued block */
    int n, max;
    size_t total, room, own_len;
    uint32_t next;      /* index of the first piece behind this packet */
    uint32_t announced; /* handle of the first block that is announced; 0 if none */
    uint64_t cont_left; /* bytes of piece `next` that are left, if its beginning is in the packet; else 0 */
    uint64_t timed;     /* bytes of a block in this packet whose sending is timed; 0 if none */
    _Alignas(16) unsigned char own[MADI_PACKET_OWN];
} packet_t;

static madi_wire_hdr_t *packet_hdr(packet_t *p)
{
    return (madi_wire_hdr_t *)p->own;
}

static bool packet_fits(const packet_t *p, int n, size_t own, size_t len)
{
    return p->n + n <= p->max && p->own_len + own <= MADI_PACKET_OWN && own + len <= p->room;
}

static void packet_add(packet_t *p, const void *base, size_t len)
{
    p->vec[p->n].iov_base = (void *)base;
    p->vec[p->n++].iov_len = len;
    p->total += len;
    p->room -= len;
}

/* Add bytes to the packet by copying.  The bytes extend the last piece if that piece was copied, too. */
static void packet_copy(packet_t *p, const void *from, size_t len)
{
    unsigned char *at = p->own + p->own_len;
    struct iovec *last = &p->vec[p->n - 1];
    memcpy(at, from, len);
    if (p->n && (unsigned char *)last->iov_base + last->iov_len == at) {
        last->iov_len += len;
        p->total += len;
        p->room -= len;
    } else {
        packet_add(p, at, len);
    }
    p->own_len += len;
}

/* Add a run of staged blocks.  Short runs are copied, so that many of them do not become too many pieces. */
static bool packet_add_run(packet_t *p, const void *base, size_t len)
{
    bool copy = len <= MADI_COPY_MAX;
    if (!packet_fits(p, 1, copy ? len : 0, copy ? 0 : len))
        return false;
    if (copy)
        packet_copy(p, base, len);
    else
        packet_add(p, base, len);
    return true;
}

/* Add a block with its bytes. */
static bool packet_add_inline(packet_t *p, const madi_piece_t *piece)
{
    size_t len = MADI_WIRE_DESC_LEN(piece->desc);
    bool copy = piece->base && len <= MADI_COPY_MAX;
    if (!packet_fits(p, 1 + (piece->segs ? piece->n_segs : !copy), MADI_WIRE_DESC_SIZE + (copy ? len : 0), copy ? 0 : len))
        return false;
    packet_copy(p, &piece->desc, MADI_WIRE_DESC_SIZE);
    if (copy)
        packet_copy(p, piece->base, len);
    else if (piece->base)
        packet_add(p, piece->base, len);
    for (int i = 0; piece->segs && i < piece->n_segs; i++)
        if (piece->segs[i].iov_len)
            packet_add(p, piece->segs[i].iov_base, piece->segs[i].iov_len);
    return true;
}

/* Return how many bytes of an announced block can go ahead of its grant: at most `most`.  Those bytes use no credit that
 * later announcements need.  A receiver may unpack no block, and so return no credit, before it has seen the blocks that
 * follow. */
static size_t packet_eager(const packet_t *p, const madi_conn_t *conn, size_t most)
{
    uint64_t credit = conn->fast_credits + conn->credit_left, used = madi_wire_cost(p->total + MADI_WIRE_RDV_AT_SIZE);
    size_t room = p->room - MADI_WIRE_RDV_AT_SIZE < most ? p->room - MADI_WIRE_RDV_AT_SIZE : most;
    uint64_t left = credit > used + MADI_EAGER_LEFT ? (credit - used - MADI_EAGER_LEFT) & ~(uint64_t)(MADI_LINE - 1) : 0;
    return room < left ? room : left;
}

/* Add the announcement of a block, and maybe its first bytes.  The rest is sent when the receiver has named the
 * destination. */
static bool packet_add_announced(packet_t *p, madi_tx_t *tx, madi_piece_t *piece, size_t eager, bool held)
{
    uint64_t len = MADI_WIRE_DESC_LEN(piece->desc), desc = piece->desc | (uint64_t)MADI_WIRE_RDV << 48;
    uint64_t at = (uintptr_t)piece->base;
    bool waits =
        (tx->wait || tx->sender_polls) && tx->conn->gate->link->direct; /* true if both sides may move a part of the block */
    bool direct = (tx->may_be_read || waits) && at && !held;            /* true if the waiting receiver may read the block */
    madi_wire_rdv_t rdv = {0, 0};
    if (!packet_fits(p, 2, MADI_WIRE_RDV_AT_SIZE, 0))
        return false;
    if (direct)
        desc ^= (uint64_t)(MADI_WIRE_RDV ^ MADI_WIRE_RDV_AT) << 48 | (waits ? MADI_WIRE_DESC_WAITS : 0) |
                (waits && piece->way == MADI_WAY_ANNOUNCED ? MADI_WIRE_DESC_SHARED : 0);
    if (!held && piece->base) {
        size_t room = packet_eager(p, tx->conn, eager);
        rdv.eager = (uint32_t)(room < len ? room : len);
    }
    rdv.sender = madi_rdv_announce(tx, piece, rdv.eager, held, direct);
    if (!rdv.sender)
        return false; /* out of memory: the block stays pending until memory is available */
    if (!p->announced && !held)
        p->announced = rdv.sender;
    packet_copy(p, &desc, MADI_WIRE_DESC_SIZE);
    packet_copy(p, &rdv, sizeof rdv);
    if (direct)
        packet_copy(p, &at, sizeof at);
    if (rdv.eager)
        packet_add(p, piece->base, rdv.eager);
    return true;
}

/* Return how many bytes of a block go ahead of its grant at most.  Return 0 for a very long block with a request: the
 * program computes meanwhile, and a copy would delay it. */
static size_t eager_max(const madi_tx_t *tx, const madi_caps_t *caps, size_t len)
{
    return tx->request && len / MADI_EAGER_PART >= caps->rdv_eager ? 0 : caps->rdv_eager;
}

/* Lengthen the packet so that a long block goes with it.  Return false if the driver has no room, or if the credit does not
 * suffice for the whole block now.  The block is then announced, and stays at its sender. */
static MADI_COLD bool packet_lengthen(packet_t *p, const madi_conn_t *conn, const madi_piece_t *piece, size_t len)
{
    madi_link_t *link = conn->gate->link;
    uint64_t credit = (conn->fast_credits + conn->credit_left) & ~(uint64_t)(MADI_LINE - 1), most;
    if (!link->driver->fast.packet_room || p->total + MADI_WIRE_DESC_SIZE + len > credit)
        return false;
    most = link->driver->fast.packet_room(link, p->total + MADI_WIRE_DESC_SIZE + len);
    most = most < credit ? most : credit;
    if (most < p->total + p->room || !packet_fits(p, 1 + (piece->segs ? piece->n_segs : 1), MADI_WIRE_DESC_SIZE, 0))
        return false;
    if (MADI_WIRE_DESC_SIZE + len > most - p->total)
        return false;
    p->room = most - p->total;
    return true;
}

/* Add the beginning of a block that continues in a packet of its own, as the last block of this packet.  Return false if the
 * block does not fit, or if the credit does not suffice for the whole block now. */
static bool packet_add_begun(packet_t *p, const madi_tx_t *tx, const madi_piece_t *piece, size_t len)
{
    const madi_conn_t *conn = tx->conn;
    size_t before = p->total + MADI_WIRE_DESC_SIZE, n = before < MADI_BEGUN_MAX ? MADI_BEGUN_MAX - before : 0;
    if (!piece->base || !packet_fits(p, 2, MADI_WIRE_DESC_SIZE, n) ||
        madi_wire_cost(before + n) + madi_cont_cost(len - n) + MADI_EAGER_LEFT > conn->fast_credits + conn->credit_left)
        return false;
    packet_copy(p, &piece->desc, MADI_WIRE_DESC_SIZE);
    if (n)
        packet_add(p, piece->base, n);
    p->cont_left = len - n;
    return true;
}

/* True if the choice between packet and announcement is learned from durations. */
static bool way_is_learned(const madi_path_block_t *b, const madi_caps_t *caps)
{
    return caps->learned && b->direct && b->answers && b->contiguous && !b->held && b->sender == MADI_SENDER_WAITS &&
           b->len >= MADI_SHARE_MIN && b->len < caps->answer_min;
}

/* Choose once how to send a block, by the measured times.  Return true if the block goes into a packet. */
static MADI_COLD bool way_is_packet(struct madi_send_gate *send, madi_piece_t *piece, uint64_t len, const madi_caps_t *caps)
{
    if (!send->ways) {
        send->ways = calloc(1, sizeof *send->ways);
        if (!send->ways)
            return true;
        send->ways->lead = MADI_WAY_LEAD;
        send->ways->shared_first = caps->direct_min < MADI_SHARE_MIN;
    }
    if (!piece->way)
        piece->way = madi_share_next(send->ways, len, &piece->timed) ? MADI_WAY_ANNOUNCED : MADI_WAY_PACKET;
    return piece->way == MADI_WAY_PACKET;
}

/* True if the block goes into its message's packet.  A thread that has ended the message without a request waits until
 * everything has left. */
static bool block_goes_inside(packet_t *p, madi_tx_t *tx, madi_piece_t *piece, const madi_caps_t *caps, bool held)
{
    size_t len = MADI_WIRE_DESC_LEN(piece->desc);
    madi_link_t *link = tx->conn->gate->link;
    madi_path_limits_t limits = {caps->rdv_min, caps->direct_min, caps->answer_min};
    madi_path_block_t block = {.len = len,
                               .room = MADI_WIRE_LEN_MAX,
                               .contiguous = piece->base,
                               .held = held,
                               .direct = link->direct,
                               .answers = link->driver->fast.answers && link->driver->fast.answers(link),
                               .sender = tx->ended && !tx->request ? MADI_SENDER_WAITS : MADI_SENDER_COMPUTES};
    if (piece->handle)
        return false;
    if (way_is_learned(&block, caps))
        limits.direct_min = way_is_packet(tx->conn->gate->send, piece, len, caps) ? caps->answer_min : MADI_SHARE_MIN;
    if (madi_path_choose(&block, &limits) > MADI_PATH_PACKET)
        return false;
    if (len + MADI_WIRE_DESC_SIZE + sizeof(madi_wire_hdr_t) > caps->packet_max && !packet_lengthen(p, tx->conn, piece, len))
        return false;
    p->timed = piece->timed ? len : p->timed;
    return true;
}

/* Add one block to the packet; false if the block does not fit any more, or has to wait. */
static bool packet_add_block(packet_t *p, madi_tx_t *tx, madi_piece_t *piece, const madi_caps_t *caps, bool whole)
{
    size_t len = MADI_WIRE_DESC_LEN(piece->desc);
    bool held = piece->later && !tx->ended;
    if (held && !MADI_WIRE_DESC_RMODE(piece->desc))
        return false; /* a block that is LATER and EXPRESS holds back the blocks that follow, too */
    if (!held && !piece->handle && piece->base && madi_cont_applies(caps, len)) {
        if (whole || packet_add_begun(p, tx, piece, len))
            return !whole;
    }
    if (block_goes_inside(p, tx, piece, caps, held))
        return packet_add_inline(p, piece);
    if (!whole && madi_tx_put(tx, piece)) {
        uint64_t desc = piece->desc | (uint64_t)MADI_WIRE_PLACED << 48;
        if (tx->sending.put_bytes < len || !packet_fits(p, 1, MADI_WIRE_DESC_SIZE, 0))
            return false;
        packet_copy(p, &desc, MADI_WIRE_DESC_SIZE);
        return true;
    }
    return !whole && packet_add_announced(p, tx, piece, eager_max(tx, caps, len), held);
}

/* Collect the next packet of a message from its pieces.  whole: stop at a block that must be announced. */
static void packet_build(packet_t *p, madi_tx_t *tx, const madi_caps_t *caps, bool whole)
{
    uint32_t i = tx->next_piece;
    madi_wire_hdr_t *hdr = packet_hdr(p);
    p->max = caps->gather_max < MADI_GATHER ? caps->gather_max : MADI_GATHER;
    p->n = 0;
    p->announced = 0;
    p->cont_left = 0;
    p->timed = 0;
    p->total = 0;
    p->room = caps->packet_max;
    p->own_len = sizeof *hdr;
    packet_add(p, p->own, sizeof *hdr);
    for (; i < tx->n_pieces; i++) {
        madi_piece_t *piece = &tx->pieces[i];
        if (!piece->run) {
            if (!packet_add_block(p, tx, piece, caps, whole) || p->cont_left)
                break;
        } else if (!packet_add_run(p, tx->stage + piece->off, piece->len)) {
            break;
        }
    }
    p->next = i;
    hdr->type = MADI_WIRE_MSG;
    hdr->flags = (uint8_t)((tx->started ? 0 : MADI_WIRE_FIRST) | (tx->ended && i == tx->n_pieces ? MADI_WIRE_LAST : 0) |
                           tx->conn->flags);
    hdr->channel = tx->conn->number;
    hdr->length = (uint32_t)(p->total - sizeof *hdr);
    hdr->seq = tx->seq;
    hdr->aux = (uint32_t)madi_wire_cost(p->total);
}

/* Send a packet that ends with the beginning of a block, and in the same call the packet with the rest. */
static bool packet_send_begun(packet_t *p, madi_tx_t *tx)
{
    uint32_t at = tx->next_piece;
    tx->next_piece = p->next;
    tx->sending.cont_left = p->cont_left;
    if (madi_cont_send(tx, p->vec, p->n, p->total)) {
        *(tx->conn->fast_credits ? &tx->conn->fast_credits : &tx->conn->credit_left) -= packet_hdr(p)->aux;
        tx->started = true;
        return true;
    }
    tx->next_piece = at;
    tx->sending.cont_left = 0;
    return false;
}

/* Record how long a packet with a timed block takes: until the receiver has copied it out, since its copies may be the slower
 * ones.  A receiver that does something else is not waited for. */
static MADI_COLD void packet_record(madi_gate_t *gate, uint64_t len, int64_t began)
{
    madi_link_t *link = gate->link;
    int64_t took = madi_now() - began, most = took * (1 + MADI_WAY_PATIENCE);
    while (took < most && !link->driver->fast.returned(link))
        took = madi_now() - began;
    madi_share_record(gate->send->ways, len, false, took);
}

static bool packet_send(packet_t *p, madi_conn_t *conn)
{
    madi_link_t *link = conn->gate->link;
    int64_t began = p->timed ? madi_now() : 0;
    if (link->driver->send(link, p->vec, p->n, p->total, NULL) != MADI_SENT) {
        MADI_GATE_COUNT(conn->gate, times_full, 1);
        return false;
    }
    if (MADI_UNLIKELY(began) && conn->gate->send->ways)
        packet_record(conn->gate, p->timed, began);
    *(conn->fast_credits ? &conn->fast_credits : &conn->credit_left) -= packet_hdr(p)->aux;
    return true;
}

bool madi_tx_send_whole(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    packet_t p;

    if (!conn->fast_credits)
        return false;
    tx->ended = true;
    tx->seq = (uint32_t)conn->tx_seq;
    packet_build(&p, tx, &conn->gate->link->adapter->caps, true);
    if (p.next != tx->n_pieces || packet_hdr(&p)->aux > conn->fast_credits || !packet_send(&p, conn))
        return false;
    conn->tx_seq++;
    return true;
}

bool madi_tx_send_begun(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    const madi_caps_t *caps;
    packet_t p;

    if (!conn->fast_credits || !tx->n_pieces || !(caps = &conn->link->adapter->caps)->ahead ||
        !madi_cont_applies(caps, MADI_WIRE_DESC_LEN(tx->pieces[tx->n_pieces - 1].desc)))
        return false;
    tx->ended = true;
    tx->seq = (uint32_t)conn->tx_seq;
    packet_build(&p, tx, caps, false);
    if (p.announced || !p.cont_left || p.next + 1 != tx->n_pieces || !packet_send_begun(&p, tx))
        return false;
    conn->tx_seq++;
    return true;
}

/* Send the packets of a message that are ready.  MAD_ERR_AGAIN if the link is full or the credits are used up. */
static mad_status_t tx_pump(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    packet_t p;

    while (!tx->all_sent) {
        bool last;
        if (tx->sending.cont_left) {
            if (!madi_cont_send(tx, p.vec, 0, 0))
                return MAD_ERR_AGAIN;
            continue;
        }
        packet_build(&p, tx, &conn->gate->link->adapter->caps, false);
        last = packet_hdr(&p)->flags & MADI_WIRE_LAST;
        if (p.next == tx->next_piece && !last && tx->sending.put_at)
            conn->starved = false;
        if (p.next == tx->next_piece && !last && !p.cont_left)
            return tx->ended ? MAD_ERR_AGAIN : MAD_OK; /* no memory for an announcement, or a LATER block waits */
        conn->starved = packet_hdr(&p)->aux > conn->credit_left;
        if (p.cont_left && conn->gate->link->adapter->caps.ahead) {
            if (!packet_send_begun(&p, tx))
                return MAD_ERR_AGAIN;
            continue;
        }
        if (conn->starved || !packet_send(&p, conn))
            return MAD_ERR_AGAIN;
        if (p.announced && tx->wait && !conn->gate->send->shares)
            madi_rdv_prepare(conn->gate, p.announced);
        tx->started = true;
        tx->next_piece = p.next;
        tx->sending.cont_left = p.cont_left;
        tx->all_sent = last;
    }
    return MAD_OK;
}

/* ---- The queue of a connection -------------------------------------------------------------------------------- */

static bool send_short_by_send(madi_link_t *link, const void *packet, size_t total)
{
    struct iovec vec = {(void *)packet, total};
    return link->driver->send(link, &vec, 1, total, NULL) == MADI_SENT;
}

void madi_conn_quick(madi_conn_t *conn)
{
    bool open = atomic_load_explicit(&conn->gate->state, memory_order_relaxed) == MADI_GATE_UP;
    madi_conn_slow(conn);
    if (!open || !conn->announced || conn->queue || conn->closing || madi_tracing)
        return;
    conn->fast_credits = conn->credit_left;
    conn->credit_left = 0;
    conn->link = conn->gate->link;
    conn->send_short = conn->link->driver->fast.send_short ? conn->link->driver->fast.send_short : send_short_by_send;
}

bool madi_conn_pump(madi_conn_t *conn)
{
    if (atomic_load_explicit(&conn->gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return false;
    if (!conn->announced && channel_announce(conn) != MAD_OK)
        return false;
    while (conn->queue) {
        madi_tx_t *tx = conn->queue;
        if (tx_pump(tx) != MAD_OK)
            return false;
        if (!tx->all_sent)
            return true; /* the message is still being packed, so no more of it can be sent */
        conn->queue = tx->next;
        if (!conn->queue)
            conn->queue_tail = &conn->queue;
        tx->queued = false;
        madi_tx_check_complete(tx);
    }
    madi_conn_quick(conn);
    madi_conn_close(conn);
    return true;
}

/* True unless the connection waits for credits.  A connection that waits is not tried again before credits arrive. */
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
    if (gate->send->pending_last)
        gate->send->pending_last->next_pending = conn;
    else
        gate->send->pending = conn;
    gate->send->pending_last = conn;
    madi_gate_work(gate);
}

bool madi_pending_pump(madi_gate_t *gate)
{
    madi_conn_t *conn = gate->send->pending, *next;
    bool again = false;
    gate->send->pending = NULL;
    gate->send->pending_last = NULL;
    for (; conn; conn = next) {
        next = conn->next_pending;
        conn->in_pending = false;
        if (!madi_conn_pump(conn) && madi_conn_wants_link(conn)) {
            madi_conn_kick(conn);
            again = true;
        }
    }
    return again;
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
            madi_tx_check_complete(tx);
        }
    }
    conn->queue = conn->deferred = NULL;
    madi_conn_slow(conn);
    conn->queue_tail = &conn->queue;
    conn->deferred_tail = &conn->deferred;
}
