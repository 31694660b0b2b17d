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

mad_status_t mad_message_receive(mad_channel_t *channel, mad_peer_t source, const mad_block_t *blocks, int n,
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
    status = madi_session_usable(session);
    if (!status && atomic_load_explicit(&channel->closed, memory_order_relaxed))
        status = madi_channel_status(channel);
    if (status)
        return status;
    conn = madi_conn_peek(channel, source);
    if (!conn && !(conn = madi_conn_get(channel, source, &status)))
        return status;
    for (int i = 0; i < n; i++)
        len += blocks[i].len;
    madi_lock(&session->lock);
    posted = madi_posted_new(conn, blocks, n, len >= MADI_POSTED_ASYNC_MIN);
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
    } else if (atomic_load_explicit(&channel->closed, memory_order_relaxed)) { /* the channel was closed meanwhile */
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
