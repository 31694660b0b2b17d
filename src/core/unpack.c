/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpacking: from mad_begin_unpacking to mad_end_unpacking. */
#include "core/core.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening -------------------------------------------------------------------------------------------------- */

/* It is opened: what it held of the sender's credit goes back. */
void madi_rx_ask(madi_rx_msg_t *m)
{
    m->opened = true;
    m->conn->rx_held -= m->cost;
    madi_credit_return(m->conn, m->cost);
    m->cost = 0;
    if (MADI_UNLIKELY(!m->complete)) {
        m->live = true;
        m->next_live = m->conn->live;
        m->conn->live = m;
    }
}

/* Take the next message of a connection.  Under session->lock. */
static madi_rx_msg_t *take_from(madi_conn_t *conn)
{
    madi_rx_msg_t *m = conn->ready;
    mad_channel_t *channel = conn->channel;
    if (!m)
        return NULL;
    conn->ready = m->next;
    if (!conn->ready) {
        conn->ready_tail = &conn->ready;
        madi_conn_rx_quick(conn);
    }
    atomic_store_explicit(&channel->n_ready, atomic_load_explicit(&channel->n_ready, memory_order_relaxed) - 1,
                          memory_order_relaxed);
    madi_rx_ask(m);
    return m;
}

/* Take the next message of a channel, the connections in turn. */
static madi_rx_msg_t *take_any(mad_channel_t *channel)
{
    madi_conn_t *conn;
    while ((conn = channel->ready)) {
        madi_rx_msg_t *m = take_from(conn);
        channel->ready = conn->next_ready;
        if (!channel->ready)
            channel->ready_tail = &channel->ready;
        if (conn->ready) {
            conn->next_ready = NULL;
            *channel->ready_tail = conn;
            channel->ready_tail = &conn->next_ready;
        } else {
            conn->in_ready = false;
        }
        if (m)
            return m;
    }
    return NULL;
}

typedef struct opening {
    mad_channel_t *channel;
    mad_peer_t source;
    madi_conn_t *conn;
    madi_rx_msg_t *msg;
    mad_status_t status;
} opening_t;

/* Under session->lock. */
static bool open_locked(opening_t *o)
{
    o->msg = o->source == MAD_ANY_SOURCE ? take_any(o->channel) : take_from(o->conn);
    if (MADI_LIKELY(o->msg != NULL))
        return true;
    if (o->conn && atomic_load_explicit(&o->conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN)
        o->status = o->conn->gate->status;
    else if (atomic_load_explicit(&o->channel->closed, memory_order_relaxed))
        o->status = MAD_ERR_CLOSED;
    return o->status != MAD_OK;
}

/* Look without the lock first: a waiting thread must not keep others from it. */
static bool open_test(void *arg)
{
    opening_t *o = arg;
    bool found;
    if (o->msg || o->status) /* the wait may ask again after a yes */
        return true;
    if (!atomic_load_explicit(&o->channel->n_ready, memory_order_relaxed) &&
        !atomic_load_explicit(&o->channel->closed, memory_order_relaxed) &&
        !(o->conn && atomic_load_explicit(&o->conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN))
        return false;
    madi_lock(&o->channel->session->lock);
    found = open_locked(o);
    madi_unlock(&o->channel->session->lock);
    return found;
}

/* A short packet that is something else than the short message that was looked for. */
static MADI_COLD madi_rx_msg_t *take_other(madi_link_t *link, madi_rx_msg_t *m)
{
    madi_rx_short(link, &m->hdr, m->data);
    madi_rx_free(m);
    return NULL;
}

/* The structure that was used last is in use: have another one ready for the next try. */
static MADI_COLD madi_rx_msg_t *take_room(mad_session_t *session)
{
    madi_rx_msg_t *m = madi_rx_more(session);
    if (m)
        madi_rx_free(m);
    return NULL;
}

/* A short message that the adapter has next, if it is for us and nothing comes before it: straight from the driver's
 * memory into a structure.  Under session->lock. */
static inline __attribute__((always_inline)) madi_rx_msg_t *take_short(mad_session_t *session, mad_channel_t *channel,
                                                                       madi_conn_t *conn, madi_adapter_t *adapter)
{
    madi_rx_msg_t *m = session->rx_ring;
    madi_link_t *link;
    uint32_t head;

    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return take_room(session);
    link = adapter->driver->take(adapter, &m->hdr);
    if (MADI_UNLIKELY(!link))
        return NULL;
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    if (!conn) {
        conn = madi_conn_by_remote(link->gate, m->hdr.channel);
        if (MADI_UNLIKELY(!conn || conn->channel != channel ||
                          atomic_load_explicit(&channel->n_ready, memory_order_relaxed)))
            return take_other(link, m);
    } else if (MADI_UNLIKELY(conn->gate != link->gate)) {
        return take_other(link, m);
    }
    memcpy(&head, &m->hdr, sizeof head);
    if (MADI_UNLIKELY(head != conn->rx_head))
        return take_other(link, m);
    madi_rx_start(m, conn, m->data, true);
    m->base.plain = 2;
    madi_credit_return(conn, m->hdr.aux);
    return m;
}

/* The first look: is it where the last one came from? */
static inline __attribute__((always_inline)) madi_rx_msg_t *open_quick(mad_channel_t *channel, madi_conn_t *source)
{
    mad_session_t *session = channel->session;
    madi_rx_msg_t *m;
    madi_lock(&session->lock);
    m = take_short(session, channel, source, session->hot);
    if (MADI_UNLIKELY(--session->ticks < 0))
        madi_progress_after(session, 0);
    madi_unlock(&session->lock);
    return m;
}

/* One round under one acquisition of the lock. */
static inline bool open_now(opening_t *o)
{
    mad_session_t *session = o->channel->session;
    madi_adapter_t *hit = NULL;
    bool found;
    if (!atomic_load_explicit(&o->channel->n_ready, memory_order_relaxed) && !(hit = madi_poll_hit(session)))
        return false;
    madi_lock(&session->lock);
    if (MADI_LIKELY(hit && hit->driver->take)) {
        o->msg = take_short(session, o->channel, o->conn, hit);
        session->hot = hit;
    }
    found = o->msg || open_locked(o);
    if (!found) {
        if (hit)
            madi_progress_after(session, hit->driver->poll(hit, 1));
        else
            madi_progress_locked(session);
        found = open_locked(o);
    }
    madi_unlock(&session->lock);
    if (MADI_UNLIKELY(atomic_load_explicit(&session->has_calls, memory_order_relaxed)))
        madi_calls_run(session);
    return found;
}

static void open_wait(opening_t *o, int64_t timeout_ns)
{
    mad_session_t *session = o->channel->session;
    for (int i = timeout_ns ? session->spins : 0; i >= 0; i--) /* the common wait: without a look at the clock */
        if (open_now(o))
            return;
    if (timeout_ns == 0) {
        madi_lock(&session->lock);
        madi_progress_locked(session);
        if (!open_locked(o))
            o->status = MAD_ERR_AGAIN;
        madi_unlock(&session->lock);
        madi_calls_run(session);
        return;
    }
    if (madi_wait(session, open_test, o, madi_deadline(timeout_ns)) != MAD_OK)
        o->status = MAD_ERR_TIMEOUT;
}

static MADI_COLD mad_status_t open_slow(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                                        mad_connection_t **cnx)
{
    opening_t o = {.channel = channel, .source = source};
    if (source != MAD_ANY_SOURCE) {
        o.conn = madi_conn_peek(channel, source);
        if (!o.conn && !(o.conn = madi_conn_get(channel, source, &o.status)))
            return o.status;
    }
    open_wait(&o, timeout_ns);
    if (!o.msg)
        return o.status;
    *cnx = &o.msg->base;
    return MAD_OK;
}

mad_status_t mad_begin_unpacking_timed(mad_channel_t *channel, mad_peer_t source, int64_t timeout_ns,
                                       mad_connection_t **cnx)
{
    return open_slow(channel, source, timeout_ns, cnx);
}

/* Wait without limit; what cannot be opened remembers why. */
static MADI_COLD mad_connection_t *open_forever(mad_channel_t *channel, mad_peer_t source)
{
    static mad_connection_t no_memory = {.kind = MADI_MESSAGE_RX, .status = MAD_ERR_NOMEM};
    mad_connection_t *cnx = NULL;
    mad_status_t status = open_slow(channel, source, MAD_FOREVER, &cnx);
    madi_rx_msg_t *m;

    if (MADI_LIKELY(status == MAD_OK))
        return cnx;
    m = malloc(sizeof *m);
    if (!m)
        return &no_memory;
    memset(m, 0, sizeof *m);
    m->base = (mad_connection_t){.kind = MADI_MESSAGE_RX, .status = (int)status, .session = channel->session};
    return &m->base;
}

static mad_connection_t *open_one(mad_channel_t *channel, madi_conn_t *conn)
{
    madi_rx_msg_t *m = open_quick(channel, conn);
    return MADI_LIKELY(m != NULL) ? &m->base : open_forever(channel, conn ? conn->gate->peer : MAD_ANY_SOURCE);
}

mad_connection_t *mad_begin_unpacking_from(mad_channel_t *channel, mad_peer_t source)
{
    madi_conn_t *conn = madi_conn_peek(channel, source); /* any source has none */
    if (MADI_LIKELY(conn != NULL))
        return open_one(channel, conn);
    return source == MAD_ANY_SOURCE ? open_one(channel, NULL) : open_forever(channel, source);
}

mad_connection_t *mad_begin_unpacking(mad_channel_t *channel)
{
    return open_one(channel, NULL);
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

static void spread(const struct iovec *pieces, int n, const unsigned char *src, uint64_t skip, uint64_t len)
{
    for (int i = 0; i < n && len; i++) {
        uint64_t room = pieces[i].iov_len;
        if (skip >= room) {
            skip -= room;
            continue;
        }
        room -= skip;
        if (room > len)
            room = len;
        memcpy((char *)pieces[i].iov_base + skip, src, room);
        src += room;
        len -= room;
        skip = 0;
    }
}

/* Tell both sides that they disagree.  Under session->lock. */
static void mismatch(madi_rx_msg_t *m, uint64_t sent, uint64_t expected, bool none)
{
    madi_gate_t *gate = m->conn->gate;
    madi_wire_hdr_t hdr = {
        .type = MADI_WIRE_MISMATCH, .channel = m->conn->remote, .length = sizeof(madi_wire_mismatch_t)};
    madi_wire_mismatch_t mm = {m->hdr.seq, m->index, sent, expected};

    if (madi_message_status(&m->base))
        return;
    madi_message_fail(&m->base, MAD_ERR_MISMATCH);
    madi_log(MADI_LOG_WARN, "message",
             "channel %s, peer %d, message %u, block %u: the sender packed %s (%llu bytes, %s), the receiver expects "
             "%llu bytes, %s; make both sides pack and unpack the same blocks",
             m->conn->channel->name, gate->peer, m->hdr.seq, m->index, none ? "no such block" : "a block",
             (unsigned long long)MADI_WIRE_DESC_LEN(sent), MADI_WIRE_DESC_RMODE(sent) ? "CHEAPER" : "EXPRESS",
             (unsigned long long)MADI_WIRE_DESC_LEN(expected), MADI_WIRE_DESC_RMODE(expected) ? "CHEAPER" : "EXPRESS");
    madi_gate_ctrl(gate, &hdr, &mm);
}

static bool agrees(const madi_rx_msg_t *m, uint64_t sent, uint64_t expected)
{
    uint64_t mask = MADI_WIRE_LEN_MAX | UINT64_C(1) << 50 | (m->hdr.flags & MADI_WIRE_MODES ? UINT64_C(3) << 51 : 0);
    return (sent & mask) == (expected & mask);
}

static void send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_GRANT, .length = sizeof(madi_wire_grant_t)};
    madi_wire_grant_t grant = {sender, receiver, len, drop, 0};
    madi_gate_ctrl(gate, &hdr, &grant);
}

bool madi_rdv_recv_done(madi_rdv_recv_t *r)
{
    madi_rx_msg_t *m = r->msg;
    mad_session_t *session = r->gate->session;
    bool ended = m->ended; /* with a request: it is ours to finish.  Else the user may be waiting for the last block, and
                            * the message is gone as soon as that is counted */
    if (r->bounce)
        spread(r->pieces, r->n, (unsigned char *)r->bounce + r->eager, r->eager, r->len - r->eager);
    free(r->bounce);
    if (r->waiter)
        atomic_store_explicit(&r->waiter->done, 1, memory_order_release); /* pairs with madi_done */
    if (r->next)
        r->next->prev = r->prev;
    if (r->prev)
        r->prev->next = r->next;
    else
        r->gate->incoming = r->next;
    madi_handle_del(r->gate->session->receives, r->handle);
    free(r);
    atomic_fetch_sub_explicit(&m->rdv_pending, 1, memory_order_release); /* pairs with the acquire in rdv_test */
    if (ended)
        madi_rx_finish(m);
    madi_wake(session);
    return true;
}

/* Name the destination of a block to its sender; waiter, if there is one, is done when it is filled.  Under
 * session->lock. */
static mad_status_t grant_block(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t len,
                                const madi_wire_rdv_t *rdv, madi_waitable_t *waiter)
{
    madi_gate_t *gate = m->conn->gate;
    madi_rdv_recv_t *r;

    if (rdv->eager == len) {
        send_grant(gate, rdv->sender, 0, len, true);
        return MAD_OK;
    }
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return MAD_ERR_PEER;
    r = calloc(1, sizeof *r + (size_t)n * sizeof *pieces);
    if (r && n > 1)
        r->bounce = malloc(len);
    if (r)
        r->handle = madi_handle_add(gate->session->receives, r);
    if (!r || !r->handle || (n > 1 && !r->bounce)) {
        if (r && r->handle)
            madi_handle_del(gate->session->receives, r->handle);
        if (r)
            free(r->bounce);
        free(r);
        send_grant(gate, rdv->sender, 0, len, true);
        return MAD_ERR_NOMEM;
    }
    r->msg = m;
    r->gate = gate;
    r->len = len;
    r->received = r->eager = rdv->eager;
    r->sender = rdv->sender;
    r->waiter = waiter;
    if (waiter)
        atomic_store_explicit(&waiter->done, 0, memory_order_relaxed);
    r->n = n;
    memcpy(r->pieces, pieces, (size_t)n * sizeof *pieces);
    r->next = gate->incoming;
    if (r->next)
        r->next->prev = r;
    gate->incoming = r;
    m->base.plain = 0;
    atomic_fetch_add_explicit(&m->rdv_pending, 1, memory_order_relaxed);
    send_grant(gate, rdv->sender, r->handle, len, false);
    return MAD_OK;
}

/* Is there a block to be parsed?  Moves on to the next packet if need be.  Under session->lock. */
static bool next_block(madi_rx_msg_t *m)
{
    while (m->cur == m->end && !m->cur_last && m->head) {
        madi_rx_packet_t *packet = m->head;
        if (m->current)
            madi_rx_packet_free(m->current);
        m->head = packet->next;
        if (!m->head)
            m->tail = &m->head;
        m->current = packet;
        m->cur = packet->data;
        m->end = packet->data + packet->len;
        m->cur_last = packet->last;
        m->conn->rx_held -= packet->cost;
        madi_credit_return(m->conn, packet->cost);
        packet->cost = 0;
    }
    return m->cur < m->end;
}

/* A block as it lies in the packet. */
typedef struct sent_block {
    uint64_t desc;
    bool announced; /* the rest of it is to be granted */
    madi_wire_rdv_t rdv;
    const unsigned char *data;
    uint64_t inside; /* bytes of it that are here */
} sent_block_t;

/* Read the block at the cursor, which moves behind it. */
static mad_status_t parse_block(madi_rx_msg_t *m, sent_block_t *b)
{
    const unsigned char *p = m->cur;
    size_t left = (size_t)(m->end - p);
    if (left < 8)
        goto garbage;
    memcpy(&b->desc, p, 8);
    p += 8;
    b->inside = MADI_WIRE_DESC_LEN(b->desc);
    b->announced = MADI_WIRE_DESC_KIND(b->desc) == MADI_WIRE_RDV;
    if (b->announced) {
        if (left < 16)
            goto garbage;
        memcpy(&b->rdv, p, 8);
        p += 8;
        if (b->rdv.eager > b->inside)
            goto garbage;
        b->inside = b->rdv.eager;
    }
    if (b->inside > (uint64_t)(m->end - p))
        goto garbage;
    b->data = p;
    m->cur = p + b->inside;
    return MAD_OK;

garbage:
    m->cur = m->end;
    madi_message_fail(&m->base, MAD_ERR_PROTOCOL);
    return MAD_ERR_PROTOCOL;
}

/* Put the next block into the pieces; n < 0: forget it.  waiter: as for grant_block.  Under session->lock. */
static mad_status_t take_block(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t expected,
                               madi_waitable_t *waiter)
{
    sent_block_t b;
    mad_status_t status = parse_block(m, &b);
    if (status)
        return status;
    if (n >= 0 && !agrees(m, b.desc, expected)) {
        mismatch(m, b.desc, expected, false);
        n = -1;
        status = MAD_ERR_MISMATCH;
    }
    if (n >= 0) {
        spread(pieces, n, b.data, 0, b.inside);
        if (b.announced)
            status = grant_block(m, pieces, n, MADI_WIRE_DESC_LEN(b.desc), &b.rdv, waiter);
    } else if (b.announced) {
        send_grant(m->conn->gate, b.rdv.sender, 0, b.inside, true);
    }
    m->index++;
    if (status)
        madi_message_fail(&m->base, status);
    return status;
}

/* ---- Blocks asked for by mad_try_unpack before they were there ------------------------------------------------- */

static bool early_done(void *arg)
{
    madi_rx_msg_t *m = arg;
    return madi_done(&m->early->here) || madi_message_status(&m->base);
}

/* The next block is announced: have it sent, into memory of ours, since the caller may come back with another buffer.
 * Under session->lock. */
static mad_status_t early_start(madi_rx_msg_t *m)
{
    sent_block_t b;
    madi_rx_early_t *early;
    struct iovec piece;
    mad_status_t status = parse_block(m, &b);
    if (status)
        return status;
    early = malloc(sizeof *early + MADI_WIRE_DESC_LEN(b.desc));
    if (!early) {
        send_grant(m->conn->gate, b.rdv.sender, 0, b.inside, true);
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    early->desc = b.desc;
    atomic_init(&early->here.done, 1);
    piece = (struct iovec){early->data, MADI_WIRE_DESC_LEN(b.desc)};
    memcpy(early->data, b.data, b.inside);
    m->base.plain = 0;
    m->early = early;
    status = grant_block(m, &piece, 1, piece.iov_len, &b.rdv, &early->here);
    if (status)
        madi_message_fail(&m->base, status);
    return status || madi_done(&early->here) ? status : MAD_ERR_AGAIN;
}

static void early_drop(madi_rx_msg_t *m)
{
    free(m->early);
    m->early = NULL;
    m->index++;
}

static mad_status_t early_take(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t expected, bool may_wait)
{
    mad_status_t status;
    if (!may_wait && !early_done(m)) {
        mad_progress(m->base.session);
        if (!early_done(m))
            return MAD_ERR_AGAIN;
    }
    madi_wait(m->base.session, early_done, m, INT64_MAX);
    madi_lock(&m->base.session->lock);
    status = madi_message_status(&m->base);
    if (!status && !agrees(m, m->early->desc, expected)) {
        mismatch(m, m->early->desc, expected, false);
        status = MAD_ERR_MISMATCH;
    }
    if (!status) {
        spread(pieces, n, m->early->data, 0, MADI_WIRE_DESC_LEN(m->early->desc));
        early_drop(m);
    }
    madi_unlock(&m->base.session->lock);
    return status;
}

/* The message has no further block, but the receiver asks for one. */
static bool exhausted(const madi_rx_msg_t *m)
{
    return m->cur == m->end && m->cur_last;
}

void madi_rx_feed(madi_rx_msg_t *m)
{
    while (m->blocks && next_block(m)) {
        madi_rx_block_t *b = m->blocks;
        m->blocks = b->next;
        if (!m->blocks)
            m->blocks_tail = &m->blocks;
        take_block(m, b->pieces, b->n, b->desc, NULL);
        free(b);
    }
    while (m->blocks && exhausted(m)) {
        madi_rx_block_t *b = m->blocks;
        mismatch(m, 0, b->desc, true);
        m->blocks = b->next;
        free(b);
    }
    if (!m->blocks)
        m->blocks_tail = &m->blocks;
    if (m->ended)
        madi_rx_finish(m);
    madi_wake(m->base.session);
}

static mad_status_t later_block(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t desc)
{
    madi_rx_block_t *b = malloc(sizeof *b + (size_t)n * sizeof *pieces);
    if (!b) {
        madi_message_fail(&m->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    b->next = NULL;
    b->pieces = (struct iovec *)(b + 1);
    memcpy(b->pieces, pieces, (size_t)n * sizeof *pieces);
    b->n = n;
    b->desc = desc;
    *m->blocks_tail = b;
    m->blocks_tail = &b->next;
    return MAD_OK;
}

static bool block_there(void *arg)
{
    madi_rx_msg_t *m = arg;
    bool there;
    if (madi_message_status(&m->base))
        return true;
    madi_lock(&m->base.session->lock);
    there = !m->blocks && (next_block(m) || exhausted(m));
    madi_unlock(&m->base.session->lock);
    return there;
}

/* Does the block that is expected lie at the cursor, announced only?  Under session->lock. */
static bool next_is_announced(const madi_rx_msg_t *m, uint64_t expected)
{
    uint64_t desc;
    if (m->end - m->cur < 16)
        return false;
    memcpy(&desc, m->cur, 8);
    return MADI_WIRE_DESC_KIND(desc) == MADI_WIRE_RDV && agrees(m, desc, expected);
}

/* mad_try_unpack of an EXPRESS block: is it there?  MAD_ERR_AGAIN when it is not. */
static mad_status_t try_express(madi_rx_msg_t *m, uint64_t expected)
{
    mad_session_t *session = m->base.session;
    mad_status_t status = MAD_OK;
    if (!block_there(m)) {
        mad_progress(session);
        if (!block_there(m))
            return MAD_ERR_AGAIN;
    }
    madi_lock(&session->lock);
    if (next_block(m) && next_is_announced(m, expected))
        status = early_start(m);
    madi_unlock(&session->lock);
    return status;
}

static mad_status_t unpack_slow(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t desc, bool may_wait)
{
    mad_session_t *session = m->base.session;
    bool express = !MADI_WIRE_DESC_RMODE(desc);
    madi_waitable_t here = {1};
    mad_status_t status = madi_message_status(&m->base);

    if (!session || !m->conn || status)
        return status;
    if (m->early)
        return early_take(m, pieces, n, desc, may_wait);
    if (express && !may_wait) {
        status = try_express(m, desc);
        if (status)
            return status;
        if (m->early)
            return early_take(m, pieces, n, desc, false);
    } else if (express) {
        madi_wait(session, block_there, m, INT64_MAX);
    }
    madi_lock(&session->lock);
    if (!m->blocks && next_block(m)) {
        status = take_block(m, pieces, n, desc, express ? &here : NULL);
    } else if (exhausted(m) || madi_message_status(&m->base)) {
        mismatch(m, 0, desc, true);
        status = madi_message_status(&m->base);
    } else {
        status = later_block(m, pieces, n, desc);
    }
    madi_unlock(&session->lock);
    if (!status && !madi_done(&here)) {
        madi_wait_done(session, &here, INT64_MAX);
        status = madi_message_status(&m->base);
    }
    return status;
}

static MADI_COLD mad_status_t unpack_one(mad_connection_t *cnx, void *buf, size_t len, uint64_t desc, bool legal,
                                         bool may_wait)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    struct iovec piece = {buf, len};

    if (madi_message_status(cnx))
        return madi_message_status(cnx);
    if ((!buf && len) || len > MADI_WIRE_LEN_MAX || !legal) {
        madi_message_fail(cnx, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    return unpack_slow(m, &piece, 1, desc, may_wait);
}

static inline __attribute__((always_inline)) mad_status_t unpack(mad_connection_t *cnx, void *buf, size_t len, mad_send_mode_t smode,
                                  mad_receive_mode_t rmode, bool may_wait)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    uint64_t sent, desc = madi_wire_desc(len, MADI_WIRE_INLINE, rmode, smode);

    /* What is not plain is read under the lock only: progress may be feeding it. */
    if (MADI_LIKELY(cnx->plain && buf && len <= MADI_COPY_SHORT && (size_t)(m->end - m->cur) >= 8 + len)) {
        const unsigned char *at = m->cur;
        memcpy(&sent, at, 8);
        if (MADI_LIKELY(sent == desc)) { /* which includes the modes: they are legal */
            madi_copy(buf, at + 8, len);
            m->cur = at + 8 + len;
            m->index++;
            return MAD_OK;
        }
    }
    return unpack_one(cnx, buf, len, desc, (unsigned)smode <= 2 && (unsigned)rmode <= 1, may_wait);
}

mad_status_t mad_unpack(mad_connection_t *cnx, void *buf, size_t len, mad_send_mode_t send_mode,
                        mad_receive_mode_t receive_mode)
{
    return unpack(cnx, buf, len, send_mode, receive_mode, true);
}

mad_status_t mad_try_unpack(mad_connection_t *cnx, void *buf, size_t len, mad_send_mode_t send_mode,
                            mad_receive_mode_t receive_mode)
{
    return unpack(cnx, buf, len, send_mode, receive_mode, false);
}

mad_status_t mad_unpack_scatter(mad_connection_t *cnx, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                                mad_receive_mode_t receive_mode)
{
    bool legal = n >= 0 && (pieces || !n) && (unsigned)send_mode <= 2 && (unsigned)receive_mode <= 1;
    size_t len = 0;
    for (int i = 0; i < n && legal; i++) {
        legal = (pieces[i].iov_base || !pieces[i].iov_len) && pieces[i].iov_len <= MADI_WIRE_LEN_MAX - len;
        len += pieces[i].iov_len;
    }
    if (!legal) {
        madi_message_fail(cnx, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    return unpack_slow((madi_rx_msg_t *)cnx, pieces, n, madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode),
                       true);
}

mad_status_t mad_unpack_strided(mad_connection_t *cnx, void *base, size_t len, size_t stride, size_t count,
                                mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    struct iovec *pieces;
    mad_status_t status;
    if (count == 1 || (stride == len && (!len || count <= MADI_WIRE_LEN_MAX / len)))
        return mad_unpack(cnx, base, len * count, send_mode, receive_mode);
    pieces = count <= INT32_MAX ? malloc((count ? count : 1) * sizeof *pieces) : NULL;
    if (!pieces) {
        status = count <= INT32_MAX ? MAD_ERR_NOMEM : MAD_ERR_INVAL;
        madi_message_fail(cnx, status);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        pieces[i].iov_base = (char *)base + i * stride;
        pieces[i].iov_len = len;
    }
    status = mad_unpack_scatter(cnx, pieces, (int)count, send_mode, receive_mode);
    free(pieces);
    return status;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

/* Forget blocks that nobody unpacked; they are a disagreement.  Under session->lock. */
static void drain(madi_rx_msg_t *m)
{
    while (next_block(m)) {
        if (!madi_message_status(&m->base) && !m->consumed) {
            uint64_t sent = 0;
            if (m->end - m->cur >= 8)
                memcpy(&sent, m->cur, 8);
            mismatch(m, sent, 0, false);
        }
        take_block(m, NULL, -1, 0, NULL);
    }
}

static void live_remove(madi_rx_msg_t *m)
{
    if (!m->live)
        return;
    for (madi_rx_msg_t **p = &m->conn->live; *p; p = &(*p)->next_live)
        if (*p == m) {
            *p = m->next_live;
            return;
        }
}

static void rx_release(madi_rx_msg_t *m)
{
    if (m->current)
        madi_rx_packet_free(m->current);
    for (madi_rx_packet_t *p = m->head, *next; p; p = next) {
        next = p->next;
        madi_rx_packet_free(p);
    }
    free(m->early);
    madi_rx_clear(m);
    madi_rx_free(m);
}

/* Is an ended message complete?  Under session->lock. */
static bool finished(madi_rx_msg_t *m)
{
    if (madi_message_status(&m->base))
        for (madi_rx_block_t *b; (b = m->blocks); free(b))
            m->blocks = b->next;
    if (m->early && madi_done(&m->early->here)) { /* nobody came for it */
        if (!m->consumed)
            mismatch(m, m->early->desc, 0, false);
        early_drop(m);
    }
    if (!m->blocks)
        drain(m);
    if (atomic_load_explicit(&m->rdv_pending, memory_order_relaxed) || m->blocks)
        return false;
    return exhausted(m) || madi_message_status(&m->base) == MAD_ERR_PEER ||
           madi_message_status(&m->base) == MAD_ERR_CLOSED;
}

void madi_rx_finish(madi_rx_msg_t *m)
{
    mad_request_t *request = m->request;
    mad_status_t status;
    if (!m->ended || !request || !finished(m))
        return;
    status = madi_message_status(&m->base);
    live_remove(m);
    rx_release(m);
    madi_request_complete(request, status);
}

static bool end_test(void *arg)
{
    madi_rx_msg_t *m = arg;
    bool done;
    if (atomic_load_explicit(&m->rdv_pending, memory_order_acquire)) /* pairs with madi_rdv_recv_done */
        return false;
    madi_lock(&m->base.session->lock);
    done = finished(m);
    if (done)
        live_remove(m);
    madi_unlock(&m->base.session->lock);
    return done;
}

/* A message that could not be opened. */
static mad_status_t end_broken(mad_connection_t *cnx)
{
    mad_status_t status = madi_message_status(cnx);
    if (cnx->session)
        free(cnx);
    return status;
}

static MADI_COLD mad_status_t end_slow(madi_rx_msg_t *m)
{
    mad_status_t status = madi_message_status(&m->base);
    if (!m->base.session || !m->conn)
        return end_broken(&m->base);
    if (m->live || m->cur != m->end || !m->cur_last || m->blocks || m->early || status ||
        atomic_load_explicit(&m->rdv_pending, memory_order_acquire)) {
        madi_wait(m->base.session, end_test, m, INT64_MAX);
        status = madi_message_status(&m->base);
    }
    rx_release(m);
    return status;
}

mad_status_t mad_end_unpacking(mad_connection_t *cnx)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;

    if (MADI_LIKELY(cnx->plain == 2 && m->cur == m->end)) {
        madi_rx_free(m);
        return MAD_OK;
    }
    return end_slow(m);
}

mad_status_t mad_end_unpacking_request(mad_connection_t *cnx, mad_request_t **request)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    mad_request_t *r = cnx->session ? madi_request_new(cnx->session, true) : NULL;
    mad_status_t status;

    if (!r || !m->conn) {
        status = mad_end_unpacking(cnx);
        if (!r)
            return status ? status : MAD_ERR_NOMEM;
        madi_request_complete(r, status);
    } else {
        madi_lock(&cnx->session->lock);
        m->ended = true;
        m->request = r;
        r->rx = m;
        madi_rx_finish(m);
        madi_unlock(&r->session->lock);
    }
    madi_request_left(r);
    *request = r;
    return MAD_OK;
}

mad_peer_t mad_message_peer(const mad_connection_t *cnx)
{
    if (cnx->kind == MADI_MESSAGE_RX)
        return ((const madi_rx_msg_t *)cnx)->conn ? ((const madi_rx_msg_t *)cnx)->conn->gate->peer : MAD_ANY_SOURCE;
    return ((const madi_tx_t *)cnx)->conn ? ((const madi_tx_t *)cnx)->conn->gate->peer : MAD_ANY_SOURCE;
}

mad_status_t mad_message_status(const mad_connection_t *cnx)
{
    return madi_message_status(cnx);
}

/* ---- Posted receives ------------------------------------------------------------------------------------------ */

#define ASYNC_MIN 8192 /* bytes of a posted receive that is worth a progress thread: it may need a grant */

/* Unpack a message into a posted receive.  Under session->lock. */
void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *m)
{
    madi_rx_ask(m);
    for (int i = 0; i < posted->n; i++) {
        const mad_block_t *b = &posted->blocks[i];
        struct iovec piece = {b->base, b->len};
        uint64_t desc = madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, b->send_mode);
        if (madi_message_status(&m->base))
            break;
        if (!m->blocks && next_block(m))
            take_block(m, &piece, 1, desc, NULL);
        else if (exhausted(m))
            mismatch(m, 0, desc, true);
        else
            later_block(m, &piece, 1, desc);
    }
    m->ended = true;
    m->request = posted->request;
    m->request->posted = NULL;
    m->request->rx = m;
    free(posted);
    madi_rx_finish(m);
}

mad_status_t mad_post_unpacking(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                mad_request_t **request)
{
    mad_session_t *session = channel->session;
    mad_status_t status = MAD_OK;
    madi_conn_t *conn;
    madi_posted_t *posted;
    mad_request_t *r;
    madi_rx_msg_t *m;
    size_t len = 0;

    if (n < 0 || (n && !blocks))
        return MAD_ERR_INVAL;
    for (int i = 0; i < n; i++)
        if ((!blocks[i].base && blocks[i].len) || (unsigned)blocks[i].receive_mode > 1)
            return MAD_ERR_INVAL;
    conn = madi_conn_get(channel, source, &status);
    if (!conn)
        return status;
    posted = malloc(sizeof *posted + (size_t)n * sizeof *blocks);
    for (int i = 0; i < n; i++)
        len += blocks[i].len;
    r = posted ? madi_request_new(session, len >= ASYNC_MIN) : NULL;
    if (!r) {
        free(posted);
        return MAD_ERR_NOMEM;
    }
    *posted = (madi_posted_t){.request = r, .conn = conn, .n = n};
    if (n)
        memcpy(posted->blocks, blocks, (size_t)n * sizeof *blocks);
    r->posted = posted;
    madi_lock(&session->lock);
    m = conn->posted ? NULL : take_from(conn);
    if (m) {
        madi_posted_start(posted, m);
    } else if (atomic_load_explicit(&conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN) {
        r->posted = NULL;
        free(posted);
        madi_request_complete(r, conn->gate->status);
    } else if (atomic_load_explicit(&channel->closed, memory_order_relaxed)) { /* since the connection was looked up */
        r->posted = NULL;
        free(posted);
        madi_request_complete(r, MAD_ERR_CLOSED);
    } else {
        *conn->posted_tail = posted;
        conn->posted_tail = &posted->next;
        madi_conn_rx_quick(conn);
    }
    madi_unlock(&session->lock);
    if (request) {
        madi_request_left(r);
        *request = r;
        return MAD_OK;
    }
    return mad_request_wait(&r, MAD_FOREVER);
}

/* ---- Failure of the peer -------------------------------------------------------------------------------------- */

void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status)
{
    madi_rdv_recv_t *r;
    while ((r = gate->incoming)) {
        madi_message_fail(&r->msg->base, status);
        r->eager = r->len; /* nothing is to be spread */
        madi_rdv_recv_done(r);
    }
}

/* Messages that will never be whole fail; whole ones stay to be read. */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status)
{
    madi_rx_msg_t *m, *next;
    if (conn->arriving)
        madi_message_fail(&conn->arriving->base, status);
    conn->arriving = NULL;
    madi_credit_forget(conn);
    for (m = conn->live; m; m = next) {
        next = m->next_live;
        if (!m->complete)
            madi_message_fail(&m->base, status);
        madi_rx_finish(m);
    }
    for (madi_posted_t *p; (p = conn->posted); free(p)) {
        conn->posted = p->next;
        p->request->posted = NULL;
        madi_request_complete(p->request, status);
    }
    conn->posted_tail = &conn->posted;
    madi_conn_rx_quick(conn);
}
