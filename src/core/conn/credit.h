/* SPDX-License-Identifier: BSD-3-Clause */
/* Credits: the number of bytes that a sender may have in flight on a connection, and how the receiver returns them.
 * Under session->lock. */
#ifndef MADI_CREDIT_H
#define MADI_CREDIT_H

#include "core/object/conn.h"

void madi_credit_send(madi_conn_t *conn); /* send the credit limit to the sender */
static inline uint64_t madi_credit_consumed(const madi_conn_t *conn)
{
    return conn->rx_limit_due - (uint64_t)conn->rx_until_limit;
}
static inline void madi_credit_return(madi_conn_t *conn, uint32_t cost)
{
    conn->rx_until_limit -= cost;
    if (MADI_UNLIKELY(conn->rx_until_limit < 0))
        madi_credit_send(conn);
}
/* like madi_credit_return, but the credit is sent when progress is idle */
void madi_credit_return_later(madi_conn_t *conn, uint32_t cost);
void madi_credit_forget(madi_conn_t *conn);
void madi_credit_begin_rx(madi_conn_t *conn); /* begin the receiving side anew, with the floor as window */
void madi_credit_begin_tx(madi_conn_t *conn); /* like madi_credit_begin_rx, but for the sending side */
/* Record the credit bytes that the peer gives each connection.  Call this before anything is sent. */
void madi_credit_floor(madi_gate_t *gate, uint64_t floor);

/* For the sending side.  Called under gate->tx_lock. */
static inline void madi_conn_slow(madi_conn_t *conn) /* take the sending side off its short path */
{
    conn->credit_left += conn->fast_credits;
    conn->fast_credits = 0;
}
static inline uint64_t madi_credit_used(const madi_conn_t *conn)
{
    return conn->credit_limit - conn->credit_left - conn->fast_credits;
}

#endif
