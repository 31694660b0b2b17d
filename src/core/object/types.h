/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of the core's objects, for headers that only point to them.
 *
 *   session -- peers -- gate (a peer with which communication has begun: one link, all channels)
 *      |                  |
 *   channels ----------- conn (channel x peer) -- tx (a message being packed or sent)
 *                                              \- rx (a message that arrived)
 *
 * Each object has a header in this folder if folders below its owner use its fields; else its header is in its owner's
 * folder.  The fields of a structure are grouped by the lock that protects them.  State that only one folder uses is
 * in a part of the object: struct madi_FOLDER_OBJECT is private to src/core/FOLDER (tests/build/fields.py).
 *
 * Locks, in this order (see doc/locking.md):
 *   session->lock   everything that is received, matched, or connected; progress
 *   gate->tx_lock   everything that leaves for one peer
 * conn->packing is held by the one message being packed; it is taken first and released under tx_lock.
 * User code is called with none of them. */
#ifndef MADI_OBJECT_TYPES_H
#define MADI_OBJECT_TYPES_H

#include "core/driver.h"

#include <madeleine.h>

typedef struct madi_gate madi_gate_t;
typedef struct madi_conn madi_conn_t;
typedef struct madi_tx madi_tx_t;
typedef struct madi_rx_msg madi_rx_msg_t;
typedef struct madi_peer madi_peer_t;
typedef struct madi_posted madi_posted_t;
typedef struct madi_rdv_send madi_rdv_send_t;
typedef struct madi_rdv_recv madi_rdv_recv_t;

#endif
