/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels that peers speak of and the program has not open: their messages wait, in case it opens them.  Only the ledger
 * bounds how many there are, and how much waits: the credits of a connection bound one channel, and names are free. */
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/object/gate.h"
#include "core/recv/receive.h"

/* Discard messages of lost peers first: perhaps they are never opened, and only the program could release them otherwise.
 * True if there were any. */
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
    int64_t n = (int64_t)(sizeof(madi_rx_msg_t) + len); /* more than a further packet has, which is as well */
    madi_gate_t *gate = conn->gate;
    if (!madi_charge(gate, MADI_CHARGE_WAITING, n) &&
        (!lost_messages_drop(gate->session) || !madi_charge(gate, MADI_CHARGE_WAITING, n))) {
        madi_ledger_pass(gate, MADI_CHARGE_WAITING);
        return;
    }
    conn->unopened_bytes += n;
    if (MADI_UNLIKELY(atomic_load_explicit(&gate->session->ledger.over, memory_order_relaxed)) &&
        !lost_messages_drop(gate->session))
        madi_gate_work(gate); /* and the peer that has most is ended */
}
