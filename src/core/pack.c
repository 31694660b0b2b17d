/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing: from mad_begin_packing to mad_end_packing. */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define HDR sizeof(madi_wire_hdr_t)

static madi_tx_t *tx_new(mad_session_t *session, madi_conn_t *conn)
{
    madi_tx_t *tx = malloc(sizeof *tx);
    if (!tx)
        return NULL;
    memset(tx, 0, offsetof(madi_tx_t, small));
    tx->base.kind = MADI_MESSAGE_TX;
    tx->base.session = session;
    tx->conn = conn;
    tx->stage = tx->small;
    tx->stage_cap = sizeof tx->small;
    tx->stage_len = tx->run_start = HDR;
    return tx;
}

/* Make a message that was sent in pieces usable again. */
static void tx_reset_pieces(madi_tx_t *tx)
{
    for (uint32_t i = 0; i < tx->n_pieces; i++)
        free(tx->pieces[i].own);
    tx->n_pieces = 0;
    tx->ended = false;
    if (tx->stage != tx->small)
        free(tx->stage);
    tx->stage = tx->small;
    tx->stage_cap = sizeof tx->small;
}

/* Make a message that was sent usable again. */
static inline void tx_reset(madi_tx_t *tx)
{
    tx->stage_len = tx->run_start = HDR;
    tx->n_blocks = 0;
}

/* A message that could not begin: it remembers why and is freed at its end. */
static mad_connection_t *tx_broken(mad_session_t *session, mad_status_t status)
{
    static mad_connection_t no_memory = {.kind = MADI_MESSAGE_TX, .status = MAD_ERR_NOMEM};
    madi_tx_t *tx = tx_new(session, NULL);
    if (!tx)
        return &no_memory;
    madi_message_fail(&tx->base, status);
    return &tx->base;
}

static bool packing_free(void *arg)
{
    madi_conn_t *conn = arg;
    return !atomic_load_explicit(&conn->packing, memory_order_relaxed);
}

static void packing_take_slow(madi_conn_t *conn)
{
    do
        madi_wait(conn->gate->session, packing_free, conn, INT64_MAX);
    while (atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire));
}

static inline mad_status_t gate_usable(madi_conn_t *conn)
{
    if (MADI_UNLIKELY(atomic_load_explicit(&conn->gate->state, memory_order_acquire) == MADI_GATE_DOWN))
        return conn->gate->status;
    return MAD_OK;
}

mad_connection_t *mad_begin_packing(mad_channel_t *channel, mad_peer_t peer)
{
    madi_conn_t *conn = madi_conn_peek(channel, peer);
    mad_status_t status = MAD_OK;
    madi_tx_t *tx;

    if (MADI_UNLIKELY(!conn)) {
        conn = madi_conn_get(channel, peer, &status);
        if (!conn)
            return tx_broken(channel->session, status);
    }
    if (MADI_UNLIKELY(atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire)))
        packing_take_slow(conn);
    tx = conn->spare;
    if (MADI_LIKELY(tx != NULL)) {
        conn->spare = NULL;
    } else {
        tx = tx_new(channel->session, conn);
        if (!tx) {
            atomic_store_explicit(&conn->packing, 0, memory_order_release);
            return tx_broken(channel->session, MAD_ERR_NOMEM);
        }
    }
    return &tx->base;
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

static mad_status_t stage_room(madi_tx_t *tx, size_t need)
{
    uint32_t cap = tx->stage_cap;
    unsigned char *p;
    if (tx->stage_len + need <= cap)
        return MAD_OK;
    while (cap < tx->stage_len + need)
        cap *= 2;
    p = realloc(tx->stage == tx->small ? NULL : tx->stage, cap);
    if (!p)
        return MAD_ERR_NOMEM;
    if (tx->stage == tx->small)
        memcpy(p, tx->small, tx->stage_len);
    tx->stage = p;
    tx->stage_cap = cap;
    return MAD_OK;
}

static madi_piece_t *piece_new(madi_tx_t *tx)
{
    if (tx->n_pieces == tx->cap_pieces) {
        uint32_t cap = tx->cap_pieces ? tx->cap_pieces * 2 : 8;
        madi_piece_t *p = realloc(tx->pieces, cap * sizeof *p);
        if (!p)
            return NULL;
        tx->pieces = p;
        tx->cap_pieces = cap;
    }
    memset(&tx->pieces[tx->n_pieces], 0, sizeof *tx->pieces);
    return &tx->pieces[tx->n_pieces++];
}

/* What was staged since the last piece becomes a piece. */
static mad_status_t run_close(madi_tx_t *tx)
{
    madi_piece_t *piece;
    if (tx->run_start == tx->stage_len)
        return MAD_OK;
    piece = piece_new(tx);
    if (!piece)
        return MAD_ERR_NOMEM;
    piece->off = tx->run_start;
    piece->len = tx->stage_len - tx->run_start;
    tx->run_start = tx->stage_len;
    return MAD_OK;
}

/* A block that is not copied into the stage. */
static mad_status_t add_block(madi_tx_t *tx, const void *buf, uint64_t desc, mad_send_mode_t smode, void *own)
{
    madi_piece_t *piece;
    if (run_close(tx) || !(piece = piece_new(tx)))
        return MAD_ERR_NOMEM;
    piece->base = own ? own : buf;
    piece->desc = desc;
    piece->own = own;
    piece->later = smode == MAD_SEND_LATER;
    return MAD_OK;
}

static mad_status_t pack_slow(madi_tx_t *tx, const void *buf, size_t len, mad_send_mode_t smode,
                              mad_receive_mode_t rmode)
{
    uint64_t desc = madi_wire_desc(len, MADI_WIRE_INLINE, rmode, smode);
    mad_status_t status = madi_message_status(&tx->base);
    void *own = NULL;

    if (status && status != MAD_ERR_MISMATCH)
        return status;
    if ((!buf && len) || len > MADI_WIRE_LEN_MAX || (unsigned)smode > 2 || (unsigned)rmode > 1) {
        madi_message_fail(&tx->base, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    tx->n_blocks++;
    if (len <= MADI_COPY_MAX && (smode != MAD_SEND_LATER || !len)) {
        if (tx->stage_len - tx->run_start + len + 8 > MADI_STAGE)
            status = run_close(tx);
        if (!status)
            status = stage_room(tx, len + 8);
        if (!status) {
            memcpy(tx->stage + tx->stage_len, &desc, 8);
            if (len)
                memcpy(tx->stage + tx->stage_len + 8, buf, len);
            tx->stage_len += (uint32_t)len + 8;
        }
    } else {
        if (smode == MAD_SEND_SAFER) {
            own = malloc(len);
            status = own ? MAD_OK : MAD_ERR_NOMEM;
            if (own)
                memcpy(own, buf, len);
        }
        if (!status && (status = add_block(tx, buf, desc, smode, own)))
            free(own);
    }
    if (status)
        madi_message_fail(&tx->base, status);
    return status;
}

mad_status_t mad_pack(mad_connection_t *cnx, const void *buf, size_t len, mad_send_mode_t send_mode,
                      mad_receive_mode_t receive_mode)
{
    madi_tx_t *tx = (madi_tx_t *)cnx;
    uint64_t desc;

    if (MADI_UNLIKELY(len > MADI_COPY_MAX || send_mode == MAD_SEND_LATER || tx->stage_len + len + 8 > MADI_STAGE ||
                      (unsigned)send_mode > 2 || (unsigned)receive_mode > 1 || !buf || madi_message_status(cnx)))
        return cnx->session ? pack_slow(tx, buf, len, send_mode, receive_mode) : MAD_ERR_NOMEM;
    if (MADI_UNLIKELY(tx->stage != tx->small))
        return pack_slow(tx, buf, len, send_mode, receive_mode);
    desc = madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode);
    memcpy(tx->small + tx->stage_len, &desc, 8);
    madi_copy(tx->small + tx->stage_len + 8, buf, len);
    tx->stage_len += (uint32_t)len + 8;
    tx->n_blocks++;
    return MAD_OK;
}

/* Pieces in user memory become one block: gathered into memory of the message. */
static mad_status_t pack_gathered(madi_tx_t *tx, const struct iovec *pieces, int n, size_t len, mad_send_mode_t smode,
                                  mad_receive_mode_t rmode)
{
    unsigned char *own = malloc(len ? len : 1), *p = own;
    mad_status_t status = madi_message_status(&tx->base);
    if (!own)
        status = MAD_ERR_NOMEM;
    if (status) {
        free(own);
        return status;
    }
    for (int i = 0; i < n; p += pieces[i++].iov_len)
        memcpy(p, pieces[i].iov_base, pieces[i].iov_len);
    tx->n_blocks++;
    status = add_block(tx, NULL, madi_wire_desc(len, MADI_WIRE_INLINE, rmode, smode), MAD_SEND_SAFER, own);
    if (status)
        free(own);
    return status;
}

mad_status_t mad_pack_gather(mad_connection_t *cnx, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                             mad_receive_mode_t receive_mode)
{
    size_t len = 0;
    mad_status_t status = MAD_OK;
    if (!cnx->session)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < n; i++) {
        if (!pieces[i].iov_base && pieces[i].iov_len)
            status = MAD_ERR_INVAL;
        len += pieces[i].iov_len;
    }
    if (n < 0 || (n && !pieces))
        status = MAD_ERR_INVAL;
    if (n == 1 && !status)
        return mad_pack(cnx, pieces[0].iov_base, len, send_mode, receive_mode);
    if (!status)
        status = len ? pack_gathered((madi_tx_t *)cnx, pieces, n, len, send_mode, receive_mode)
                     : pack_slow((madi_tx_t *)cnx, NULL, 0, send_mode, receive_mode);
    if (status)
        madi_message_fail(cnx, status);
    return status;
}

mad_status_t mad_pack_strided(mad_connection_t *cnx, const void *base, size_t len, size_t stride, size_t count,
                              mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    struct iovec *pieces;
    mad_status_t status;
    if (count == 1 || stride == len)
        return mad_pack(cnx, base, len * count, send_mode, receive_mode);
    pieces = malloc((count ? count : 1) * sizeof *pieces);
    if (!pieces || count > INT32_MAX) {
        free(pieces);
        madi_message_fail(cnx, pieces ? MAD_ERR_INVAL : MAD_ERR_NOMEM);
        return pieces ? MAD_ERR_INVAL : MAD_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        pieces[i].iov_base = (char *)base + i * stride;
        pieces[i].iov_len = len;
    }
    status = mad_pack_gather(cnx, pieces, (int)count, send_mode, receive_mode);
    free(pieces);
    return status;
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

/* Put the message at the end of its connection's queue.  Under tx_lock. */
static void enqueue(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    if (tx->queued)
        return;
    tx->queued = true;
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
    status = run_close(tx);
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

/* A message that was one run of blocks and has left at once.  Under tx_lock. */
static inline bool send_at_once(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_gate_t *gate = conn->gate;
    madi_wire_hdr_t *hdr = (madi_wire_hdr_t *)tx->small;
    struct iovec vec = {tx->small, tx->stage_len};
    uint32_t cost = (tx->stage_len + MADI_LINE - 1) & ~(uint32_t)(MADI_LINE - 1);

    if (MADI_UNLIKELY(!madi_conn_idle(conn) ||
                      conn->credit_used + cost > atomic_load_explicit(&conn->credit_limit, memory_order_relaxed)))
        return false;
    hdr->type = MADI_WIRE_MSG;
    hdr->flags = MADI_WIRE_FIRST | MADI_WIRE_LAST | (tx->base.session->check_modes ? MADI_WIRE_MODES : 0);
    hdr->channel = conn->number;
    hdr->length = tx->stage_len - (uint32_t)HDR;
    hdr->seq = conn->tx_seq;
    hdr->aux = cost;
    if (gate->link->driver->send(gate->link, &vec, 1, tx->stage_len, NULL) != MADI_SENT)
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

/* End; true: the message is complete and freed or reset. Else whoever completes it tells waiter or request. */
static bool end_slow(madi_tx_t *tx, madi_waitable_t *waiter, mad_request_t *request)
{
    madi_conn_t *conn = tx->conn;
    if (run_close(tx))
        madi_message_fail(&tx->base, MAD_ERR_NOMEM);
    tx->waiter = waiter;
    tx->request = request;
    if (request)
        request->tx = tx;
    tx->ended = true;
    enqueue(tx);
    send_queue(conn);
    packing_release(conn);
    return false;
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

mad_status_t mad_end_packing(mad_connection_t *cnx)
{
    madi_tx_t *tx = (madi_tx_t *)cnx;
    madi_conn_t *conn = tx->conn;
    madi_waitable_t wait = {0};

    if (MADI_UNLIKELY(!cnx->session || !conn))
        return end_broken(cnx);
    if (MADI_UNLIKELY(madi_message_status(cnx) && !tx->queued && madi_message_status(cnx) != MAD_ERR_MISMATCH))
        return end_failed(tx);
    madi_lock(&conn->gate->tx_lock);
    if (MADI_LIKELY(!tx->n_pieces && tx->stage == tx->small && !tx->queued) && send_at_once(tx)) {
        tx_reset(tx);
        conn->spare = tx;
        packing_release(conn);
        madi_unlock(&conn->gate->tx_lock);
        return MAD_OK;
    }
    if (!tx->queued && !run_close(tx) && madi_tx_send_whole(tx)) {
        tx_reset_pieces(tx);
        tx_reset(tx);
        conn->spare = tx;
        packing_release(conn);
        madi_unlock(&conn->gate->tx_lock);
        return MAD_OK;
    }
    end_slow(tx, &wait, NULL);
    madi_unlock(&conn->gate->tx_lock);
    return end_wait(tx, &wait);
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
    if (!conn || (madi_message_status(cnx) && !tx->queued)) {
        status = conn ? end_failed(tx) : end_broken(cnx);
        madi_request_complete(r, status);
    } else {
        madi_lock(&conn->gate->tx_lock);
        end_slow(tx, NULL, r);
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
    tx = tx_new(channel->session, conn);
    if (!tx)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < n && !status; i++)
        status = pack_slow(tx, blocks[i].base, blocks[i].len,
                           blocks[i].send_mode == MAD_SEND_LATER ? MAD_SEND_SAFER : blocks[i].send_mode,
                           blocks[i].receive_mode);
    if (!status)
        status = run_close(tx);
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
