/* SPDX-License-Identifier: BSD-3-Clause */
/* Packing: mad_begin_packing, and the blocks of a message. */
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/conn/tx_pool.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/object/message.h"
#include "core/object/tx.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Return a message that holds the status: packing could not begin, and the program ends the message as usual. */
static mad_message_t *tx_broken(mad_session_t *session, mad_status_t status)
{
    static madi_tx_t no_memory = {.base = {.kind = MADI_MESSAGE_TX, .status = MAD_ERR_NOMEM}};
    madi_tx_t *tx = madi_tx_new(session, NULL);
    if (!tx)
        return &no_memory.base;
    madi_message_fail(&tx->base, status);
    return &tx->base;
}

static bool packing_is_free(void *arg)
{
    madi_conn_t *conn = arg;
    return !atomic_load_explicit(&conn->packing, memory_order_relaxed);
}

static MADI_COLD mad_message_t *begin_new(madi_conn_t *conn)
{
    madi_tx_t *tx = madi_tx_new(conn->channel->session, conn);
    conn->spare = tx;
    if (tx)
        return &tx->base;
    madi_lock(&conn->gate->tx_lock);
    madi_packing_release(conn);
    madi_unlock(&conn->gate->tx_lock);
    return tx_broken(conn->channel->session, MAD_ERR_NOMEM);
}

static inline mad_message_t *begin_held(madi_conn_t *conn)
{
    madi_tx_t *tx = conn->spare;
    if (MADI_UNLIKELY(!tx))
        return begin_new(conn);
    return &tx->base;
}

/* Wait until no other message is packed on this connection.  Each release wakes the thread that has waited longest.  If
 * another thread begins a message first, the woken thread waits again. */
static MADI_COLD mad_message_t *begin_wait(madi_conn_t *conn)
{
    marceli_waiter_t w;
    marceli_waiter_init(&w);
    madi_lock(&conn->gate->tx_lock);
    marceli_waiters_add(&conn->packers, &w);
    atomic_fetch_add_explicit(&conn->waiting, 1, memory_order_relaxed);
    madi_unlock(&conn->gate->tx_lock);
    marceli_barrier(); /* pairs with packing_release */
    while (atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire))
        marceli_wait(&w, packing_is_free, conn, INT64_MAX);
    madi_lock(&conn->gate->tx_lock);
    marceli_waiters_del(&w);
    atomic_fetch_sub_explicit(&conn->waiting, 1, memory_order_relaxed);
    madi_unlock(&conn->gate->tx_lock);
    return begin_held(conn);
}

static MADI_COLD mad_message_t *begin_first(mad_channel_t *channel, mad_peer_t peer)
{
    mad_status_t status = MAD_OK;
    madi_conn_t *conn = madi_conn_get(channel, peer, &status);
    if (!conn)
        return tx_broken(channel->session, status);
    return atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire) ? begin_wait(conn) : begin_held(conn);
}

mad_message_t *mad_begin_packing(mad_channel_t *channel, mad_peer_t peer)
{
    madi_conn_t *conn = madi_conn_peek(channel, peer);
    if (MADI_UNLIKELY(!conn))
        return begin_first(channel, peer);
    if (MADI_UNLIKELY(atomic_exchange_explicit(&conn->packing, 1, memory_order_acquire)))
        return begin_wait(conn);
    return begin_held(conn);
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
    tx->base.plain = MADI_PLAIN_NONE; /* the blocks of a plain message lie in `small`, so they have to be moved */
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

void madi_tx_lock(madi_tx_t *tx)
{
    if (MADI_UNLIKELY(tx->flushed))
        madi_lock(&tx->conn->gate->tx_lock);
}

void madi_tx_unlock(madi_tx_t *tx)
{
    if (MADI_UNLIKELY(tx->flushed))
        madi_unlock(&tx->conn->gate->tx_lock);
}

/* Turn the tail of a plain message into a piece.  The message then takes the general path. */
static MADI_COLD mad_status_t tail_settle(madi_tx_t *tx)
{
    madi_piece_t *piece;
    tx->base.plain = MADI_PLAIN_NONE;
    tx->stage_len -= MADI_WIRE_DESC_SIZE;
    piece = madi_tx_close_run(tx) ? NULL : piece_new(tx);
    if (!piece)
        return MAD_ERR_NOMEM;
    memcpy(&piece->desc, tx->small + tx->stage_len, MADI_WIRE_DESC_SIZE);
    piece->base = tx->tail.iov_base;
    return MAD_OK;
}

mad_status_t madi_tx_close_run(madi_tx_t *tx)
{
    madi_piece_t *piece;
    if (tx->base.plain == MADI_PLAIN_TAILED)
        return tail_settle(tx);
    tx->base.plain = MADI_PLAIN_NONE;
    if (tx->run_start == tx->stage_len)
        return MAD_OK;
    piece = piece_new(tx);
    if (!piece)
        return MAD_ERR_NOMEM;
    piece->run = true;
    piece->off = tx->run_start;
    piece->len = tx->stage_len - tx->run_start;
    tx->run_start = tx->stage_len;
    return MAD_OK;
}

/* Reserve room for a small block in the stage buffer, and write its descriptor.  Return the place for the block's bytes;
 * NULL if out of memory. */
static unsigned char *stage_block(madi_tx_t *tx, uint64_t desc)
{
    size_t len = MADI_WIRE_DESC_LEN(desc);
    unsigned char *at;
    if (tx->stage_len - tx->run_start + len + MADI_WIRE_DESC_SIZE > MADI_STAGE && madi_tx_close_run(tx))
        return NULL;
    if (stage_room(tx, len + MADI_WIRE_DESC_SIZE))
        return NULL;
    at = tx->stage + tx->stage_len;
    memcpy(at, &desc, MADI_WIRE_DESC_SIZE);
    tx->stage_len += (uint32_t)len + MADI_WIRE_DESC_SIZE;
    return at + MADI_WIRE_DESC_SIZE;
}

/* Check the arguments of a block.  Return MAD_OK, or the status of the message, which has failed. */
static mad_status_t block_begin(madi_tx_t *tx, bool legal, mad_send_mode_t smode, mad_receive_mode_t rmode)
{
    mad_status_t status = madi_message_status(&tx->base);
    if (status && status != MAD_ERR_MISMATCH)
        return status;
    if (!legal || (unsigned)smode > 2 || (unsigned)rmode > 1) {
        madi_message_fail(&tx->base, MAD_ERR_INVAL);
        return MAD_ERR_INVAL;
    }
    if (tx->base.plain == MADI_PLAIN_TAILED && tail_settle(tx)) {
        madi_message_fail(&tx->base, MAD_ERR_NOMEM);
        return MAD_ERR_NOMEM;
    }
    return MAD_OK;
}

/* True if it is cheaper to let the driver gather the segments than to copy them here. */
static bool is_worth_gathering(int n, size_t len)
{
    return n <= MADI_SEGMENTS_MAX && len / (size_t)n >= MADI_SEGMENT_MIN;
}

/* Add a segmented block that is LATER, or too long for the stage buffer. */
static mad_status_t add_segments(madi_tx_t *tx, const struct iovec *segs, int n, uint64_t desc, mad_send_mode_t smode)
{
    size_t len = MADI_WIRE_DESC_LEN(desc);
    bool keep = smode == MAD_SEND_LATER || (smode == MAD_SEND_CHEAPER && is_worth_gathering(n, len));
    madi_piece_t *piece;
    void *own = malloc(keep ? (size_t)n * sizeof *segs : len);

    if (!own)
        return MAD_ERR_NOMEM;
    if (keep)
        memcpy(own, segs, (size_t)n * sizeof *segs);
    else
        madi_copy_pieces(own, segs, n);
    madi_tx_lock(tx);
    piece = madi_tx_close_run(tx) ? NULL : piece_new(tx);
    if (piece) {
        piece->desc = desc;
        piece->later = smode == MAD_SEND_LATER;
        piece->segs = keep ? own : NULL;
        piece->n_segs = keep ? n : 0;
        piece->base = piece->copy = keep ? NULL : own;
    }
    madi_tx_unlock(tx);
    if (!piece)
        free(own);
    return piece ? MAD_OK : MAD_ERR_NOMEM;
}

static mad_status_t add_block(madi_tx_t *tx, const void *buf, uint64_t desc, mad_send_mode_t smode)
{
    size_t len = MADI_WIRE_DESC_LEN(desc);
    madi_piece_t *piece;
    void *own = smode == MAD_SEND_SAFER ? malloc(len) : NULL;

    if (smode == MAD_SEND_SAFER && !own)
        return MAD_ERR_NOMEM;
    if (own)
        madi_copy_bulk(own, buf, len);
    madi_tx_lock(tx);
    piece = madi_tx_close_run(tx) ? NULL : piece_new(tx);
    if (piece) {
        piece->desc = desc;
        piece->base = own ? own : buf;
        piece->copy = own;
        piece->later = smode == MAD_SEND_LATER;
    }
    madi_tx_unlock(tx);
    if (!piece)
        free(own);
    return piece ? MAD_OK : MAD_ERR_NOMEM;
}

mad_status_t madi_tx_settle(madi_tx_t *tx)
{
    for (uint32_t i = 0; i < tx->n_pieces; i++) {
        madi_piece_t *piece = &tx->pieces[i];
        size_t len = MADI_WIRE_DESC_LEN(piece->desc);
        if (!piece->segs || piece->handle || is_worth_gathering(piece->n_segs, len))
            continue;
        piece->copy = malloc(len);
        if (!piece->copy)
            return MAD_ERR_NOMEM;
        madi_copy_pieces(piece->copy, piece->segs, piece->n_segs);
        piece->base = piece->copy;
        free(piece->segs);
        piece->segs = NULL;
    }
    return MAD_OK;
}

mad_status_t madi_tx_add(madi_tx_t *tx, const void *buf, size_t len, mad_send_mode_t smode, mad_receive_mode_t rmode)
{
    uint64_t desc = madi_wire_desc(len, MADI_WIRE_INLINE, rmode, smode);
    mad_status_t status = block_begin(tx, (buf || !len) && len <= MADI_WIRE_LEN_MAX, smode, rmode);
    unsigned char *at;

    if (status)
        return status;
    if (len <= MADI_COPY_MAX && (smode != MAD_SEND_LATER || !len)) {
        madi_tx_lock(tx);
        at = stage_block(tx, desc);
        if (!at)
            status = MAD_ERR_NOMEM;
        else if (len)
            memcpy(at, buf, len);
        madi_tx_unlock(tx);
    } else {
        status = add_block(tx, buf, desc, smode);
    }
    if (status)
        madi_message_fail(&tx->base, status);
    return status;
}

static bool modes_are_usual(mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    return !((unsigned)send_mode & ~2u) && (unsigned)receive_mode <= 1; /* SAFER or CHEAPER */
}

/* Copy a block behind the others of a plain message.  Return false if the message is not plain, or if the block must not be
 * copied. */
static inline __attribute__((always_inline)) bool pack_plain(madi_tx_t *tx, const void *buf, size_t len, size_t max,
                                                             mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    uint64_t desc = madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode);
    unsigned char *at = tx->small + tx->stage_len;

    if (MADI_UNLIKELY(tx->base.plain != MADI_PLAIN_STAGED || len > max ||
                      tx->stage_len + len + MADI_WIRE_DESC_SIZE > MADI_STAGE || !buf ||
                      !modes_are_usual(send_mode, receive_mode)))
        return false;
    memcpy(at, &desc, MADI_WIRE_DESC_SIZE);
    madi_copy(at + MADI_WIRE_DESC_SIZE, buf, len);
    tx->stage_len += (uint32_t)len + MADI_WIRE_DESC_SIZE;
    return true;
}

/* Add a block to a plain message by its address, behind the copied blocks.  Return false if the block has to be copied,
 * or if the message is not plain. */
static inline bool pack_tail(madi_tx_t *tx, const void *buf, size_t len, mad_send_mode_t send_mode,
                             mad_receive_mode_t receive_mode)
{
    uint64_t desc = madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode);
    if (tx->base.plain != MADI_PLAIN_STAGED || len < MADI_TAIL_MIN || len > MADI_TAIL_MAX || !buf ||
        send_mode != MAD_SEND_CHEAPER || (unsigned)receive_mode > 1 || tx->stage_len + MADI_WIRE_DESC_SIZE > MADI_STAGE)
        return false;
    memcpy(tx->small + tx->stage_len, &desc, MADI_WIRE_DESC_SIZE);
    tx->stage_len += MADI_WIRE_DESC_SIZE;
    tx->tail = (struct iovec){(void *)(uintptr_t)buf, len};
    tx->base.plain = MADI_PLAIN_TAILED;
    return true;
}

/* Copy the tail behind the other blocks, because another block follows; the message is then plain and has no tail.  A
 * tail that is too long to be copied stays where it is. */
static inline void tail_copy(madi_tx_t *tx)
{
    size_t len = tx->tail.iov_len;
    if (len > MADI_COPY_SHORT || tx->stage_len + len > MADI_STAGE)
        return;
    madi_copy(tx->small + tx->stage_len, tx->tail.iov_base, len);
    tx->stage_len += (uint32_t)len;
    tx->base.plain = MADI_PLAIN_STAGED;
}

/* Pack a block that is not small.  While the message is plain, blocks of medium length are copied, or referred to. */
static __attribute__((noinline)) mad_status_t pack_other(madi_tx_t *tx, const void *buf, size_t len,
                                                         mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    if (!tx->base.session)
        return MAD_ERR_NOMEM;
    if (tx->base.plain == MADI_PLAIN_TAILED)
        tail_copy(tx);
    if (pack_tail(tx, buf, len, send_mode, receive_mode) ||
        pack_plain(tx, buf, len, MADI_COPY_SHORT, send_mode, receive_mode))
        return MAD_OK;
    return madi_tx_add(tx, buf, len, send_mode, receive_mode);
}

mad_status_t mad_pack(mad_message_t *message, const void *buf, size_t len, mad_send_mode_t send_mode,
                      mad_receive_mode_t receive_mode)
{
    madi_tx_t *tx = (madi_tx_t *)message;
    if (MADI_LIKELY(pack_plain(tx, buf, len, MADI_COPY_INLINE, send_mode, receive_mode)))
        return MAD_OK;
    return pack_other(tx, buf, len, send_mode, receive_mode);
}

mad_status_t mad_pack_gather(mad_message_t *message, const struct iovec *pieces, int n, mad_send_mode_t send_mode,
                             mad_receive_mode_t receive_mode)
{
    madi_tx_t *tx = (madi_tx_t *)message;
    bool legal = n >= 0 && (pieces || !n);
    size_t len = 0;
    uint64_t desc;
    mad_status_t status;
    unsigned char *at;

    if (!message->session)
        return MAD_ERR_NOMEM;
    for (int i = 0; i < n && legal; i++) {
        legal = (pieces[i].iov_base || !pieces[i].iov_len) && pieces[i].iov_len <= MADI_WIRE_LEN_MAX - len;
        len += pieces[i].iov_len;
    }
    if (legal && n == 1)
        return mad_pack(message, pieces[0].iov_base, len, send_mode, receive_mode);
    status = block_begin(tx, legal, send_mode, receive_mode);
    if (status)
        return status;
    desc = madi_wire_desc(len, MADI_WIRE_INLINE, receive_mode, send_mode);
    if (len <= MADI_COPY_MAX && (send_mode != MAD_SEND_LATER || !len)) {
        madi_tx_lock(tx);
        at = stage_block(tx, desc);
        if (!at)
            status = MAD_ERR_NOMEM;
        else
            madi_copy_pieces(at, pieces, n);
        madi_tx_unlock(tx);
    } else {
        status = add_segments(tx, pieces, n, desc, send_mode);
    }
    if (status)
        madi_message_fail(message, status);
    return status;
}

struct iovec *madi_strided(mad_message_t *message, void *base, size_t len, size_t stride, size_t count)
{
    size_t end;
    bool valid = count <= INT32_MAX && !__builtin_mul_overflow(count, stride, &end);
    struct iovec *pieces = valid ? malloc((count ? count : 1) * sizeof *pieces) : NULL;
    if (!pieces)
        madi_message_fail(message, valid ? MAD_ERR_NOMEM : MAD_ERR_INVAL);
    for (size_t i = 0; pieces && i < count; i++)
        pieces[i] = (struct iovec){(char *)base + i * stride, len};
    return pieces;
}

mad_status_t mad_pack_strided(mad_message_t *message, const void *base, size_t len, size_t stride, size_t count,
                              mad_send_mode_t send_mode, mad_receive_mode_t receive_mode)
{
    struct iovec *pieces;
    mad_status_t status;
    if (count == 1 || (stride == len && (!len || count <= MADI_WIRE_LEN_MAX / len)))
        return mad_pack(message, base, len * count, send_mode, receive_mode);
    pieces = madi_strided(message, (void *)(uintptr_t)base, len, stride, count);
    if (!pieces)
        return madi_message_status(message);
    status = mad_pack_gather(message, pieces, (int)count, send_mode, receive_mode);
    free(pieces);
    return status;
}
