/* SPDX-License-Identifier: BSD-3-Clause */
/* A rendezvous block that is being sent.  Private to src/core/send. */
#ifndef MADI_RDV_SEND_H
#define MADI_RDV_SEND_H

#include "core/object/tx.h"

/* A rendezvous block that is being sent.  Lengths and offsets in bytes. */
struct madi_rdv_send {
    madi_op_t op; /* must be first */
    madi_tx_t *tx;
    const unsigned char *base; /* address of the block; NULL if the block is in segments */
    const struct iovec *segs;
    int n_segs;
    uint64_t len, sent;
    uint64_t end;    /* offset: the sender moves the bytes before `end`; equal to len unless the block is shared */
    uint64_t put_at; /* shared: the block's address at the receiver, if it can be written; else 0 */
    bool readable;   /* the block's address was announced */
    bool shared;
    bool fetched;   /* shared: the receiver has read the bytes from offset `end` on */
    void *prepared; /* the next piece, copied in advance into the driver's memory (see gate->send->prepared); NULL if none */
    size_t prepared_len;
    uint32_t receiver;
    uint32_t handle;
    bool granted;
    int busy;                   /* number of pieces that the driver holds */
    bool held;                  /* a LATER block of a message that has not ended: must not be sent yet */
    int64_t asked;              /* ns: time of the announcement, if the block's duration is recorded; else 0 */
    int64_t began, piece_began; /* ns, while tracing */
    madi_wire_hdr_t hdr;
    struct madi_rdv_send *next; /* the next block in the gate's list of granted blocks */
};

#endif
