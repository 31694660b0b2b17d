/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that begin in a packet of their message and go on in packets of their own, without a grant: the receiver has given
 * credit for all of it.
 *
 *   sender                                           receiver
 *
 *   MSG [descriptor][first bytes]                 -> opens the message, and unpacks the block: its place is known
 *   MSG with CONT: the other bytes, from where they lie    ->   straight into that place; elsewhere if there is none yet
 *
 * The first packet is short, so that it is there, and the message open, while the sender hands over the rest.  A driver that
 * finds the rest before the message was opened leaves it to its next poll, once (MADI_PLACE_LATER). */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sending -------------------------------------------------------------------------------------------------- */

/* The driver is done with a packet that it had taken. */
static void cont_op_done(madi_op_t *op, mad_status_t status)
{
    madi_tx_t *tx = MADI_CONTAINER(op, madi_tx_t, cont_op);
    madi_gate_t *gate = tx->conn->gate;

    madi_lock(&gate->tx_lock);
    tx->cont_busy = false;
    tx->rdv_pending--;
    if (status)
        madi_message_fail(&tx->base, status);
    madi_tx_check_complete(tx);
    madi_gate_work(gate);
    madi_unlock(&gate->tx_lock);
}

bool madi_cont_send(madi_tx_t *tx, struct iovec *vec, int n, size_t ahead)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    const madi_piece_t *piece = &tx->pieces[tx->next_piece];
    size_t left = (size_t)tx->cont_left, len = MADI_WIRE_DESC_LEN(piece->desc);
    bool last = tx->ended && tx->next_piece + 1 == tx->n_pieces;
    madi_sent_t sent;

    if (tx->cont_busy)
        return false;
    tx->cont_hdr = (madi_wire_hdr_t){.type = MADI_WIRE_MSG,
                                     .flags = (uint8_t)(MADI_WIRE_CONT | (last ? MADI_WIRE_LAST : 0) | conn->flags),
                                     .channel = conn->number,
                                     .length = (uint32_t)left,
                                     .seq = tx->seq,
                                     .aux = (uint32_t)madi_cont_cost(left)};
    vec[n] = (struct iovec){&tx->cont_hdr, sizeof tx->cont_hdr};
    vec[n + 1] = (struct iovec){(unsigned char *)(uintptr_t)piece->base + len - left, left};
    tx->cont_op = (madi_op_t){.done = cont_op_done, .last = last, .of = len, .ahead = ahead};
    sent = link->driver->send(link, vec, n + 2, ahead + sizeof tx->cont_hdr + left, &tx->cont_op);
    if (sent == MADI_AGAIN) {
        conn->gate->refused++;
        return false;
    }
    if (sent == MADI_TAKEN) {
        tx->cont_busy = true;
        tx->rdv_pending++;
    }
    *(conn->quick ? &conn->quick : &conn->credit_left) -= tx->cont_hdr.aux;
    tx->cont_left = 0;
    tx->next_piece++;
    tx->all_sent = last;
    return true;
}

/* ---- Receiving ------------------------------------------------------------------------------------------------ */

/* True if a packet of n bytes may be the next one of a block with left bytes to come. */
static bool cont_fits(uint64_t left, uint64_t n, bool last)
{
    return n <= left && (n == left || !last);
}

/* Take the packet at hand as the next of the block; false: it is not, and the message has failed. */
static bool cont_take(madi_rx_msg_t *m, bool cont)
{
    uint64_t n = madi_rx_left(m);
    m->cur = m->end;
    if (cont && cont_fits(m->cont_left, n, m->cur_last)) {
        m->cont_left -= n;
        return true;
    }
    m->cont_left = 0;
    madi_message_fail(&m->base, MAD_ERR_PROTOCOL);
    return false;
}

void madi_cont_skip(madi_rx_msg_t *m, bool cont)
{
    cont_take(m, cont);
}

void madi_cont_drop(madi_rx_msg_t *m, const madi_sent_block_t *block)
{
    m->cont_left = MADI_WIRE_DESC_LEN(block->desc) - block->inside;
}

mad_status_t madi_cont_start(madi_rx_msg_t *m, const struct iovec *pieces, int n, const madi_sent_block_t *block,
                             madi_waitable_t *wait)
{
    uint64_t len = MADI_WIRE_DESC_LEN(block->desc), here = block->inside;
    madi_rdv_recv_t *r;
    madi_cont_drop(m, block);
    while (m->cont_left && m->head) {
        madi_foreign_t data;
        uint64_t part;
        madi_packet_next(m);
        data = m->cur;
        part = madi_rx_left(m);
        if (!cont_take(m, m->current->cont))
            return MAD_ERR_PROTOCOL;
        madi_spread(pieces, n, data, here, part);
        here += part;
    }
    if (!m->cont_left)
        return MAD_OK;
    if (m->lost)
        return MAD_ERR_PEER;
    r = madi_rdv_recv_new(m, pieces, n, len, here, wait, false);
    atomic_store_explicit(&m->cont, r, memory_order_relaxed);
    return r ? MAD_OK : MAD_ERR_NOMEM;
}

/* All of the block is here, or will never be.  The message may be gone when this returns. */
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
    while (m->cont_left && m->head) {
        madi_foreign_t data;
        uint64_t part;
        madi_packet_next(m);
        data = m->cur;
        part = madi_rx_left(m);
        if (!cont_take(m, m->current->cont)) {
            r->eager = r->len; /* nothing is to be spread */
            break;
        }
        madi_foreign_copy_any(madi_rdv_place(r) + r->received, data, part);
        r->received += part;
    }
    if (!m->cont_left)
        cont_end(m);
}

/* As when a message is opened: without a look at the clock, and without being the leader. */
void madi_cont_poll(madi_rx_msg_t *m)
{
    mad_session_t *session = m->base.session;
    for (int i = session->spins; i > 0 && atomic_load_explicit(&m->rdv_pending, memory_order_acquire); i--) {
        madi_adapter_t *hit;
        if (marceli_is_led() || marceli_others_ready())
            return; /* another thread polls for all, or wants to run */
        hit = madi_poll_hit(session);
        if (!hit)
            continue;
        madi_lock(&session->lock);
        if (!madi_progress_after(session, hit->driver->poll(hit, 1)))
            madi_poll_missed(session, hit);
        madi_unlock(&session->lock);
        if (MADI_UNLIKELY(atomic_load_explicit(&session->has_calls, memory_order_relaxed)))
            madi_calls_run(session);
    }
}

bool madi_cont_begin(madi_rx_msg_t *m, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    const madi_rdv_recv_t *r = madi_cont_of(m);
    if (!(hdr->flags & MADI_WIRE_CONT) || !cont_fits(m->cont_left, hdr->length, hdr->flags & MADI_WIRE_LAST))
        return false;
    rx->base = madi_rdv_place(r) + r->received;
    rx->cookie = NULL;
    return true;
}

void madi_cont_done(madi_rx_msg_t *m, const madi_wire_hdr_t *hdr)
{
    madi_conn_t *conn = m->conn;
    madi_cont_of(m)->received += hdr->length;
    m->cont_left -= hdr->length;
    madi_credit_return_later(conn, hdr->aux);
    if (hdr->flags & MADI_WIRE_LAST) {
        m->cur_last = true;
        m->complete = true;
        conn->arriving = NULL;
        madi_conn_rx_quick(conn);
    }
    madi_conn_hand_back(conn);
    if (!m->cont_left)
        cont_end(m);
}
