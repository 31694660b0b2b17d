/* SPDX-License-Identifier: BSD-3-Clause */
/* A gate: a peer with which communication has begun, by one link for all channels of a lane. */
#ifndef MADI_OBJECT_GATE_H
#define MADI_OBJECT_GATE_H

#include "base/base.h"
#include "core/forward.h"
#include "core/link/ledger.h"
#include "core/object/conn.h"
#include "core/object/types.h"
#include "core/send/share.h"

#include <stdatomic.h>

#define MADI_CTRL_MAX 128 /* bytes of the longest control packet's body */

enum madi_gate_state { MADI_GATE_IDLE, MADI_GATE_CONNECTING, MADI_GATE_UP, MADI_GATE_DOWN };

struct madi_gate {
    madi_lock_t tx_lock; /* taken after session->lock */
    /* Constant, until the gate is released and used again. */
    mad_peer_t peer;
    int lane; /* forward.h; 0: of channels that the topology file does not name */
    mad_session_t *session;
    /* Written under session->lock; state also under tx_lock when it becomes UP or DOWN.  The other two are read with either
     * lock once state has this value. */
    _Atomic(int) state;  /* enum madi_gate_state */
    mad_status_t status; /* DOWN: the cause */
    madi_link_t *link;   /* UP: in use; DOWN: closed, and not freed yet; NULL: none */
    /* Under tx_lock.  NULL in a list: empty. */
    madi_conn_t *pending, *pending_last;           /* connections with packets to send */
    struct madi_ctrl *ctrl, **ctrl_tail;           /* control packets that the driver did not take yet */
    madi_rdv_send_t *granted, **granted_tail;      /* granted blocks to be sent */
    struct madi_handles *sends;                    /* madi_rdv_send by handle */
    bool prepared;                                 /* one of these has a prepared piece in the driver's memory */
    bool shares;                                   /* the peer has shared the last block that it could share */
    madi_conn_t **by_number;                       /* by this side's channel numbers; NULL: free */
    uint32_t n_numbers, used_numbers, next_number; /* entries of by_number; those in use; where to look for a free one */
    /* Any lock. */
    _Atomic(int) work; /* not 0: in session->work, the list of gates with something to send */
    /* Under session->lock. */
    void *half;      /* the message or packet (madi_rx_packet) whose body is arriving; NULL: none */
    bool half_first; /* half is a message, with its first packet */
    _Alignas(16) unsigned char rx_ctrl[MADI_CTRL_MAX]; /* the body of the control packet that is arriving */
    madi_conn_t **by_remote;                           /* by the peer's channel numbers; NULL: not announced */
    uint32_t n_remote;                                 /* entries of by_remote */
    madi_conn_t *conns;                                /* all that are in use; changed under both locks */
    madi_conn_t *retired;                              /* connections for reuse, for any channel */
    madi_rdv_recv_t *incoming;                         /* rendezvous blocks that are being received */
    madi_rdv_recv_t *pulls, **pulls_tail;              /* those of them that are read from the sender's memory */
    madi_share_t *share;                               /* NULL: no block of this peer could be shared yet */
    uint64_t shared_in;                                /* number of shared blocks among the pulled and the taken ones */
    uint64_t pulled_blocks, pulled_bytes;              /* read from the peer's memory */
    uint64_t taken_blocks, taken_bytes;                /* received after a grant */
    uint64_t placed_blocks, placed_bytes;              /* written here by the peer */
    int64_t deadline;                                  /* connecting: when it fails; down: when it went down (ns) */
    int64_t call_at;            /* connecting by the peer's attempt, without a link: when to connect again (ns); 0: not */
    int sharers;                /* number of other peers (numbers) that share the gate */
    bool quiet;                 /* the program does not know of it, and gets no events */
    bool cut;                   /* an attempt ended without an answer: the peer has too many connections, or has ended */
    int n_cuts;                 /* searches that were repeated for that */
    mad_status_t refusal;       /* connecting: AUTH or VERSION if an attempt was refused so; not authenticated */
    bool lacking;               /* an attempt failed for lack of memory or descriptors in this process */
    bool apart;                 /* an attempt got no answer: the network or the host may be down for a short time */
    struct madi_hello *hello;   /* this process's chosen attempt, which proves the key; NULL: none is chosen yet */
    int n_attempts;             /* this process's attempts, the chosen one included */
    struct madi_search *search; /* search.c: while it is connecting; NULL: no search runs */
    int process;                /* connecting: the peer's process number, if it is on this host; 0: not known */
    bool stop_told;             /* a log line has said that the peer is stopped */
    bool bye;                   /* BYE has arrived: the peer has shut down in order */
    bool bye_sent;              /* BYE was sent: this process is shutting down */
    uint64_t peer_floor;        /* credit bytes that the peer gives each connection; 0: not known yet */
    madi_gate_t *next;          /* all gates of the session */
    madi_gate_t *next_work;     /* in session->work; under session->work_lock */
    bool late;                  /* no way was connected within MAD_CONNECT_TIMEOUT, and none was chosen */
    uint64_t refused;           /* under tx_lock: number of packets that the driver did not take at once */
    uint64_t granted_blocks, granted_bytes; /* under tx_lock: sent after a grant */
    uint64_t shared_out;                    /* under tx_lock: number of shared blocks among them */
    uint64_t put_blocks, put_bytes;         /* under tx_lock: written into the receiver's memory */
    uint64_t fetched_blocks, fetched_bytes; /* under tx_lock: read by the receiver */
    madi_traffic_t before;                  /* under both locks: traffic of retired connections */
    madi_adapter_t *adapter;       /* under session->lock: the adapter of its link, or of its last one; NULL: never up */
    struct madi_failure *failures; /* paths.c: paths that failed, with the reasons */
    void *forward;                 /* forward.h: the forwarder's state of a gate that carries fragments; else NULL */
    bool forward_first;            /* under tx_lock: fragments have the next turn, before messages */
    madi_ledger_t ledger;          /* memory and work that the peer causes here */
};

#endif
