/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that are posted before the message. */
#include "core/core.h"
#include "core/send/policy.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a posted receive that a sender that waits would rather write than send. */
static size_t offer_min(const madi_caps_t *caps)
{
    return caps->direct_min && caps->direct_min < caps->rdv_min ? caps->direct_min : caps->rdv_min;
}

/* Advertise the first posted receive to the sender, so that a waiting sender writes there, and the receiver has nothing to
 * do.  The offer is for the message that begins behind everything that has arrived so far.  That is the right one, since
 * the first posted receive has precedence over all other receivers. */
void madi_posted_offer(madi_conn_t *conn)
{
    madi_posted_t *p = conn->posted;
    madi_gate_t *gate = conn->gate;
    madi_offer_t offer;
    if (p->n != 1 || p->blocks[0].len < MADI_OFFER_MIN || p->offer >= 0 || p->claimed || conn->arriving || !conn->remote_known ||
        atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP || !gate->link->direct ||
        p->blocks[0].len < offer_min(&gate->link->adapter->caps))
        return;
    offer = (madi_offer_t){.position = madi_credit_consumed(conn) + conn->rx_held,
                           .len = p->blocks[0].len,
                           .at = (uintptr_t)p->blocks[0].base,
                           .channel = conn->remote};
    p->offer = gate->link->driver->offer(gate->link, &offer);
}

bool madi_posted_withdraw(madi_posted_t *p)
{
    madi_link_t *link = p->conn->gate->link;
    if (p->offer >= 0)
        p->claimed = !link->driver->withdraw(link, p->offer);
    p->offer = -1;
    return !p->claimed;
}

/* Unpack an opened message into a posted receive.  Under session->lock. */
void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *m)
{
    m->placed = !madi_posted_withdraw(posted);
    for (int i = 0; i < posted->n; i++) {
        const mad_block_t *b = &posted->blocks[i];
        struct iovec piece = {b->base, b->len};
        uint64_t desc = madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, b->send_mode);
        if (madi_message_status(&m->base))
            break;
        if (!m->blocks && madi_block_next(m))
            madi_block_take(m, &piece, 1, desc, NULL);
        else if (madi_block_none(m))
            madi_block_mismatch(m, MADI_WIRE_DESC_NONE, desc);
        else
            madi_block_wait(m, &piece, 1, desc);
    }
    m->ended = true;
    m->request = &posted->request;
    m->request->posted = NULL;
    m->request->rx = m;
    madi_rx_finish(m);
}

/* Take the first posted receive of a connection off its list. */
void madi_posted_next(madi_conn_t *conn)
{
    conn->posted = conn->posted->next;
    if (conn->posted) {
        madi_posted_offer(conn);
    } else {
        conn->posted_tail = &conn->posted;
        madi_conn_rx_quick(conn);
    }
}

/* False where modes or lengths of the two sides differ: the general path then reports which side is wrong. */
bool madi_posted_take_short(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    madi_posted_t *p = conn->posted;
    const mad_block_t *b = p->blocks;

    if (p->n != 1 || p->offer >= 0 || p->claimed || conn->arriving || conn->unopened || madi_tracing ||
        hdr->length != 8 + b->len || hdr->flags != (MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) ||
        hdr->aux != madi_wire_cost(hdr->length + sizeof *hdr) ||
        madi_credit_consumed(conn) + conn->rx_held + hdr->aux > conn->rx_limit ||
        !madi_foreign_equals8(body, madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, b->send_mode)))
        return false;
    if (b->len)
        madi_foreign_copy_any(b->base, madi_foreign_skip(body, 8), b->len);
    conn->rx_messages++;
    madi_credit_return(conn, hdr->aux);
    madi_posted_next(conn);
    p->request.posted = NULL;
    madi_request_complete(&p->request, MAD_OK);
    return true;
}

/* A structure of the pool, in which receives follow each other in the order in which they are posted: mostly the one that was
 * used longest ago is free.  NULL: it is not, and the pool is full.  Under session->lock. */
static madi_posted_t *posted_pooled(mad_session_t *session)
{
    madi_posted_t *last = session->posted_ring, *p = last ? last->ring : NULL;
    if (!p || atomic_load_explicit(&p->request.used, memory_order_acquire)) { /* pairs with madi_request_free */
        if (session->n_posted_ring == MADI_POSTED_POOLED)
            return NULL;
        p = malloc(sizeof *p + MADI_POSTED_BLOCKS * sizeof p->blocks[0]);
        if (!p)
            return NULL;
        p->ring = last ? last->ring : p;
        if (last)
            last->ring = p;
        session->n_posted_ring++;
    }
    session->posted_ring = p;
    return p;
}

void madi_posted_ring_free(mad_session_t *session)
{
    madi_posted_t *p = session->posted_ring, *next;
    for (; session->n_posted_ring; session->n_posted_ring--, p = next) {
        next = p->ring;
        if (atomic_load_explicit(&p->request.used, memory_order_acquire))
            p->request.pooled = false; /* its owner frees it */
        else
            free(p);
    }
    session->posted_ring = NULL;
}

/* A receive of the program's blocks; NULL: no memory.  Under session->lock. */
static madi_posted_t *posted_new(madi_conn_t *conn, const mad_block_t *blocks, int n, bool async)
{
    mad_session_t *session = conn->gate->session;
    madi_posted_t *p = n <= MADI_POSTED_BLOCKS ? posted_pooled(session) : NULL;
    bool pooled = p != NULL;
    if (!p)
        p = malloc(sizeof *p + (size_t)n * sizeof *blocks);
    if (!p)
        return NULL;
    madi_request_init(&p->request, session, async);
    p->request.pooled = pooled;
    atomic_store_explicit(&p->request.used, true, memory_order_relaxed);
    p->request.posted = p;
    if (!n) /* it completes only when the peer is lost, maybe never: it keeps no thread awake */
        p->request.counted = 0;
    p->conn = conn;
    p->next = NULL;
    p->offer = -1;
    p->claimed = false;
    p->n = n;
    for (int i = 0; i < n; i++)
        p->blocks[i] = blocks[i];
    return p;
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
    conn = madi_conn_peek(channel, source);
    if (!conn && !(conn = madi_conn_get(channel, source, &status)))
        return status;
    for (int i = 0; i < n; i++)
        len += blocks[i].len;
    madi_lock(&session->lock);
    posted = posted_new(conn, blocks, n, len >= MADI_POSTED_ASYNC_MIN);
    if (!posted) {
        madi_unlock(&session->lock);
        return MAD_ERR_NOMEM;
    }
    r = &posted->request;
    m = conn->posted ? NULL : madi_rx_take_from(conn);
    if (m) {
        madi_posted_start(posted, m);
    } else if (atomic_load_explicit(&conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN) {
        r->posted = NULL;
        madi_request_complete(r, conn->gate->status);
    } else if (atomic_load_explicit(&channel->closed, memory_order_relaxed)) { /* since the connection was looked up */
        r->posted = NULL;
        madi_request_complete(r, madi_channel_status(channel));
    } else {
        *conn->posted_tail = posted;
        conn->posted_tail = &posted->next;
        if (conn->posted == posted)
            madi_conn_rx_quick(conn);
        if (posted->offer >= 0)
            madi_request_by_peer(r);
    }
    madi_unlock(&session->lock);
    if (request) {
        madi_request_left(r);
        *request = r;
        return MAD_OK;
    }
    return mad_request_wait(&r, MAD_FOREVER);
}
