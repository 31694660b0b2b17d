/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a received message: no part of it is in flight any more, or it has failed. */
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/conn/rx_pool.h"
#include "core/driver.h"
#include "core/link/trace.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/recv/rx_block.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Discard blocks that were not unpacked, which is a mismatch.  Under session->lock. */
static void blocks_drain(madi_rx_msg_t *m)
{
    while (madi_block_next(m))
        madi_block_drop(m, !madi_message_status(&m->base) && !m->may_leave_rest);
}

void madi_rx_live_remove(madi_rx_msg_t *m)
{
    if (!m->is_unfinished)
        return;
    for (madi_rx_msg_t **p = &m->conn->unfinished; *p; p = &(*p)->receiving.next_unfinished)
        if (*p == m) {
            *p = m->receiving.next_unfinished;
            return;
        }
}

void madi_rx_release(madi_rx_msg_t *m)
{
    if (MADI_UNLIKELY(madi_tracing))
        madi_trace_conn(MADI_TRACE_RECEIVE, m->began, m->conn, m->hdr.seq, 0);
    if (m->current)
        madi_rx_packet_free(m->current);
    for (madi_rx_packet_t *p = m->head, *next; p; p = next) {
        next = p->next;
        madi_rx_packet_free(p);
    }
    madi_early_free(m);
    madi_rx_clear(m);
    madi_rx_free(m);
}

/* Discard the remaining blocks of an ended message, and report the mismatch.  Return true if no part of the message is in
 * flight any more.  Under session->lock. */
bool madi_rx_settle(madi_rx_msg_t *m)
{
    if (madi_message_status(&m->base))
        for (madi_rx_block_t *b; (b = m->blocks); free(b))
            m->blocks = b->next;
    if (m->early && madi_done(&m->early->arrived)) { /* a block that has arrived in the library's memory was not unpacked */
        if (!m->may_leave_rest && !m->early->borrowed)
            madi_block_mismatch(m, m->early->desc, MADI_WIRE_DESC_NONE);
        madi_early_drop(m);
    }
    if (!m->blocks)
        blocks_drain(m);
    if (atomic_load_explicit(&m->rdv_pending, memory_order_relaxed) || m->blocks)
        return false;
    return madi_block_none(m) || m->lost;
}

void madi_rx_finish(madi_rx_msg_t *m)
{
    mad_request_t *request = m->request;
    mad_status_t status;
    if (!m->ended || !request || !madi_rx_settle(m))
        return;
    status = madi_message_status(&m->base);
    madi_rx_live_remove(m);
    madi_rx_release(m);
    madi_request_complete(request, status);
}

void madi_rx_drop(madi_rx_msg_t *m)
{
    m->base.plain = MADI_PLAIN_NONE;
    m->may_leave_rest = true;
    madi_rx_settle(m);
    madi_rx_live_remove(m);
    madi_rx_release(m);
}

/* Fail messages that will never be complete, and posted receives.  Complete messages can still be read. */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status)
{
    madi_rx_msg_t *m, *next;
    if (conn->arriving) {
        conn->arriving->lost = true;
        madi_message_fail(&conn->arriving->base, status);
    }
    conn->arriving = NULL;
    madi_credit_forget(conn);
    for (m = conn->unfinished; m; m = next) {
        next = m->receiving.next_unfinished;
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
