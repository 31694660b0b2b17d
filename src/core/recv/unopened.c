/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages on channels that peers have announced and the program has not opened.  These messages wait in case the program
 * opens the channel.  Only the ledger bounds the number of these channels, and the bytes that wait.  The credits of a
 * connection bound one channel, and a peer can announce any number of names. */
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/object/gate.h"
#include "core/recv/receive.h"

/* Discard messages of lost peers first: the program may never open them, and only the program could release them
 * otherwise.  Return true if some were discarded. */
static bool lost_messages_drop(mad_session_t *s)
{
    int64_t dropped = 0;
    for (madi_gate_t *gate = s->gates; gate; gate = gate->next) {
        if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_DOWN)
            continue;
        for (madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate) {
            dropped += conn->unopened_bytes;
            if (conn->unopened_bytes)
                madi_conn_drop(conn);
        }
    }
    return dropped > 0;
}

void madi_unopened_message(madi_conn_t *conn, size_t len)
{
    /* the structure is charged for every packet, although only the first packet of a message needs it */
    int64_t n = (int64_t)(sizeof(madi_rx_msg_t) + len);
    madi_gate_t *gate = conn->gate;
    if (!madi_charge(gate, MADI_CHARGE_WAITING, n) &&
        (!lost_messages_drop(gate->session) || !madi_charge(gate, MADI_CHARGE_WAITING, n))) {
        madi_ledger_pass(gate, MADI_CHARGE_WAITING);
        return;
    }
    conn->unopened_bytes += n;
    if (MADI_UNLIKELY(atomic_load_explicit(&gate->session->ledger.over, memory_order_relaxed)) &&
        !lost_messages_drop(gate->session))
        madi_gate_work(gate); /* the next round of progress ends the connection of the peer with the largest charge */
}
