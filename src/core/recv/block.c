/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of a message that has arrived: read from its packets, and compared with what the receiver expects. */
#include "base/log.h"
#include "core/conn/credit.h"
#include "core/conn/rx_pool.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/recv/receive.h"
#include "core/recv/recv_gate.h"
#include "core/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void madi_spread(const struct iovec *pieces, int n, madi_foreign_t src, uint64_t skip, uint64_t len)
{
    for (int i = 0; i < n && len; i++) {
        uint64_t room = pieces[i].iov_len;
        if (skip >= room) {
            skip -= room;
            continue;
        }
        room -= skip;
        if (room > len)
            room = len;
        madi_foreign_copy_any((char *)pieces[i].iov_base + skip, src, room);
        src = madi_foreign_skip(src, room);
        len -= room;
        skip = 0;
    }
}

/* Report a mismatch to both sides.  Under session->lock. */
void madi_block_mismatch(madi_rx_msg_t *m, uint64_t sent, uint64_t expected)
{
    char here[MADI_BLOCK_WORDS], there[MADI_BLOCK_WORDS];
    madi_gate_t *gate = m->conn->gate;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_MISMATCH, .channel = m->conn->remote, .length = sizeof(madi_wire_mismatch_t)};
    madi_wire_mismatch_t mm = {m->hdr.seq, m->index, sent, expected};

    if (madi_message_status(&m->base))
        return;
    madi_message_fail(&m->base, MAD_ERR_MISMATCH);
    madi_log(MADI_LOG_WARN, "message",
             "channel %s, peer %d, message %u, block %u: the sender packed %s; the receiver expects %s; make both sides "
             "pack and unpack the same blocks",
             m->conn->channel->name, gate->peer, m->hdr.seq, m->index, madi_block_words(sent, there),
             madi_block_words(expected, here));
    /* only if the peer's number of the channel is still in use: it may belong to another channel by now */
    if (m->conn->remote_known && m->conn->remote == m->hdr.channel)
        madi_gate_ctrl(gate, &hdr, &mm);
}

bool madi_block_agrees(const madi_rx_msg_t *m, uint64_t sent, uint64_t expected)
{
    uint64_t mask = MADI_WIRE_LEN_MAX | UINT64_C(1) << 50 | (m->hdr.flags & MADI_WIRE_MODES ? UINT64_C(3) << 51 : 0);
    return (sent & mask) == (expected & mask);
}

void madi_packet_next(madi_rx_msg_t *m)
{
    madi_rx_packet_t *packet = m->head;
    if (m->current)
        madi_rx_packet_free(m->current);
    m->head = packet->next;
    if (!m->head)
        m->tail = &m->head;
    m->current = packet;
    m->cur = packet->data;
    m->end = madi_foreign_skip(packet->data, packet->len);
    m->cur_last = packet->last;
    m->conn->rx_held -= packet->cost;
    madi_credit_return(m->conn, packet->cost);
    packet->cost = 0;
    madi_conn_hand_back(m->conn);
}

/* True if a block is at the cursor, which moves to the next packet if needed.  Under session->lock. */
bool madi_block_next(madi_rx_msg_t *m)
{
    while (!madi_rx_left(m) && !m->cur_last && m->head) {
        madi_packet_next(m);
        if (MADI_UNLIKELY(m->current->cont || m->receiving.cont_left))
            madi_cont_skip(m, m->current->cont);
    }
    return madi_rx_left(m) > 0;
}

mad_status_t madi_block_look(madi_rx_msg_t *m, madi_sent_block_t *b)
{
    madi_foreign_t p = m->cur;
    size_t left = madi_rx_left(m);
    unsigned kind;
    if (left < MADI_WIRE_DESC_SIZE)
        goto garbage;
    b->desc = madi_foreign_read8(p);
    kind = MADI_WIRE_DESC_KIND(b->desc);
    p = madi_foreign_skip(p, MADI_WIRE_DESC_SIZE);
    b->inside = MADI_WIRE_DESC_LEN(b->desc);
    b->at = 0;
    b->announced = kind == MADI_WIRE_RDV || kind == MADI_WIRE_RDV_AT;
    b->waits = kind == MADI_WIRE_RDV_AT && (b->desc & MADI_WIRE_DESC_WAITS);
    b->shared = b->waits && (b->desc & MADI_WIRE_DESC_SHARED);
    b->placed = kind == MADI_WIRE_PLACED;
    b->continued = false;
    if (b->placed) {
        if (!m->receiving.placed || m->index)
            goto garbage;
        b->inside = 0;
    }
    if (b->announced) {
        if (left < (kind == MADI_WIRE_RDV_AT ? MADI_WIRE_RDV_AT_SIZE : MADI_WIRE_RDV_SIZE))
            goto garbage;
        madi_foreign_copy(&b->rdv, p, sizeof b->rdv);
        p = madi_foreign_skip(p, sizeof b->rdv);
        if (kind == MADI_WIRE_RDV_AT) {
            b->at = madi_foreign_read8(p);
            p = madi_foreign_skip(p, sizeof b->at);
        }
        if (b->rdv.eager > b->inside)
            goto garbage;
        b->inside = b->rdv.eager;
    }
    if (b->inside > madi_foreign_between(p, m->end)) {
        if (kind != MADI_WIRE_INLINE || m->cur_last)
            goto garbage;
        b->continued = true;
        b->inside = madi_foreign_between(p, m->end);
    }
    b->data = p;
    b->behind = madi_foreign_skip(p, b->inside);
    return MAD_OK;

garbage:
    m->cur = m->end;
    madi_message_fail(&m->base, MAD_ERR_PROTOCOL);
    return MAD_ERR_PROTOCOL;
}

static void count_placed(madi_conn_t *conn, uint64_t len)
{
    conn->gate->recv->count.placed_blocks++;
    conn->gate->recv->count.placed_bytes += len;
    conn->block_bytes_in += len;
}

void madi_block_refuse(madi_rx_msg_t *m, const madi_sent_block_t *b)
{
    if (b->announced)
        madi_rdv_send_grant(m->conn->gate, b->rdv.sender, 0, b->inside, true);
    if (b->continued)
        madi_cont_drop(m, b);
}

mad_status_t madi_block_place(madi_rx_msg_t *m, const madi_sent_block_t *b, const struct iovec *pieces, int n,
                              uint64_t expected, madi_waitable_t *wait)
{
    mad_status_t status = MAD_OK;
    m->cur = b->behind;
    if (madi_block_agrees(m, b->desc, expected)) {
        madi_spread(pieces, n, b->data, 0, b->inside);
        if (b->placed)
            count_placed(m->conn, MADI_WIRE_DESC_LEN(b->desc));
        if (b->announced)
            status = madi_rdv_grant(m, pieces, n, MADI_WIRE_DESC_LEN(b->desc), b, wait);
        if (b->continued)
            status = madi_cont_start(m, pieces, n, b, wait);
    } else {
        madi_block_mismatch(m, b->desc, expected);
        madi_block_refuse(m, b);
        status = MAD_ERR_MISMATCH;
    }
    m->index++;
    if (status)
        madi_message_fail(&m->base, status);
    return status;
}

mad_status_t madi_block_take(madi_rx_msg_t *m, const struct iovec *pieces, int n, uint64_t expected, madi_waitable_t *wait)
{
    madi_sent_block_t b;
    mad_status_t status = madi_block_look(m, &b);
    return status ? status : madi_block_place(m, &b, pieces, n, expected, wait);
}

void madi_block_drop(madi_rx_msg_t *m, bool disagrees)
{
    madi_sent_block_t b;
    if (madi_block_look(m, &b))
        return;
    m->cur = b.behind;
    if (disagrees)
        madi_block_mismatch(m, b.desc, MADI_WIRE_DESC_NONE);
    madi_block_refuse(m, &b);
    m->index++;
}

/* True if the message has no further block.  A receiver that unpacks one more is in error. */
bool madi_block_none(const madi_rx_msg_t *m)
{
    return !madi_rx_left(m) && m->cur_last;
}
