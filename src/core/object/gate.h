/* SPDX-License-Identifier: BSD-3-Clause */
/* A gate: a peer with which communication has begun, by one link for all channels of a lane.
 *
 * This header has the fields of a gate that several folders use.  State of one folder only is in the part of that folder,
 * struct madi_FOLDER_gate, which is private to it (FOLDER/FOLDER_gate.h).  connect/gate_life.c makes all parts with the
 * gate. */
#ifndef MADI_OBJECT_GATE_H
#define MADI_OBJECT_GATE_H

#include "base/base.h"
#include "core/forward.h"
#include "core/inspect/counters.h"
#include "core/link/ledger.h"
#include "core/object/conn.h"
#include "core/object/types.h"

#include <stdatomic.h>

#define MADI_CTRL_MAX 128 /* bytes of the longest control packet's body */

enum madi_gate_state { MADI_GATE_IDLE, MADI_GATE_CONNECTING, MADI_GATE_UP, MADI_GATE_DOWN };

struct madi_gate {
    madi_lock_t tx_lock; /* taken after session->lock */
    /* Constant, until the gate is released and used again. */
    mad_peer_t peer;
    int lane; /* number of the lane (forward.h); 0: the lane of channels that the topology file does not name */
    mad_session_t *session;
    /* The parts of the folders. */
    struct madi_link_gate *out;        /* link: control packets that wait */
    struct madi_conn_gate *numbers;    /* conn: numbers of channels, connections for reuse */
    struct madi_send_gate *send;       /* send: packets and blocks that are to be sent */
    struct madi_recv_gate *recv;       /* recv: blocks that are being received */
    struct madi_connect_gate *connect; /* connect: how this gate connects, and why it ended */
    /* Written under session->lock; state also under tx_lock when it becomes UP or DOWN.  A thread that holds either
     * lock, and reads the state named beside `status` or `link`, may read that field too. */
    _Atomic(int) state;  /* enum madi_gate_state */
    mad_status_t status; /* DOWN: the cause */
    madi_link_t *link;   /* in state UP the link in use; in state DOWN a closed link that is not freed yet; NULL if none */
    _Atomic(int) n_announced; /* number of own blocks that are announced and not complete; written under tx_lock */
    /* Under session->lock, unless a field says otherwise. */
    madi_conn_t *conns;         /* all connections in use; changed under both locks */
    madi_conn_t **by_remote;    /* connections by the peer's channel numbers; an entry is NULL if not announced */
    uint32_t n_remote;          /* entries of by_remote */
    void *partial_rx;           /* the message or packet (madi_rx_packet) whose body is arriving; NULL: none */
    bool partial_rx_is_message; /* true if partial_rx is a message whose first packet is arriving */
    bool bye_received;          /* BYE has arrived: the peer has shut down in order */
    _Alignas(16) unsigned char partial_ctrl[MADI_CTRL_MAX]; /* the body of the control packet that is arriving */
    madi_gate_t *next;                                      /* the next gate of the session */
    struct madi_rails *rails; /* rails.h: the links that are used together; NULL if there is one link only; changed under
                               * both locks */
    uint32_t rails_number;    /* number of the agreement on rails, with MADI_RAILS_JOIN on the active side; 0 if there are no
                               * rails */
    madi_gate_t *rail_of;     /* the gate for which this gate connects a further rail; this gate itself when that is done;
                               * else NULL */
    void *forward;            /* forward.h: the forwarder's state of a gate that carries fragments; NULL if none */
    madi_ledger_t ledger;     /* memory and work that the peer causes here; atomic */
    uint64_t counts[MADI_GATE_COUNTS]; /* counters, by MADI_GATE_COUNT */
};

/* Add n to a gate's counter, which is a row N of counters.h.  Each counter has one lock: session->lock or gate->tx_lock. */
#define MADI_GATE_COUNT(gate, key, n) madi_gate_count(gate, MADI_GATE_COUNT_##key, n)
static inline void madi_gate_count(madi_gate_t *gate, enum madi_gate_place place, uint64_t n)
{
    gate->counts[place] += n;
}

#endif
