/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that wait to be opened: listed, taken, or discarded at the end of their channel. */
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/conn/rx_pool.h"
#include "core/link/link.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/recv/short.h"
#include "core/wire/wire.h"

#include <string.h>

void madi_conn_rx_quick(madi_conn_t *conn)
{
    bool up = atomic_load_explicit(&conn->gate->state, memory_order_relaxed) == MADI_GATE_UP;
    /* rails have to count each packet, so none may be taken from a driver directly */
    bool quick = up && conn->remote_known && !conn->remote_closing && !conn->ready && !conn->arriving && !conn->posted &&
                 !conn->channel->handler && !conn->gate->rails && !madi_tracing;
    uint32_t flags = MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags;
    conn->rx_link = conn->gate->link;
    conn->fast_hdr = quick ? MADI_WIRE_MSG | flags << 8 | (uint32_t)conn->remote << 16 : 0;
    if (conn->posted)
        madi_posted_offer(conn);
}

/* Append a message to its connection's list. */
static inline void ready_append(madi_conn_t *conn, madi_rx_msg_t *m)
{
    m->next = NULL;
    *conn->ready_tail = m;
    conn->ready_tail = &m->next;
}

/* Count n messages that were appended, and wake threads for them. */
static inline void ready_added(madi_conn_t *conn, uint32_t n)
{
    mad_channel_t *channel = conn->channel;
    conn->fast_hdr = 0;
    if (!conn->in_ready) {
        conn->in_ready = true;
        conn->next_ready = NULL;
        *channel->ready_tail = conn;
        channel->ready_tail = &conn->next_ready;
    }
    atomic_store_explicit(&channel->n_ready, atomic_load_explicit(&channel->n_ready, memory_order_relaxed) + n,
                          memory_order_relaxed);
    if (MADI_UNLIKELY(!marceli_waiters_none(&conn->openers) || !marceli_waiters_none(&channel->openers)))
        for (uint32_t i = 0; i < n; i++)
            madi_openers_wake(conn);
}

void madi_rx_make_ready(madi_rx_msg_t *m)
{
    ready_append(m->conn, m);
    ready_added(m->conn, 1);
}

int madi_ready_take(madi_conn_t *conn, const madi_short_t *packet, int n)
{
    mad_session_t *session = conn->gate->session;
    uint32_t head = (uint32_t)madi_short_header(conn);
    int64_t credits = madi_short_credits(conn);
    int taken = 0;

    if (MADI_UNLIKELY(conn->arriving || conn->unopened || conn->channel->handler || madi_tracing))
        return 0;
    for (; taken < n; taken++, packet++) {
        madi_rx_msg_t *m;
        if (MADI_UNLIKELY((uint32_t)packet->words[0] != head || packet->words[0] >> 32 > MADI_SHORT_MAX ||
                          packet->words[1] >> 32 != MADI_SHORT_COST || credits < (taken + 1) * MADI_SHORT_COST ||
                          !(m = madi_rx_next(session))))
            break;
        memcpy(&m->hdr, packet, sizeof *packet);
        madi_rx_start(m, conn, madi_foreign_of(m->data), false);
        m->cost = MADI_SHORT_COST;
        m->base.plain = MADI_PLAIN_INLINE;
        ready_append(conn, m);
    }
    if (MADI_UNLIKELY(!taken))
        return 0;
    conn->rx_held += (uint64_t)taken * MADI_SHORT_COST;
    MADI_CONN_COUNT(conn, messages_received, (uint64_t)taken);
    ready_added(conn, (uint32_t)taken);
    return taken;
}

/* Return to the sender the credit that a message has held, because the message is being opened. */
static inline void rx_open(madi_rx_msg_t *m)
{
    m->opened = true;
    m->conn->rx_held -= m->cost;
    madi_credit_return(m->conn, m->cost);
    m->cost = 0;
    if (MADI_UNLIKELY(!m->complete)) {
        m->is_unfinished = true;
        m->receiving.next_unfinished = m->conn->unfinished;
        m->conn->unfinished = m;
    }
}

void madi_rx_open(madi_rx_msg_t *m)
{
    rx_open(m);
}

/* Take the next message of a connection.  Under session->lock. */
madi_rx_msg_t *madi_rx_take_from(madi_conn_t *conn)
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
    rx_open(m);
    if (MADI_UNLIKELY(conn->remote_closing))
        madi_conn_hand_back(conn);
    return m;
}

/* Discard messages that no thread can open any more: both sides have closed the channel. */
void madi_conn_drop(madi_conn_t *conn)
{
    madi_unopened_drained(conn);
    for (madi_rx_msg_t *m; (m = madi_rx_take_from(conn));)
        madi_rx_drop(m);
}

void madi_conn_hand_back(madi_conn_t *conn)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CLOSED, .channel = conn->remote};
    if (!conn->remote_closing)
        return;
    if (conn->opened_since_announce && !conn->channel->is_open && conn->ready)
        madi_conn_drop(conn); /* messages are left: madi_conn_drop calls this function again after the last one */
    if (!conn->remote_closing || conn->rx_held || madi_gate_ctrl(conn->gate, &hdr, NULL) == MAD_ERR_NOMEM)
        return;
    madi_credit_forget(conn);
    madi_credit_begin_rx(conn);
    conn->remote_known = conn->remote_closing = conn->opened_since_announce = false;
}

const char *madi_close_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_conn_t *conn = madi_conn_by_remote(link->gate, hdr->channel);
    (void)body;
    if (!conn || conn->arriving)
        return MADI_WRONG_NUMBER;
    link->gate->by_remote[hdr->channel] = NULL;
    conn->remote_closing = true;
    madi_conn_rx_quick(conn);
    madi_conn_hand_back(conn);
    madi_channel_release_check(conn->channel);
    return NULL;
}
