/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate that belongs to this folder.  Private to src/core/conn: the functions of conn.h are for others. */
#ifndef MADI_CONN_GATE_H
#define MADI_CONN_GATE_H

#include "core/object/conn.h"

/* The numbers of channels on a gate's link (channel_number.c), and connections that are not in use. */
struct madi_conn_gate {
    madi_conn_t **by_number;        /* connections by this side's numbers; NULL for a free number; under tx_lock */
    uint32_t n;                     /* entries of by_number; under tx_lock */
    uint32_t n_used;                /* number of entries that are in use; under tx_lock */
    uint32_t next;                  /* index at which the search for a free entry begins (modulo n); under tx_lock */
    madi_conn_t *retired;           /* retired connections, to be reused for any channel; changed under both locks */
    madi_traffic_t retired_traffic; /* traffic of all connections that are retired; under both locks */
    uint64_t peer_floor;            /* credit bytes that the peer gives each connection; 0 if not known yet; under
                                     * session->lock */
};

#endif
