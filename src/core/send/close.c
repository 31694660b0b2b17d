/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender's end of a channel's number: CLOSE and CLOSED. */
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/link/link.h"
#include "core/object/gate.h"
#include "core/send/send.h"
#include "core/wire/wire.h"

static bool gate_is_up(const madi_gate_t *gate)
{
    return atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_UP;
}

void madi_conn_close(madi_conn_t *conn)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CLOSE, .channel = conn->number};
    if (!conn->closing || !conn->announced || conn->queue || conn->deferred || !gate_is_up(conn->gate) ||
        madi_gate_ctrl_locked(conn->gate, &hdr, NULL) != MAD_OK)
        return;
    conn->announced = false;
    conn->close_sent = true;
    madi_conn_slow(conn);
}

const char *madi_closed_arrived(madi_link_t *link, const madi_wire_hdr_t *hdr, const void *body)
{
    madi_gate_t *gate = link->gate;
    madi_conn_t *conn;
    bool was_handed;
    (void)body;
    madi_lock(&gate->tx_lock);
    conn = madi_conn_by_number(gate, hdr->channel);
    was_handed = conn && conn->close_sent;
    if (was_handed) {
        conn->close_sent = false;
        madi_credit_begin_tx(conn);
        if (conn->queue) /* the channel was opened again */
            madi_conn_kick(conn);
    }
    madi_unlock(&gate->tx_lock);
    return was_handed ? NULL : MADI_WRONG_NUMBER;
}
