/* SPDX-License-Identifier: BSD-3-Clause */
/* Posted receives, and the messages that arrive for them. */
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/link/notify.h"
#include "core/link/trace.h"
#include "core/object/gate.h"
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

/* Update a connection whose first posted receives were removed. */
static void posted_changed(madi_conn_t *conn)
{
    if (MADI_LIKELY(conn->posted != NULL)) {
        if (conn->posted->length_word == MADI_POSTED_LONG)
            madi_posted_offer(conn);
    } else {
        conn->posted_tail = &conn->posted;
        madi_conn_rx_quick(conn);
    }
}

void madi_posted_next(madi_conn_t *conn)
{
    conn->posted = conn->posted->next;
    posted_changed(conn);
}

int madi_posted_take(madi_conn_t *conn, const madi_short_t *packet, int n)
{
    madi_posted_t *p = conn->posted;
    uint64_t head = madi_short_header(conn);
    int64_t credits = madi_short_credits(conn);
    int taken = 0;

    if (MADI_UNLIKELY(conn->arriving || conn->unopened || madi_tracing))
        return 0;
    for (; taken < n && p; taken++, packet++) {
        mad_request_t *request = &p->request;
        const mad_block_t *b = p->blocks;
        if (MADI_UNLIKELY(packet->words[0] != (head | p->length_word) || packet->words[2] != p->desc ||
                          packet->words[1] >> 32 != MADI_SHORT_COST || credits < (taken + 1) * MADI_SHORT_COST))
            break;
        if (MADI_LIKELY(b->len == 8))
            memcpy(b->base, &packet->words[3], 8);
        else if (b->len)
            madi_copy(b->base, &packet->words[3], b->len);
        p = p->next; /* read before the completion, after which the program may free the receive */
        madi_request_complete_posted(request);
    }
    if (MADI_UNLIKELY(!taken))
        return 0;
    conn->posted = p;
    MADI_CONN_COUNT(conn, messages_received, (uint64_t)taken);
    madi_credit_return(conn, (uint32_t)taken * MADI_SHORT_COST);
    posted_changed(conn);
    madi_watchers_wake(conn->gate->session);
    return taken;
}
