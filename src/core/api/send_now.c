/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that leave at once, or not at all: directly from the program's pieces into the link. */
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/object/tx.h"
#include "core/wire/wire.h"

#include <madeleine/runtime.h>
#include <string.h>

#define PIECES (MADI_GATHER - 1) /* maximum number of pieces of a packet, without the header */

/* The packet's header and the block's descriptor, which come before the pieces; and room for a short packet's body. */
typedef struct head {
    madi_wire_hdr_t hdr;
    uint64_t desc;
    unsigned char body[MADI_SHORT_MAX - MADI_WIRE_DESC_SIZE];
} head_t;
static_assert(sizeof(head_t) == MADI_PACKET_SHORT, "a short packet");
#define ROOM sizeof(((head_t *)0)->body)

/* Like madi_copy, but for at most ROOM bytes, so that the compiler never emits a call of memcpy. */
static inline void copy_small(unsigned char *to, const void *from, size_t len)
{
    static_assert(ROOM <= 32, "two times 16 bytes");
    const unsigned char *end = (const unsigned char *)from + len;
    if (len == 8) {
        memcpy(to, from, 8);
    } else if (len >= 16) {
        memcpy(to, from, 16);
        memcpy(to + len - 16, end - 16, 16);
    } else if (len > 8) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, end - 8, 8);
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, end - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            to[i] = ((const unsigned char *)from)[i];
    }
}

static bool send_vec(madi_link_t *link, head_t *head, const struct iovec *pieces, int n, size_t total)
{
    struct iovec vec[PIECES + 1] = {{head, offsetof(head_t, body)}};
    memcpy(vec + 1, pieces, (size_t)n * sizeof *pieces);
    return link->driver->send(link, vec, n + 1, total, NULL) == MADI_SENT;
}

/* True if a message of this cost (credit bytes) may leave at once.  Under tx_lock. */
static inline bool path_is_free(madi_conn_t *conn, uint64_t cost)
{
    return MADI_LIKELY(cost <= conn->fast_credits) && !atomic_load_explicit(&conn->packing, memory_order_relaxed);
}

/* Called under tx_lock. */
static inline void head_fill(const madi_conn_t *conn, head_t *head, size_t total, uint64_t cost)
{
    uint64_t words[2] = {conn->hdr_template | (uint64_t)(total - sizeof head->hdr) << 32,
                         (uint32_t)conn->tx_seq | cost << 32};
    memcpy(&head->hdr, words, sizeof words);
}

/* Called under tx_lock. */
static inline mad_status_t account_sent(madi_conn_t *conn, uint64_t cost, bool sent)
{
    if (MADI_UNLIKELY(!sent))
        return MAD_ERR_AGAIN;
    conn->fast_credits -= cost;
    conn->tx_seq++;
    return MAD_OK;
}

/* Like head_fill, but with one store: the driver copies a short packet in vectors, and a load of a vector would have to
 * wait until two smaller stores have left the processor's store buffer.  Called under tx_lock. */
static inline void head_fill_short(const madi_conn_t *conn, head_t *head, size_t total, uint64_t cost)
{
    typedef uint64_t two_t __attribute__((vector_size(16)));
    static_assert(sizeof(two_t) == sizeof head->hdr, "the header is one vector");
    two_t words = {conn->hdr_template | (uint64_t)(total - sizeof head->hdr) << 32, (uint32_t)conn->tx_seq | cost << 32};
    memcpy(&head->hdr, &words, sizeof words);
}

/* Send a short packet, whose body is in head.  The driver of every network accepts short packets. */
__attribute__((always_inline)) static inline mad_status_t send_short(madi_conn_t *conn, head_t *head, size_t len)
{
    size_t total = offsetof(head_t, body) + len;
    uint64_t cost = madi_wire_cost(sizeof *head); /* the cost is one cache line, however short the block is */
    mad_status_t status = MAD_ERR_AGAIN;

    head->desc = madi_wire_desc(len, MADI_WIRE_INLINE, MAD_RECEIVE_EXPRESS, MAD_SEND_SAFER);
    madi_lock(&conn->gate->tx_lock);
    if (path_is_free(conn, cost)) {
        head_fill_short(conn, head, total, cost);
        status = account_sent(conn, cost, conn->send_short(conn->link, head, total));
    }
    madi_unlock(&conn->gate->tx_lock);
    return status;
}

/* Called under tx_lock. */
static mad_status_t pieces_send_now(madi_conn_t *conn, const struct iovec *pieces, int n, size_t len)
{
    const madi_caps_t *caps;
    size_t total = offsetof(head_t, body) + len;
    uint64_t cost = madi_wire_cost(total);
    head_t head;

    if (!path_is_free(conn, cost))
        return MAD_ERR_AGAIN;
    caps = &conn->link->adapter->caps;
    if (MADI_UNLIKELY(len >= caps->rdv_min || total > caps->packet_max || n >= caps->gather_max))
        return MAD_ERR_AGAIN;
    head_fill(conn, &head, total, cost);
    head.desc = madi_wire_desc(len, MADI_WIRE_INLINE, MAD_RECEIVE_EXPRESS, MAD_SEND_SAFER);
    return account_sent(conn, cost, send_vec(conn->link, &head, pieces, n, total));
}

static mad_status_t no_conn_status(const mad_channel_t *channel, mad_peer_t peer)
{
    mad_status_t status = madi_session_usable(channel->session);
    return peer < 0 ? MAD_ERR_INVAL : status ? status : MAD_ERR_AGAIN;
}

/* Send a message that is not short, or report what is wrong with the arguments. */
static __attribute__((noinline)) mad_status_t send_longer(const mad_channel_t *channel, madi_conn_t *conn, mad_peer_t peer,
                                                          const struct iovec *pieces, int n)
{
    mad_status_t status;
    size_t len = 0;
    if (n > PIECES)
        return MAD_ERR_AGAIN;
    for (int i = 0; i < n; i++) {
        if (!pieces[i].iov_base && pieces[i].iov_len)
            return MAD_ERR_INVAL;
        if (pieces[i].iov_len > SIZE_MAX / PIECES) /* limit each length, so that the sum does not overflow */
            return MAD_ERR_AGAIN;
        len += pieces[i].iov_len;
    }
    if (!conn)
        return no_conn_status(channel, peer);
    madi_lock(&conn->gate->tx_lock);
    status = pieces_send_now(conn, pieces, n, len);
    madi_unlock(&conn->gate->tx_lock);
    return status;
}

/* The connection's lock is taken only after the work that does not need it.  The copy into the packet also determines
 * whether the message is short. */
static __attribute__((noinline)) mad_status_t pieces_send_copied(const mad_channel_t *channel, madi_conn_t *conn,
                                                                 mad_peer_t peer, const struct iovec *pieces, int n)
{
    size_t len = 0;
    head_t head;

    if (n < 0 || (n && !pieces))
        return MAD_ERR_INVAL;
    for (const struct iovec *p = pieces; p < pieces + n; p++) {
        if (MADI_UNLIKELY(p->iov_len > ROOM - len || !p->iov_base))
            return send_longer(channel, conn, peer, pieces, n);
        copy_small(head.body + len, p->iov_base, p->iov_len);
        len += p->iov_len;
    }
    return MADI_LIKELY(conn != NULL) ? send_short(conn, &head, len) : no_conn_status(channel, peer);
}

/* True for most messages of an MPI library: an envelope of 8 to 16 bytes, and 8 bytes of payload. */
static inline bool pieces_are_common(const struct iovec *pieces, int n)
{
    return n == 2 && pieces && pieces[0].iov_len - 8 <= 8 && pieces[1].iov_len == 8 && pieces[0].iov_base &&
           pieces[1].iov_base;
}

/* Fast path for the most common pieces, which needs neither a loop nor more registers than a call preserves. */
mad_status_t mad_message_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n)
{
    madi_conn_t *conn = madi_conn_peek(channel, peer);
    head_t head;

    if (MADI_LIKELY(conn && pieces_are_common(pieces, n))) {
        const unsigned char *envelope = pieces[0].iov_base;
        size_t len = pieces[0].iov_len;
        memcpy(head.body, envelope, 8);
        memcpy(head.body + len - 8, envelope + len - 8, 8);
        memcpy(head.body + len, pieces[1].iov_base, 8);
        return send_short(conn, &head, len + 8);
    }
    return pieces_send_copied(channel, conn, peer, pieces, n);
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

/* Copy blocks in wire format behind the room for a header.  Blocks in mode LATER are read now, too.  Return the packet's
 * length; 0 if a block is too long to be copied, or not valid. */
static size_t blocks_copy(unsigned char packet[MADI_STAGE], const mad_block_t *blocks, int n)
{
    size_t total = sizeof(madi_wire_hdr_t);
    for (const mad_block_t *b = blocks; b < blocks + n; b++) {
        mad_send_mode_t mode = b->send_mode == MAD_SEND_LATER ? MAD_SEND_SAFER : b->send_mode;
        uint64_t desc = madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, mode);
        if (MADI_UNLIKELY(b->len > MADI_COPY_SHORT || total + MADI_WIRE_DESC_SIZE + b->len > MADI_STAGE || !b->base ||
                          (unsigned)b->send_mode > 2 || (unsigned)b->receive_mode > 1))
            return 0;
        memcpy(packet + total, &desc, MADI_WIRE_DESC_SIZE);
        madi_copy(packet + total + MADI_WIRE_DESC_SIZE, b->base, b->len);
        total += MADI_WIRE_DESC_SIZE + b->len;
    }
    return total;
}

/* Send a packet of copied blocks that is longer than a short packet. */
static __attribute__((noinline)) bool send_copied(madi_conn_t *conn, void *packet, size_t total)
{
    struct iovec vec = {packet, total};
    return conn->link->driver->send(conn->link, &vec, 1, total, NULL) == MADI_SENT;
}

bool madi_blocks_send_now(madi_conn_t *conn, const mad_block_t *blocks, int n)
{
    _Alignas(16) unsigned char packet[MADI_STAGE];
    size_t total = blocks_copy(packet, blocks, n);
    uint64_t cost = madi_wire_cost(total);
    mad_status_t status = MAD_ERR_AGAIN;

    if (MADI_UNLIKELY(!total))
        return false;
    madi_lock(&conn->gate->tx_lock);
    if (path_is_free(conn, cost)) {
        head_fill(conn, (head_t *)packet, total, cost);
        status = account_sent(conn, cost,
                              MADI_LIKELY(total <= MADI_PACKET_SHORT) ? conn->send_short(conn->link, packet, total)
                                                                      : send_copied(conn, packet, total));
    }
    madi_unlock(&conn->gate->tx_lock);
    return status == MAD_OK;
}
