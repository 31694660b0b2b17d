/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and their numbers on a link; charges for channels that are not open.  Under session->lock. */
#ifndef MADI_CONN_H
#define MADI_CONN_H

#include "core/object/gate.h"

/* return NULL if out of memory, or if no number is free */
madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate);
/* Take a connection out of its gate, give its number back, and keep it for reuse.  Under both locks.  Precondition:
 * nothing else refers to the connection. */
void madi_conn_rest(madi_conn_t *conn);
madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number); /* return the connection with this number; NULL if the
                                                                       * number is not in use; under gate->tx_lock */
/* Add the connection's traffic to *sum.  Called under gate->tx_lock, too. */
void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum);
madi_traffic_t madi_conns_traffic(const madi_gate_t *gate); /* traffic of all connections of a gate so far; called under
                                                             * gate->tx_lock, too */
static inline madi_conn_t *madi_conn_by_remote(const madi_gate_t *gate, uint16_t number)
{
    return MADI_LIKELY(number < gate->n_remote) ? gate->by_remote[number] : NULL;
}

/* This folder's part of a gate (gate->numbers). */
struct madi_conn_gate *madi_conn_gate_new(void); /* return NULL if out of memory */
void madi_conn_gate_reset(madi_gate_t *gate);    /* reset this folder's part of a gate for another peer, when no connection
                                                  * is in use */
void madi_conn_gate_free(madi_gate_t *gate);     /* free all connections, and this folder's part of the gate if there is
                                                  * one */

/* Charges of a channel that the peer has announced and that is not open here. */
/* charge an announced channel; if there are too many, charge nothing and return false */
bool madi_unopened_announced(madi_conn_t *conn);
void madi_unopened_drained(madi_conn_t *conn); /* record that no packet of the channel waits any more */
void madi_unopened_end(madi_conn_t *conn);     /* end all charges: the channel was opened, or the connection has ended */

#endif
