/* SPDX-License-Identifier: BSD-3-Clause */
/* A message that is being packed or sent. */
#ifndef MADI_OBJECT_TX_H
#define MADI_OBJECT_TX_H

#include "core/send/policy.h"
#include "core/object/message.h"

#include <sys/uio.h>

/* A part of a message in packing order: a run of blocks in wire format, or one block that lies elsewhere. */
typedef struct madi_piece {
    const void *base;   /* block: its address; NULL: in segments */
    struct iovec *segs; /* block in several segments: allocated; else NULL */
    int n_segs;
    bool run;      /* a run: off and len are a range of the stage buffer */
    bool later;    /* block: sent with its value at mad_end_packing */
    uint64_t desc; /* block: its descriptor */
    uint32_t off, len;
    void *own;       /* block: a copy, to be freed with the message; NULL: none */
    uint32_t handle; /* rendezvous block: its handle, else 0 */
} madi_piece_t;

/* A message that is being sent.  Its places, with the lock or thread that protects it there:
 *
 *   conn->spare      while it is packed, by the holder of conn->packing; and between messages, for reuse
 *   conn->queue      from the flush or the end on, under tx_lock; after a flush the packer still adds to it
 *   conn->deferred   a one-call message that waits for the end of another message's packing; under tx_lock
 *   in no list       all_sent, with rendezvous blocks in flight, which rdv_pending counts; under tx_lock
 *
 * A message is complete when it is ended, all_sent, not queued, and rdv_pending is 0 (madi_tx_check_complete).  With a
 * request it is freed then; else the thread that ended it waits, and frees it. */
struct madi_tx {
    mad_message_t base;
    madi_conn_t *conn;
    madi_tx_t *next; /* in conn->queue */
    mad_request_t *request;
    madi_waitable_t *wait; /* of the thread that ends it */
    struct iovec tail;     /* MADI_PLAIN_TAILED: the last block's bytes; its descriptor is the end of `small` */
    unsigned char *stage;  /* starts as small; header space first */
    uint32_t stage_len, stage_cap, run_start;
    madi_piece_t *pieces; /* NULL while the whole message is one run */
    uint32_t n_pieces, cap_pieces, next_piece;
    uint32_t seq;
    uint32_t rdv_pending; /* rendezvous blocks not finished */
    uint32_t n_held;      /* those of rdv_pending that wait for the end of the message */
    uint64_t cont_left;   /* bytes of piece next_piece that remain, while it is continued in further packets; else 0 */
    bool cont_busy;       /* the driver holds a packet of the continued block: cont_op and cont_hdr */
    madi_op_t cont_op;
    madi_wire_hdr_t cont_hdr;
    int64_t began;        /* ns, while tracing: when it was queued */
    uint64_t put_at, put; /* address of the first block at the receiver, if offered (else 0); bytes written there */
    bool put_tried;       /* the offer was looked for */
    bool by_peer;         /* the peer may read its long block from this process's memory */
    bool polled;          /* the sender polls for its completion, and can move a part of the long block */
    bool started, ended, queued, all_sent;
    bool flushed; /* set by the packer: progress may be sending it, so pieces and stage are changed under tx_lock only */
    _Alignas(16) unsigned char small[MADI_STAGE];
};

#endif
