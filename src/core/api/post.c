/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that the program posts before the message arrives. */
#include "core/conn/request.h"
#include "core/conn/channel.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/send/policy.h"

#include <stdlib.h>
#include <string.h>

/* Return the sum of the blocks' lengths; -1 if a block is not valid. */
static inline int64_t blocks_len(const mad_block_t *blocks, int n)
{
    int64_t len = 0;
    if (MADI_UNLIKELY(n < 0 || (n && !blocks)))
        return -1;
    for (const mad_block_t *b = blocks; b < blocks + n; b++) {
        if (MADI_UNLIKELY((!b->base && b->len) || (unsigned)b->receive_mode > 1))
            return -1;
        len += (int64_t)b->len;
    }
    return len;
}

/* Append a receive to its connection's list.  Under session->lock. */
static inline void posted_append(madi_conn_t *conn, madi_posted_t *posted)
{
    *conn->posted_tail = posted;
    conn->posted_tail = &posted->next;
}

/* Post the first receive of a connection, or complete it.  Under session->lock. */
static void posted_first(madi_posted_t *posted)
{
    madi_conn_t *conn = posted->conn;
    mad_request_t *r = &posted->request;
    madi_rx_msg_t *m = madi_rx_take_from(conn);
    if (m) {
        madi_posted_start(posted, m);
    } else if (atomic_load_explicit(&conn->gate->state, memory_order_relaxed) == MADI_GATE_DOWN) {
        r->posted = NULL;
        madi_request_complete(r, conn->gate->status);
    } else if (atomic_load_explicit(&conn->channel->closed, memory_order_relaxed)) { /* the channel was closed meanwhile */
        r->posted = NULL;
        madi_request_complete(r, madi_channel_status(conn->channel));
    } else {
        posted_append(conn, posted);
        madi_conn_rx_quick(conn);
        if (posted->offer >= 0)
            madi_request_by_peer(r);
    }
}

/* Post a receive of any form. */
static __attribute__((noinline)) mad_status_t receive_any(mad_channel_t *channel, mad_peer_t source,
                                                          const mad_block_t *blocks, int n, mad_request_t **request)
{
    mad_session_t *session = channel->session;
    int64_t len = blocks_len(blocks, n);
    mad_status_t status = MAD_OK;
    madi_posted_t *posted;
    madi_conn_t *conn;
    mad_request_t *r;

    if (len < 0)
        return MAD_ERR_INVAL;
    if (atomic_load_explicit(&channel->closed, memory_order_relaxed)) /* in a child of fork all channels are closed */
        return madi_channel_status(channel);
    conn = madi_conn_peek(channel, source);
    if (!conn && !(conn = madi_conn_get(channel, source, &status)))
        return status;
    madi_lock(&session->lock);
    posted = madi_posted_new(conn, blocks, n, len >= MADI_POSTED_ASYNC_MIN);
    if (!posted) {
        madi_unlock(&session->lock);
        return MAD_ERR_NOMEM;
    }
    r = &posted->request;
    if (conn->posted)
        posted_append(conn, posted);
    else
        posted_first(posted);
    madi_unlock(&session->lock);
    if (!request)
        return mad_request_wait(&r, MAD_FOREVER);
    madi_request_left(r);
    *request = r;
    return MAD_OK;
}

/* The common call posts one short block while other receives are posted: this path saves no registers. */
mad_status_t mad_message_receive(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
                                 mad_request_t **request)
{
    madi_conn_t *conn = madi_conn_peek(channel, source);
    mad_session_t *session = channel->session;
    madi_posted_t *posted = NULL;

    if (MADI_UNLIKELY(!conn || n != 1 || !request || !blocks || !blocks->base || blocks->len > MADI_SHORT_BLOCK ||
                      (unsigned)blocks->receive_mode > 1))
        return receive_any(channel, source, blocks, n, request);
    madi_lock(&session->lock);
    /* a posted receive implies that the gate is not lost and the channel is open */
    if (MADI_LIKELY(conn->posted && (posted = madi_posted_reuse(session, conn, blocks))))
        posted_append(conn, posted);
    madi_unlock(&session->lock);
    if (MADI_UNLIKELY(!posted))
        return receive_any(channel, source, blocks, n, request);
    *request = &posted->request;
    return MAD_OK;
}
