/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate that belongs to this folder.  Private to src/core/send: the functions of send.h are for others. */
#ifndef MADI_SEND_GATE_H
#define MADI_SEND_GATE_H

#include "core/send/send.h"
#include "core/send/share.h"

/* Packets and blocks that are to be sent to one peer.  Under gate->tx_lock.  NULL in a list: empty. */
struct madi_send_gate {
    madi_conn_t *pending, *pending_last;      /* connections with packets to send */
    madi_rdv_send_t *granted, **granted_tail; /* granted blocks to be sent */
    struct madi_handles *blocks;              /* blocks that are announced and not complete (madi_rdv_send), by handle */
    bool prepared;                            /* true if an announced block has a prepared piece in the driver's memory */
    bool shares;                              /* true if the peer has shared the last block that it could share */
    madi_share_t *ways;                       /* whether announced blocks have proved faster; NULL: not known yet */
    madi_send_counts_t count;
};

#endif
