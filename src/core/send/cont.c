/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that begin in a packet of their message and continue in packets of their own, without a grant, because the
 * receiver has given credit for all bytes.
 *
 *   sender                                           receiver
 *
 *   MSG [descriptor][first bytes]                 -> opens the message, and unpacks the block: its place is known
 *   MSG with CONT: the other bytes, from where they lie    ->   straight into that place; elsewhere if there is none yet
 *
 * The first packet is short.  So it arrives, and the message is opened, while the sender hands over the rest.  A driver
 * that finds the rest before the message was opened postpones the rest to its next poll, once (MADI_PLACE_LATER). */
#include "core/driver.h"
#include "core/link/link.h"
#include "core/object/message.h"
#include "core/object/tx.h"
#include "core/send/send.h"
#include "core/send/send_gate.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Complete a packet that the driver had taken. */
static void cont_op_done(madi_op_t *op, mad_status_t status)
{
    madi_tx_t *tx = MADI_CONTAINER(op, madi_tx_t, sending.cont_op);
    madi_gate_t *gate = tx->conn->gate;

    madi_lock(&gate->tx_lock);
    tx->sending.cont_busy = false;
    tx->rdv_pending--;
    if (status)
        madi_message_fail(&tx->base, status);
    madi_tx_check_complete(tx);
    madi_gate_work(gate);
    madi_unlock(&gate->tx_lock);
}

bool madi_cont_is_busy(const madi_tx_t *tx)
{
    return tx->sending.cont_busy;
}

bool madi_cont_send(madi_tx_t *tx, struct iovec *vec, int n, size_t ahead)
{
    madi_conn_t *conn = tx->conn;
    madi_link_t *link = conn->gate->link;
    const madi_piece_t *piece = &tx->pieces[tx->next_piece];
    size_t left = (size_t)tx->sending.cont_left, len = MADI_WIRE_DESC_LEN(piece->desc);
    bool last = tx->ended && tx->next_piece + 1 == tx->n_pieces;
    madi_sent_t sent;

    if (tx->sending.cont_busy)
        return false;
    tx->sending.cont_hdr = (madi_wire_hdr_t){.type = MADI_WIRE_MSG,
                                             .flags = (uint8_t)(MADI_WIRE_CONT | (last ? MADI_WIRE_LAST : 0) | conn->flags),
                                             .channel = conn->number,
                                             .length = (uint32_t)left,
                                             .seq = tx->seq,
                                             .aux = (uint32_t)madi_cont_cost(left)};
    vec[n] = (struct iovec){&tx->sending.cont_hdr, sizeof tx->sending.cont_hdr};
    vec[n + 1] = (struct iovec){(unsigned char *)(uintptr_t)piece->base + len - left, left};
    tx->sending.cont_op = (madi_op_t){.done = cont_op_done, .last = last, .of = len, .ahead = ahead};
    sent = link->driver->send(link, vec, n + 2, ahead + sizeof tx->sending.cont_hdr + left, &tx->sending.cont_op);
    if (sent == MADI_AGAIN) {
        MADI_GATE_COUNT(conn->gate, times_full, 1);
        return false;
    }
    if (sent == MADI_TAKEN) {
        tx->sending.cont_busy = true;
        tx->rdv_pending++;
    }
    *(conn->fast_credits ? &conn->fast_credits : &conn->credit_left) -= tx->sending.cont_hdr.aux;
    tx->sending.cont_left = 0;
    tx->next_piece++;
    tx->all_sent = last;
    return true;
}
