/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and their numbers on a link; charges for channels that are not open.  Under session->lock. */
#ifndef MADI_CONN_H
#define MADI_CONN_H

#include "core/object/gate.h"

madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate); /* NULL: no memory, or no number is free */
void madi_conns_free(madi_gate_t *gate);
madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number); /* under gate->tx_lock; NULL: not in use */
void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum); /* add its traffic to sum; also under gate->tx_lock */
static inline madi_conn_t *madi_conn_by_remote(const madi_gate_t *gate, uint16_t number)
{
    return MADI_LIKELY(number < gate->n_remote) ? gate->by_remote[number] : NULL;
}

/* Charges of a channel that is not open here. */
bool madi_unopened_announced(madi_conn_t *conn); /* charge an announced channel; false: too many, nothing is charged */
void madi_unopened_drained(madi_conn_t *conn);   /* no packet waits any more */
void madi_unopened_end(madi_conn_t *conn);       /* the channel was opened, or the connection has ended */

#endif
