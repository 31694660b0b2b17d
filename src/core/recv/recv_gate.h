/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of a gate that belongs to this folder.  Private to src/core/recv: the functions of receive.h are for others. */
#ifndef MADI_RECV_GATE_H
#define MADI_RECV_GATE_H

#include "core/recv/receive.h"
#include "core/send/share.h"

/* Rendezvous blocks that come from one peer.  Under session->lock.  NULL in a list: empty. */
struct madi_recv_gate {
    madi_rdv_recv_t *incoming;            /* all blocks that are being received */
    madi_rdv_recv_t *pulls, **pulls_tail; /* blocks that this process reads from the sender's memory */
    madi_share_t *share; /* lengths for which sharing was tried with this peer; NULL if no block could be shared yet */
    madi_recv_counts_t count;
};

#endif
