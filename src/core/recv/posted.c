/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives, and the messages that arrive for them. */
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/link/trace.h"
#include "core/object/message.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Unpack an opened message into a posted receive.  Under session->lock. */
void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *m)
{
    m->receiving.placed = !madi_posted_withdraw(posted);
    for (int i = 0; i < posted->n; i++) {
        const mad_block_t *b = &posted->blocks[i];
        struct iovec piece = {b->base, b->len};
        uint64_t desc = madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, b->send_mode);
        if (madi_message_status(&m->base))
            break;
        if (!m->blocks && madi_block_next(m))
            madi_block_take(m, &piece, 1, desc, NULL);
        else if (madi_block_none(m))
            madi_block_mismatch(m, MADI_WIRE_DESC_NONE, desc);
        else
            madi_block_wait(m, &piece, 1, desc);
    }
    m->ended = true;
    m->request = &posted->request;
    m->request->posted = NULL;
    m->request->rx = m;
    madi_rx_finish(m);
}

/* Remove the first posted receive from its connection's list. */
void madi_posted_next(madi_conn_t *conn)
{
    conn->posted = conn->posted->next;
    if (conn->posted) {
        madi_posted_offer(conn);
    } else {
        conn->posted_tail = &conn->posted;
        madi_conn_rx_quick(conn);
    }
}

/* Receive a short packet into the first posted receive.  False where modes or lengths of the two sides differ: the
 * general path then reports which side is wrong. */
bool madi_posted_take_short(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    madi_posted_t *p = conn->posted;
    const mad_block_t *b = p->blocks;

    if (p->n != 1 || p->offer >= 0 || p->claimed || conn->arriving || conn->unopened || madi_tracing ||
        hdr->length != MADI_WIRE_DESC_SIZE + b->len || hdr->flags != (MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) ||
        hdr->aux != madi_wire_cost(hdr->length + sizeof *hdr) ||
        madi_credit_consumed(conn) + conn->rx_held + hdr->aux > conn->rx_limit ||
        !madi_foreign_equals8(body, madi_wire_desc(b->len, MADI_WIRE_INLINE, b->receive_mode, b->send_mode)))
        return false;
    if (b->len)
        madi_foreign_copy_any(b->base, madi_foreign_skip(body, MADI_WIRE_DESC_SIZE), b->len);
    MADI_CONN_COUNT(conn, messages_received, 1);
    madi_credit_return(conn, hdr->aux);
    madi_posted_next(conn);
    p->request.posted = NULL;
    madi_request_complete(&p->request, MAD_OK);
    return true;
}
