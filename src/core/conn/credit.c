/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits: the number of bytes that a sender may have in flight on a connection, and how the receiver returns them. */
#include "base/knob.h"
#include "core/conn/conn_gate.h"
#include "core/conn/conn_session.h"
#include "core/conn/credit.h"
#include "core/link/link.h"
#include "core/send/policy.h"
#include "core/wire/wire.h"

void madi_credit_send(madi_conn_t *conn)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CREDIT, .channel = conn->remote, .length = sizeof(madi_wire_credit_t)};
    madi_wire_credit_t credit;
    mad_session_t *session = conn->gate->session;
    int64_t more = (int64_t)conn->rx_window;
    if (session->credit_due == conn)
        session->credit_due = NULL;
    if (more > session->conn->credit_budget)
        more = session->conn->credit_budget;
    if (conn->rx_window < MADI_CREDIT_WINDOW_MAX && more > 0) { /* the receiver keeps pace, so allow more bytes in flight */
        conn->rx_window += (uint64_t)more;
        session->conn->credit_budget -= more;
    }
    credit.limit = conn->rx_limit = madi_credit_consumed(conn) + conn->rx_window;
    conn->rx_limit_due = conn->rx_limit - conn->rx_window / 2;
    conn->rx_until_limit = (int64_t)(conn->rx_window / 2);
    madi_gate_ctrl(conn->gate, &hdr, &credit);
}

/* Return credit, but put off the new limit until progress is idle.  A sender with much of its window left does not need
 * the limit between a long message and the answer. */
void madi_credit_return_later(madi_conn_t *conn, uint32_t cost)
{
    mad_session_t *session = conn->gate->session;
    conn->rx_until_limit -= cost;
    if (conn->rx_until_limit >= 0)
        return;
    if (session->credit_due && session->credit_due != conn)
        madi_credit_send(session->credit_due);
    session->credit_due = conn;
    if (conn->rx_window < MADI_CREDIT_WINDOW_MAX || conn->rx_until_limit < -(int64_t)(conn->rx_window / 4))
        madi_credit_send(conn);
}

/* Return the connection's credit beyond its floor to the session. */
void madi_credit_forget(madi_conn_t *conn)
{
    if (conn->gate->session->credit_due == conn)
        conn->gate->session->credit_due = NULL;
    conn->gate->session->conn->credit_budget += (int64_t)(conn->rx_window - conn->rx_floor);
    conn->rx_window = conn->rx_floor;
}

void madi_credit_begin_rx(madi_conn_t *conn)
{
    int64_t floor = madi_knob_int(MADI_KNOB_CREDIT_FLOOR);
    conn->rx_cost_before += madi_credit_consumed(conn);
    conn->rx_limit = conn->rx_window = conn->rx_floor = (uint64_t)floor;
    conn->rx_limit_due = (uint64_t)floor / 2;
    conn->rx_until_limit = floor / 2;
}

void madi_credit_begin_tx(madi_conn_t *conn)
{
    int64_t floor = madi_knob_int(MADI_KNOB_CREDIT_FLOOR);
    conn->tx_cost_before += madi_credit_used(conn);
    conn->fast_credits = 0;
    conn->credit_limit = conn->credit_left =
        conn->gate->numbers->peer_floor ? conn->gate->numbers->peer_floor : (uint64_t)floor;
}

void madi_credit_floor(madi_gate_t *gate, uint64_t floor)
{
    gate->numbers->peer_floor = floor;
    madi_lock(&gate->tx_lock);
    /* connections that were made before the floor was known have sent nothing */
    for (madi_conn_t *c = gate->conns; c; c = c->next_of_gate)
        c->credit_limit = c->credit_left = floor;
    madi_unlock(&gate->tx_lock);
}
