/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing: flushing, ending, and whole messages in one call. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

static inline mad_status_t gate_usable(madi_conn_t *conn)
{
    if (MADI_UNLIKELY(atomic_load_explicit(&conn->gate->state, memory_order_acquire) == MADI_GATE_DOWN))
        return conn->gate->status;
    return MAD_OK;
}

/* Put the message at the end of its connection's queue.  Under tx_lock. */
static void enqueue(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    if (tx->queued)
        return;
    tx->queued = true;
    conn->quick = 0;
    atomic_store_explicit(&tx->base.plain, 0, memory_order_relaxed);
    tx->seq = conn->tx_seq++;
    tx->next = NULL;
    *conn->queue_tail = tx;
    conn->queue_tail = &tx->next;
}

/* One-call messages that came while a message was being packed go after it. */
static void enqueue_deferred(madi_conn_t *conn)
{
    madi_tx_t *tx = conn->deferred, *next;
    conn->deferred = NULL;
    conn->deferred_tail = &conn->deferred;
    for (; tx; tx = next) {
        next = tx->next;
        enqueue(tx);
    }
}

static void send_queue(madi_conn_t *conn)
{
    if (gate_usable(conn)) {
        madi_conn_fail(conn, conn->gate->status);
        return;
    }
    if (!madi_conn_pump(conn) || conn->queue)
        madi_conn_kick(conn);
}

mad_status_t mad_flush_packing(mad_connection_t *cnx)
{
    madi_tx_t *tx = (madi_tx_t *)cnx;
    mad_status_t status = madi_message_status(cnx);
    if (!cnx->session || !tx->conn || status)
        return cnx->session ? status : MAD_ERR_NOMEM;
    status = madi_tx_close_run(tx);
    if (status) {
        madi_message_fail(cnx, status);
        return status;
    }
    madi_lock(&tx->conn->gate->tx_lock);
    if (gate_usable(tx->conn)) {
        status = tx->conn->gate->status;
        madi_message_fail(cnx, status);
    } else {
        enqueue(tx);
        send_queue(tx->conn);
    }
    madi_unlock(&tx->conn->gate->tx_lock);
    return status;
}

/* A plain message leaves at once, if the way is free.  Under tx_lock. */
static inline bool send_at_once(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    uint32_t cost = (tx->stage_len + MADI_LINE - 1) & ~(uint32_t)(MADI_LINE - 1);
    struct iovec vec = {tx->small, tx->stage_len};
    madi_wire_hdr_t *hdr = (madi_wire_hdr_t *)tx->small;

    if (MADI_UNLIKELY(conn->credit_used + cost > conn->quick))
        return false;
    hdr->type = MADI_WIRE_MSG;
    hdr->flags = MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags;
    hdr->channel = conn->number;
    hdr->length = tx->stage_len - (uint32_t)sizeof *hdr;
    hdr->seq = conn->tx_seq;
    hdr->aux = cost;
    if (MADI_UNLIKELY(link->driver->send(link, &vec, 1, tx->stage_len, NULL) != MADI_SENT))
        return false;
    conn->tx_seq++;
    conn->credit_used += cost;
    return true;
}

/* Give the connection to the next message.  Under tx_lock. */
static inline void packing_release(madi_conn_t *conn)
{
    if (MADI_UNLIKELY(conn->deferred != NULL)) {
        enqueue_deferred(conn);
        send_queue(conn);
    }
    atomic_store_explicit(&conn->packing, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    if (MADI_UNLIKELY(atomic_load_explicit(&conn->wants_packing, memory_order_relaxed)))
        madi_wake(conn->gate->session);
}

static mad_status_t end_broken(mad_connection_t *cnx)
{
    mad_status_t status = madi_message_status(cnx);
    if (cnx->session)
        madi_tx_free((madi_tx_t *)cnx);
    return status;
}

/* A message with a failure of ours, nothing of which has left: it is taken back. */
static mad_status_t end_failed(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    mad_status_t status = madi_message_status(&tx->base);
    madi_lock(&conn->gate->tx_lock);
    packing_release(conn);
    madi_unlock(&conn->gate->tx_lock);
    madi_tx_free(tx);
    return status;
}

/* End: whoever completes the message tells waiter or request.  Under tx_lock. */
static void end_queued(madi_tx_t *tx, madi_waitable_t *waiter, mad_request_t *request)
{
    madi_conn_t *conn = tx->conn;
    tx->waiter = waiter;
    tx->request = request;
    if (request)
        request->tx = tx;
    tx->ended = true;
    madi_tx_later(tx);
    enqueue(tx);
    send_queue(conn);
    packing_release(conn);
}

static mad_status_t end_wait(madi_tx_t *tx, madi_waitable_t *w)
{
    mad_status_t status;
    madi_wait_done(tx->base.session, w, INT64_MAX);
    status = madi_message_status(&tx->base);
    madi_lock(&tx->conn->gate->tx_lock); /* whoever completed it has let go of it */
    madi_unlock(&tx->conn->gate->tx_lock);
    madi_tx_free(tx);
    return status;
}

/* What was staged becomes pieces, what is LATER is read. */
static void close_pieces(madi_tx_t *tx)
{
    if (madi_tx_close_run(tx) || madi_tx_settle(tx))
        madi_message_fail(&tx->base, MAD_ERR_NOMEM);
}

/* A failure of ours before anything has left: nothing is sent. */
static bool failed_early(madi_tx_t *tx)
{
    mad_status_t status = madi_message_status(&tx->base);
    return status && !tx->queued && status != MAD_ERR_MISMATCH;
}

static mad_status_t end_slow(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_waitable_t wait = {0};

    close_pieces(tx);
    if (failed_early(tx))
        return end_failed(tx);
    madi_lock(&conn->gate->tx_lock);
    if (!tx->queued && madi_tx_send_whole(tx)) {
        madi_tx_reset_pieces(tx);
        conn->spare = tx;
        packing_release(conn);
        madi_unlock(&conn->gate->tx_lock);
        return MAD_OK;
    }
    end_queued(tx, &wait, NULL);
    madi_unlock(&conn->gate->tx_lock);
    return end_wait(tx, &wait);
}

mad_status_t mad_end_packing(mad_connection_t *cnx)
{
    madi_tx_t *tx = (madi_tx_t *)cnx;
    madi_conn_t *conn = tx->conn;

    if (MADI_LIKELY(madi_plain(cnx))) {
        madi_lock(&conn->gate->tx_lock);
        if (MADI_LIKELY(send_at_once(tx))) {
            madi_tx_reset(tx);
            conn->spare = tx;
            packing_release(conn);
            madi_unlock(&conn->gate->tx_lock);
            return MAD_OK;
        }
        madi_unlock(&conn->gate->tx_lock);
    }
    if (!cnx->session || !conn)
        return end_broken(cnx);
    return end_slow(tx);
}

mad_status_t mad_end_packing_request(mad_connection_t *cnx, mad_request_t **request)
{
    madi_tx_t *tx = (madi_tx_t *)cnx;
    madi_conn_t *conn = tx->conn;
    mad_request_t *r = cnx->session ? madi_request_new(cnx->session) : NULL;
    mad_status_t status;

    if (!r) {
        status = mad_end_packing(cnx);
        return status ? status : MAD_ERR_NOMEM;
    }
    if (conn)
        close_pieces(tx);
    if (!conn || failed_early(tx)) {
        status = conn ? end_failed(tx) : end_broken(cnx);
        madi_request_complete(r, status);
    } else {
        madi_lock(&conn->gate->tx_lock);
        end_queued(tx, NULL, r);
        madi_unlock(&conn->gate->tx_lock);
    }
    *request = r;
    return MAD_OK;
}

/* ---- One call ------------------------------------------------------------------------------------------------- */

mad_status_t mad_send_blocks(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                             mad_request_t **request)
{
    mad_status_t status = MAD_OK;
    madi_conn_t *conn = madi_conn_get(channel, peer, &status);
    madi_waitable_t wait = {0};
    madi_tx_t *tx;

    if (n < 0 || (n && !blocks))
        status = MAD_ERR_INVAL;
    if (status)
        return status;
    tx = madi_tx_new(channel->session, conn);
    if (!tx)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < n && !status; i++)
        status = madi_tx_add(tx, blocks[i].base, blocks[i].len,
                           blocks[i].send_mode == MAD_SEND_LATER ? MAD_SEND_SAFER : blocks[i].send_mode,
                           blocks[i].receive_mode);
    if (!status)
        status = madi_tx_close_run(tx);
    if (!status && request && !(tx->request = madi_request_new(channel->session)))
        status = MAD_ERR_NOMEM;
    if (status) {
        madi_tx_free(tx);
        return status;
    }
    if (request) {
        *request = tx->request;
        tx->request->tx = tx;
    } else {
        tx->waiter = &wait;
    }
    tx->ended = true;
    madi_lock(&conn->gate->tx_lock);
    if (atomic_load_explicit(&conn->packing, memory_order_relaxed)) {
        tx->next = NULL;
        *conn->deferred_tail = tx;
        conn->deferred_tail = &tx->next;
    } else {
        enqueue(tx);
        send_queue(conn);
    }
    madi_unlock(&conn->gate->tx_lock);
    return request ? MAD_OK : end_wait(tx, &wait);
}
