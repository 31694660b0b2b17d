/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing: flushing, ending, and whole messages in one call. */
#include "base/clock.h"
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/conn/tx_pool.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/link/polled.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/request.h"
#include "core/object/session.h"
#include "core/object/tx.h"
#include "core/progress/progress.h"
#include "core/send/policy.h"
#include "core/send/send.h"
#include "core/send/share.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

static inline mad_status_t gate_usable(madi_conn_t *conn)
{
    if (MADI_UNLIKELY(atomic_load_explicit(&conn->gate->state, memory_order_acquire) == MADI_GATE_DOWN))
        return conn->gate->status;
    return MAD_OK;
}

/* Put the message at the end of its connection's queue.  Under tx_lock. */
static void tx_enqueue(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    if (tx->queued)
        return;
    tx->queued = true;
    tx->began = madi_trace_now();
    madi_conn_slow(conn);
    tx->base.plain = MADI_PLAIN_NONE;
    tx->seq = (uint32_t)conn->tx_seq++;
    tx->next = NULL;
    *conn->queue_tail = tx;
    conn->queue_tail = &tx->next;
}

/* Queue the one-call messages that were deferred while another message was being packed, behind that message. */
static void tx_enqueue_deferred(madi_conn_t *conn)
{
    madi_tx_t *tx = conn->deferred, *next;
    conn->has_deferred = false;
    atomic_fetch_sub_explicit(&conn->waiting, 1, memory_order_relaxed);
    conn->deferred = NULL;
    conn->deferred_tail = &conn->deferred;
    for (; tx; tx = next) {
        next = tx->next;
        tx_enqueue(tx);
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

mad_status_t mad_message_flush(mad_message_t *message)
{
    madi_tx_t *tx = (madi_tx_t *)message;
    mad_status_t status = madi_message_status(message);
    if (!message->session || !tx->conn || status)
        return message->session ? status : MAD_ERR_NOMEM;
    madi_tx_lock(tx);
    status = madi_tx_close_run(tx);
    madi_tx_unlock(tx);
    if (status) {
        madi_message_fail(message, status);
        return status;
    }
    tx->flushed = true;
    madi_lock(&tx->conn->gate->tx_lock);
    if (gate_usable(tx->conn)) {
        status = tx->conn->gate->status;
        madi_message_fail(message, status);
    } else {
        tx_enqueue(tx);
        send_queue(tx->conn);
    }
    madi_unlock(&tx->conn->gate->tx_lock);
    return status;
}

static MADI_COLD bool send_undo(madi_conn_t *conn, uint64_t cost)
{
    conn->tx_seq--;
    conn->fast_credits += cost;
    return false;
}

/* Send a plain message that is longer than a short packet. */
static __attribute__((noinline)) bool send_long(madi_conn_t *conn, madi_tx_t *tx)
{
    struct iovec vec = {tx->small, tx->stage_len};
    return conn->link->driver->send(conn->link, &vec, 1, tx->stage_len, NULL) == MADI_SENT;
}

/* Write the header of a plain message.  Under tx_lock. */
static inline void plain_header_fill(const madi_conn_t *conn, madi_tx_t *tx, size_t total, uint64_t cost)
{
    uint64_t head[2] = {conn->hdr_template | (uint64_t)(total - sizeof(madi_wire_hdr_t)) << 32,
                        (uint32_t)conn->tx_seq | cost << 32};
    /* the compiler's builtin, for the reason given at madi_copy (base/base.h) */
    __builtin_memcpy(tx->small, head, sizeof head);
}

/* Send a plain message at once, if no message is queued before it and there is enough credit.  Under tx_lock. */
static inline bool send_at_once(madi_conn_t *conn, madi_tx_t *tx)
{
    size_t total = tx->stage_len;
    uint64_t cost = madi_wire_cost(total);
    bool sent;

    if (MADI_UNLIKELY(cost > conn->fast_credits))
        return false;
    plain_header_fill(conn, tx, total, cost);
    conn->fast_credits -= cost;
    conn->tx_seq++;
    sent = MADI_LIKELY(total <= MADI_PACKET_SHORT) ? conn->send_short(conn->link, tx->small, total) : send_long(conn, tx);
    return MADI_LIKELY(sent) || send_undo(conn, madi_wire_cost(tx->stage_len));
}

static MADI_COLD void release_waiting(madi_conn_t *conn)
{
    if (conn->has_deferred) {
        tx_enqueue_deferred(conn);
        send_queue(conn);
    }
    marceli_waiters_wake_one(&conn->packers);
}

/* Like madi_packing_release, but inline. */
static inline void packing_release(madi_conn_t *conn)
{
    atomic_store_explicit(&conn->packing, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* the sleeper's membarrier is the fence of both sides */
    if (MADI_UNLIKELY(atomic_load_explicit(&conn->waiting, memory_order_relaxed)))
        release_waiting(conn);
}

void madi_packing_release(madi_conn_t *conn)
{
    packing_release(conn);
}

static mad_status_t packing_end_broken(mad_message_t *message)
{
    mad_status_t status = madi_message_status(message);
    if (message->session)
        madi_tx_free((madi_tx_t *)message);
    return status;
}

/* End a message that failed in this process before anything was sent: it is dropped. */
static mad_status_t packing_end_failed(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    mad_status_t status = madi_message_status(&tx->base);
    madi_lock(&conn->gate->tx_lock);
    conn->spare = NULL;
    packing_release(conn);
    madi_unlock(&conn->gate->tx_lock);
    madi_tx_free(tx);
    return status;
}

/* True if the message has one long block, and nothing else is in flight to the peer.  On some links a peer that waits for
 * the block then reads it, so that the sender may compute.  With several blocks the sender has time to move its half, and
 * both halves together are faster. */
static bool tx_is_fetchable(const madi_tx_t *tx)
{
    const madi_conn_t *conn = tx->conn;
    const madi_gate_t *gate = conn->gate;
    int n = 0;
    if (atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) != MADI_GATE_UP || !gate->link->direct ||
        conn->queue || !madi_rdv_none(gate))
        return false;
    for (uint32_t i = 0; i < tx->n_pieces; i++) {
        const madi_piece_t *piece = &tx->pieces[i];
        bool is_long = !piece->run && MADI_WIRE_DESC_LEN(piece->desc) >= gate->link->adapter->caps.rdv_min;
        if (is_long && !piece->base)
            return false;
        n += is_long;
    }
    return n == 1;
}

/* Decide whether the peer may read or share the long block.  Under tx_lock, before anything has left.  A sender that relies
 * on the progress thread computes meanwhile, so its part of a shared block would come late. */
static void tx_decide_fetch(madi_tx_t *tx)
{
    bool alone = tx->request && tx_is_fetchable(tx);
    tx->sender_polls =
        alone && !marceli_progress_is_required() && madi_share_begun(&tx->base.session->api.habit, madi_now());
    tx->may_be_read = alone && !tx->sender_polls;
    if (tx->may_be_read)
        madi_request_by_peer(tx->request);
}

/* End a queued message: its completion notifies wait or request.  Under tx_lock. */
static void end_queued(madi_tx_t *tx, madi_waitable_t *wait, mad_request_t *request)
{
    madi_conn_t *conn = tx->conn;
    tx->wait = wait;
    tx->request = request;
    if (request)
        request->tx = tx;
    tx->ended = true;
    tx_decide_fetch(tx);
    madi_tx_release_held(tx);
    conn->spare = NULL;
    tx_enqueue(tx);
    send_queue(conn);
    packing_release(conn);
}

static bool wait_is_done(void *arg)
{
    return madi_done(arg);
}

/* Return the number of bytes that are sent from the program's memory: most of what is left to be sent. */
static uint64_t bytes_not_staged(const madi_tx_t *tx)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tx->n_pieces; i++)
        sum += tx->pieces[i].run ? 0 : MADI_WIRE_DESC_LEN(tx->pieces[i].desc);
    return sum;
}

/* Poll a limited number of times, so that the usual short wait needs no place among the waiting threads. */
static void end_poll(mad_session_t *session, madi_waitable_t *wait)
{
    for (int i = session->spins; i > 0 && !madi_done(wait); i--) {
        madi_adapter_t *hit;
        /* another thread polls for all, or other threads want to run on this worker; or calls are due, which the wait runs */
        if (marceli_is_led() || marceli_others_ready() || atomic_load_explicit(&session->has_calls, memory_order_relaxed))
            return;
        hit = madi_poll_hit(session);
        if (!hit && !atomic_load_explicit(&session->has_work, memory_order_relaxed))
            continue;
        madi_lock(&session->lock);
        madi_progress_after(session, hit ? madi_poll_hit_adapter(session, hit, 1) : 0);
        madi_unlock(&session->lock);
    }
}

/* Keep a completed message's structure for the connection's next message, unless one is being packed.  Under tx_lock. */
static void tx_give_back(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    bool kept = false;
    if (!atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire)) {
        kept = !conn->spare;
        if (kept) {
            madi_tx_renew(tx);
            conn->spare = tx;
        }
        packing_release(conn);
    }
    if (!kept)
        madi_tx_free(tx);
}

static mad_status_t end_wait(madi_tx_t *tx, madi_waitable_t *wait)
{
    madi_gate_t *gate = tx->conn->gate;
    mad_status_t status;
    end_poll(tx->base.session, wait);
    wait->waiter->expected = madi_path_wait_ns(bytes_not_staged(tx));
    marceli_wait(wait->waiter, wait_is_done, wait, INT64_MAX);
    status = madi_message_status(&tx->base);
    /* the completing thread uses tx until it releases the lock */
    madi_lock(&gate->tx_lock);
    tx_give_back(tx);
    madi_unlock(&gate->tx_lock);
    return status;
}

/* Make pieces of the staged bytes, and read LATER blocks. */
static void close_pieces(madi_tx_t *tx)
{
    madi_tx_lock(tx);
    if (madi_tx_close_run(tx) || madi_tx_settle(tx))
        madi_message_fail(&tx->base, MAD_ERR_NOMEM);
    madi_tx_unlock(tx);
}

/* True if the message failed in this process before anything was sent.  In that case nothing is sent. */
static bool failed_before_send(madi_tx_t *tx)
{
    mad_status_t status = madi_message_status(&tx->base);
    return status && !tx->flushed && status != MAD_ERR_MISMATCH;
}

/* True if a block of this length goes into its message's packet, whatever else is under way. */
static inline bool goes_inside(size_t len, const madi_caps_t *caps)
{
    madi_path_limits_t limits = {caps->rdv_min, caps->direct_min, caps->answer_min};
    return madi_path_is_packet(len, &limits);
}

/* True unless the last block is so long that it is probably announced: then the message is not tried as one packet. */
static bool may_be_whole(const madi_tx_t *tx)
{
    const madi_conn_t *conn = tx->conn;
    const madi_piece_t *last = tx->n_pieces ? &tx->pieces[tx->n_pieces - 1] : NULL;
    return conn->fast_credits &&
           (!last || last->run || goes_inside(MADI_WIRE_DESC_LEN(last->desc), &conn->link->adapter->caps));
}

static MADI_COLD mad_status_t end_slow(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    marceli_waiter_t waiter;
    madi_waitable_t wait = {.waiter = &waiter};

    if (!tx->base.session || !conn)
        return packing_end_broken(&tx->base);
    marceli_waiter_init(&waiter);
    close_pieces(tx);
    if (failed_before_send(tx))
        return packing_end_failed(tx);
    madi_lock(&conn->gate->tx_lock);
    if (!tx->queued && (madi_tx_send_begun(tx) || (may_be_whole(tx) && madi_tx_send_whole(tx)))) {
        if (!madi_cont_is_busy(tx)) {
            madi_tx_reset_pieces(tx);
            packing_release(conn);
            madi_unlock(&conn->gate->tx_lock);
            return MAD_OK;
        }
        tx->wait = &wait;
        conn->spare = NULL;
        packing_release(conn);
    } else {
        end_queued(tx, &wait, NULL);
    }
    madi_unlock(&conn->gate->tx_lock);
    return end_wait(tx, &wait);
}

/* Send a plain message at once, and release the connection.  If the message cannot leave at once, change nothing, and return
 * false. */
static inline __attribute__((always_inline)) bool end_plain(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    bool sent;
    madi_lock(&conn->gate->tx_lock);
    sent = send_at_once(conn, tx);
    if (MADI_LIKELY(sent)) {
        /* only this field is reset: the others still have their values from before packing */
        tx->stage_len = sizeof(madi_wire_hdr_t);
        packing_release(conn);
    }
    madi_unlock(&conn->gate->tx_lock);
    return sent;
}

/* True if a message with a tail goes into one packet, whatever else is under way. */
static inline bool tail_fits(const madi_tx_t *tx, const madi_caps_t *caps)
{
    size_t len = tx->tail.iov_len;
    return goes_inside(len, caps) && !madi_cont_applies(caps, len) && tx->stage_len + len <= caps->packet_max;
}

/* Like end_plain, but the bytes of the last block (the tail) are sent from the program's memory. */
static __attribute__((noinline)) bool end_tailed(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    struct iovec vec[2] = {{tx->small, tx->stage_len}, tx->tail};
    size_t total = tx->stage_len + tx->tail.iov_len;
    uint64_t cost = madi_wire_cost(total);
    bool sent = false;
    madi_lock(&conn->gate->tx_lock);
    if (MADI_LIKELY(cost <= conn->fast_credits) && tail_fits(tx, &conn->link->adapter->caps)) {
        plain_header_fill(conn, tx, total, cost);
        sent = conn->link->driver->send(conn->link, vec, 2, total, NULL) == MADI_SENT;
    }
    if (MADI_LIKELY(sent)) {
        conn->fast_credits -= cost;
        conn->tx_seq++;
        tx->stage_len = sizeof(madi_wire_hdr_t);
        tx->base.plain = MADI_PLAIN_STAGED;
        packing_release(conn);
    }
    madi_unlock(&conn->gate->tx_lock);
    return sent;
}

/* Send a plain message at once, with or without a tail.  If the message cannot leave at once, do nothing, and return
 * false. */
static inline bool end_short(mad_message_t *message)
{
    if (MADI_LIKELY(message->plain == MADI_PLAIN_STAGED))
        return end_plain((madi_tx_t *)message);
    return message->plain == MADI_PLAIN_TAILED && end_tailed((madi_tx_t *)message);
}

mad_status_t mad_end_packing(mad_message_t *message)
{
    if (MADI_LIKELY(end_short(message)))
        return MAD_OK;
    return end_slow((madi_tx_t *)message);
}

/* Send a message at once, if it fits into one packet, and release the connection.  Otherwise do nothing, and return
 * false. */
static bool end_in_one_packet(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    bool sent;
    madi_lock(&conn->gate->tx_lock);
    sent = !tx->queued && madi_tx_send_whole(tx);
    if (sent) {
        madi_tx_reset_pieces(tx);
        packing_release(conn);
    }
    madi_unlock(&conn->gate->tx_lock);
    return sent;
}

/* End a message without the request, for which there is no memory.  The message is dropped; if a part of it was sent, the
 * rest must be sent too. */
static mad_status_t end_without_request(mad_message_t *message)
{
    mad_status_t status;
    madi_message_fail(message, MAD_ERR_NOMEM);
    status = mad_end_packing(message);
    return status ? status : MAD_ERR_NOMEM;
}

static __attribute__((noinline)) mad_status_t end_by_request(mad_message_t *message, mad_request_t **request)
{
    madi_tx_t *tx = (madi_tx_t *)message;
    madi_conn_t *conn = tx->conn;
    mad_session_t *session = message->session;
    bool good, instant = session && madi_request_may_be_instant(session);
    mad_request_t *r = session && !instant ? madi_request_new(session, true) : NULL;

    if (!r && !instant)
        return end_without_request(message);
    if (conn)
        close_pieces(tx);
    good = conn && !failed_before_send(tx);
    if (good && end_in_one_packet(tx)) {
        if (r)
            madi_request_complete(r, MAD_OK);
        *request = r ? r : madi_request_instant(session);
        return MAD_OK;
    }
    if (!r && !(r = madi_request_new(session, true)))
        return end_without_request(message);
    if (good) {
        madi_lock(&conn->gate->tx_lock);
        end_queued(tx, NULL, r);
        madi_unlock(&conn->gate->tx_lock);
    } else {
        madi_request_complete(r, conn ? packing_end_failed(tx) : packing_end_broken(message));
    }
    madi_request_left(r);
    *request = r;
    return MAD_OK;
}

mad_status_t mad_end_packing_request(mad_message_t *message, mad_request_t **request)
{
    mad_session_t *session = message->session; /* read first, since the message may be reused as soon as it is sent */
    if (MADI_LIKELY(message->plain) && madi_request_may_be_instant(session) && MADI_LIKELY(end_short(message))) {
        *request = madi_request_instant(session);
        return MAD_OK;
    }
    return end_by_request(message, request);
}

/* ---- One call ------------------------------------------------------------------------------------------------- */

static mad_status_t blocks_add(madi_tx_t *tx, const mad_block_t *blocks, int n)
{
    mad_status_t status = MAD_OK;
    for (int i = 0; i < n && !status; i++)
        status = madi_tx_add(tx, blocks[i].base, blocks[i].len,
                             blocks[i].send_mode == MAD_SEND_LATER ? MAD_SEND_SAFER : blocks[i].send_mode,
                             blocks[i].receive_mode);
    return status ? status : madi_tx_close_run(tx);
}

/* Queue an ended one-call message; defer it while another message is being packed on the connection. */
static void send_or_defer(madi_tx_t *tx)
{
    madi_conn_t *conn = tx->conn;
    madi_lock(&conn->gate->tx_lock);
    if (atomic_load_explicit(&conn->packing, memory_order_relaxed)) {
        tx->next = NULL;
        *conn->deferred_tail = tx;
        conn->deferred_tail = &tx->next;
        if (!conn->has_deferred)
            atomic_fetch_add_explicit(&conn->waiting, 1, memory_order_relaxed);
        conn->has_deferred = true;
    } else {
        tx_decide_fetch(tx);
        tx_enqueue(tx);
        send_queue(conn);
    }
    madi_unlock(&conn->gate->tx_lock);
}

static __attribute__((noinline)) mad_status_t send_blocks(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks,
                                                          int n, mad_request_t **request)
{
    mad_status_t status = MAD_OK;
    madi_conn_t *conn = madi_conn_get(channel, peer, &status);
    marceli_waiter_t waiter;
    madi_waitable_t wait = {.waiter = &waiter};
    madi_tx_t *tx;

    if (n < 0 || (n && !blocks))
        status = MAD_ERR_INVAL;
    if (status)
        return status;
    tx = madi_tx_new(channel->session, conn);
    if (!tx)
        return MAD_ERR_NOMEM;
    status = blocks_add(tx, blocks, n);
    if (!status && request && !(tx->request = madi_request_new(channel->session, true)))
        status = MAD_ERR_NOMEM;
    if (status) {
        madi_tx_free(tx);
        return status;
    }
    if (request) {
        *request = tx->request;
        tx->request->tx = tx;
    } else {
        marceli_waiter_init(&waiter);
        tx->wait = &wait;
    }
    tx->ended = true;
    send_or_defer(tx);
    if (!request)
        return end_wait(tx, &wait);
    madi_request_left(*request);
    return MAD_OK;
}

mad_status_t mad_message_send(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                              mad_request_t **request)
{
    madi_conn_t *conn = madi_conn_peek(channel, peer);
    if (MADI_UNLIKELY(!conn || n < 0 || (n && !blocks) || (request && !madi_request_may_be_instant(channel->session)) ||
                      !madi_blocks_send_now(conn, blocks, n)))
        return send_blocks(channel, peer, blocks, n, request);
    if (request)
        *request = madi_request_instant(channel->session);
    return MAD_OK;
}
