/* SPDX-License-Identifier: BSD-3-Clause */
/* A rendezvous or continued block that is being received.  Private to src/core/recv. */
#ifndef MADI_RDV_RECV_H
#define MADI_RDV_RECV_H

#include "core/object/rx.h"

/* A rendezvous or continued block that is being received.  Lengths and offsets in bytes. */
struct madi_rdv_recv {
    madi_rx_msg_t *msg;
    madi_gate_t *gate;
    uint64_t len, received, eager;
    uint64_t arriving; /* with rails: bytes of pieces that have begun to arrive and are not complete */
    uint64_t end;    /* offset: the sender sends the bytes before `end`; this side reads the rest from the sender's memory */
    uint64_t read;   /* bytes read so far */
    bool shared;     /* the sender may write all bytes before `end` directly, except the last ones */
    bool timed;      /* the block's duration is measured, to choose whether blocks are shared (share.h) */
    int64_t granted; /* ns, if timed: time at which the grant was sent */
    uint32_t handle;
    void *bounce;          /* buffer for a scattered destination: filled completely, then spread over the pieces */
    madi_waitable_t *wait; /* completion that occurs when the block has arrived; NULL if none */
    struct madi_rdv_recv *next, *prev; /* neighbours in the gate's list of blocks */
    uint64_t at;     /* the block's address in the sender's memory, if this side reads it there; 0 if the sender sends it */
    uint32_t sender; /* the sender's handle of the block */
    int64_t began, piece_began;      /* ns, while tracing */
    struct madi_rdv_recv *next_pull; /* the next block in the gate's list of blocks that are read */
    int n;
    struct iovec pieces[];
};

#endif
