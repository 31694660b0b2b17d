/* SPDX-License-Identifier: BSD-3-Clause */
/* Continued blocks, received: the rest of each comes in packets of its own (send/cont.c has the picture). */
#include "core/conn/credit.h"
#include "core/driver.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/rdv_recv.h"
#include "core/recv/receive.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* True if a packet of n bytes may be the next packet of a block of which `left` bytes are missing. */
static bool cont_fits(uint64_t left, uint64_t n, bool last)
{
    return n <= left && (n == left || !last);
}

/* Take the current packet as the continuation of the block.  If the packet does not continue the block, let the message
 * fail, and return false. */
static bool cont_take(madi_rx_msg_t *m, bool cont)
{
    uint64_t n = madi_rx_left(m);
    m->cur = m->end;
    if (cont && cont_fits(m->receiving.cont_left, n, m->cur_last)) {
        m->receiving.cont_left -= n;
        return true;
    }
    m->receiving.cont_left = 0;
    madi_message_fail(&m->base, MAD_ERR_PROTOCOL);
    return false;
}

/* Go to the next packet, and take it as the continuation of the block: *n bytes at *data.  If the packet does not continue
 * the block, let the message fail, and return false. */
static bool cont_next(madi_rx_msg_t *m, madi_foreign_t *data, uint64_t *n)
{
    madi_packet_next(m);
    *data = m->cur;
    *n = madi_rx_left(m);
    return cont_take(m, m->current->cont);
}

void madi_cont_skip(madi_rx_msg_t *m, bool cont)
{
    cont_take(m, cont);
}

void madi_cont_drop(madi_rx_msg_t *m, const madi_sent_block_t *block)
{
    m->receiving.cont_left = MADI_WIRE_DESC_LEN(block->desc) - block->inside;
}

mad_status_t madi_cont_start(madi_rx_msg_t *m, const struct iovec *pieces, int n, const madi_sent_block_t *block,
                             madi_waitable_t *wait)
{
    uint64_t len = MADI_WIRE_DESC_LEN(block->desc), here = block->inside;
    madi_rdv_recv_t *r;
    madi_cont_drop(m, block);
    while (m->receiving.cont_left && m->head) {
        madi_foreign_t data;
        uint64_t part;
        if (!cont_next(m, &data, &part))
            return MAD_ERR_PROTOCOL;
        madi_spread(pieces, n, data, here, part);
        here += part;
    }
    if (!m->receiving.cont_left)
        return MAD_OK;
    if (m->lost)
        return MAD_ERR_PEER;
    r = madi_rdv_recv_new(m, pieces, n, len, here, wait, false);
    atomic_store_explicit(&m->receiving.cont, r, memory_order_relaxed);
    return r ? MAD_OK : MAD_ERR_NOMEM;
}

/* End the reception of the block: all of it has arrived, or never will.  The message may be freed when this returns. */
static void cont_end(madi_rx_msg_t *m)
{
    madi_rdv_recv_t *r = madi_cont_of(m);
    if (m->blocks)
        madi_rx_feed(m);
    madi_rdv_recv_done(r);
}

void madi_cont_feed(madi_rx_msg_t *m)
{
    madi_rdv_recv_t *r = madi_cont_of(m);
    while (m->receiving.cont_left && m->head) {
        madi_foreign_t data;
        uint64_t part;
        if (!cont_next(m, &data, &part)) {
            /* the message has failed: mark all bytes as placed, so that none are copied from the bounce buffer */
            r->eager = r->len;
            break;
        }
        madi_foreign_copy_any(madi_rdv_place(r) + r->received, data, part);
        r->received += part;
    }
    if (!m->receiving.cont_left)
        cont_end(m);
}

bool madi_cont_begin(madi_rx_msg_t *m, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    const madi_rdv_recv_t *r = madi_cont_of(m);
    if (!(hdr->flags & MADI_WIRE_CONT) || !cont_fits(m->receiving.cont_left, hdr->length, hdr->flags & MADI_WIRE_LAST))
        return false;
    rx->base = madi_rdv_place(r) + r->received;
    rx->cookie = NULL;
    return true;
}

void madi_cont_done(madi_rx_msg_t *m, const madi_wire_hdr_t *hdr)
{
    madi_conn_t *conn = m->conn;
    madi_cont_of(m)->received += hdr->length;
    m->receiving.cont_left -= hdr->length;
    madi_credit_return_later(conn, hdr->aux);
    if (hdr->flags & MADI_WIRE_LAST) {
        m->cur_last = true;
        m->complete = true;
        conn->arriving = NULL;
        madi_conn_rx_quick(conn);
    }
    madi_conn_hand_back(conn);
    if (!m->receiving.cont_left)
        cont_end(m);
}
