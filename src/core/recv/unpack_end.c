/* SPDX-License-Identifier: BSD-3-Clause */
/* Unpacking: the end of a message, by its receiver or by failure. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* Discard blocks that were not unpacked; that is a mismatch.  Under session->lock. */
static void drain(madi_rx_msg_t *m)
{
    while (madi_block_next(m))
        madi_block_drop(m, !madi_message_status(&m->base) && !m->consumed);
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
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_RECEIVE, m->began, m->conn, m->hdr.seq, 0);
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

/* Discard the remaining blocks of an ended message, and report the mismatch.  True: nothing of it is in flight any more.
 * Under session->lock. */
static bool settle(madi_rx_msg_t *m)
{
    if (madi_message_status(&m->base))
        for (madi_rx_block_t *b; (b = m->blocks); free(b))
            m->blocks = b->next;
    if (m->early && madi_done(&m->early->here)) { /* it was not unpacked */
        if (!m->consumed && !m->early->borrowed)
            madi_block_mismatch(m, m->early->desc, MADI_WIRE_DESC_NONE);
        madi_early_drop(m);
    }
    if (!m->blocks)
        drain(m);
    if (atomic_load_explicit(&m->rdv_pending, memory_order_relaxed) || m->blocks)
        return false;
    return madi_block_none(m) || m->lost;
}

void madi_rx_finish(madi_rx_msg_t *m)
{
    mad_request_t *request = m->request;
    mad_status_t status;
    if (!m->ended || !request || !settle(m))
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
    done = settle(m);
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

/* The body was lent, all of it is unpacked, and nothing happened on the way. */
static mad_status_t end_loan(madi_rx_msg_t *m)
{
    madi_packet_return(&m->first);
    m->current = NULL;
    madi_rx_free(m);
    return MAD_OK;
}

static __attribute__((noinline)) mad_status_t end_other(madi_rx_msg_t *m)
{
    mad_status_t status = madi_message_status(&m->base);
    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
    if (m->base.plain == 3 && !madi_rx_left(m))
        return end_loan(m);
    if (!m->base.session || !m->conn)
        return end_broken(&m->base);
    if (m->live || madi_rx_left(m) || !m->cur_last || m->blocks || m->early || status ||
        atomic_load_explicit(&m->rdv_pending, memory_order_acquire)) {
        if (madi_cont_of(m))
            madi_cont_poll(m);
        if (!end_test(m))
            madi_message_wait(m, end_test, m);
        status = madi_message_status(&m->base);
    }
    rx_release(m);
    return status;
}

mad_status_t mad_end_unpacking(mad_connection_t *cnx)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;

    if (MADI_LIKELY(cnx->plain == 2 && !madi_rx_left(m))) {
        madi_rx_free(m);
        return MAD_OK;
    }
    return end_other(m);
}

mad_status_t mad_end_unpacking_request(mad_connection_t *cnx, mad_request_t **request)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    mad_request_t *r = cnx->session ? madi_request_new(cnx->session, true) : NULL;
    mad_status_t status;

    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
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

void mad_drop_unpacking(mad_connection_t *cnx)
{
    madi_rx_msg_t *m = (madi_rx_msg_t *)cnx;
    mad_request_t *request;
    if (MADI_UNLIKELY(m->begun))
        madi_begun_skip(m);
    if (MADI_LIKELY(cnx->plain && !madi_rx_left(m))) { /* there is nothing to wait for */
        mad_end_unpacking(cnx);
        return;
    }
    if (m->conn && (!cnx->plain || madi_rx_left(m))) { /* what is not plain may have more blocks than are here */
        m->consumed = true;
        cnx->plain = 0;
    }
    if (mad_end_unpacking_request(cnx, &request) == MAD_OK)
        mad_request_callback(request, NULL, NULL);
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

void madi_rx_drop(madi_rx_msg_t *m)
{
    m->base.plain = 0;
    m->consumed = true;
    settle(m);
    live_remove(m);
    rx_release(m);
}

/* Messages that will never be whole fail; whole ones stay to be read. */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status)
{
    madi_rx_msg_t *m, *next;
    if (conn->arriving) {
        conn->arriving->lost = true;
        madi_message_fail(&conn->arriving->base, status);
    }
    conn->arriving = NULL;
    madi_credit_forget(conn);
    for (m = conn->live; m; m = next) {
        next = m->next_live;
        if (!m->complete) {
            m->lost = true;
            madi_message_fail(&m->base, status);
        }
        if (m->waiter)
            marceli_waiter_wake(m->waiter);
        madi_rx_finish(m);
    }
    for (madi_posted_t *p; (p = conn->posted);) {
        conn->posted = p->next;
        p->request.posted = NULL;
        madi_request_complete(&p->request, status);
    }
    conn->posted_tail = &conn->posted;
    madi_conn_rx_quick(conn);
}
