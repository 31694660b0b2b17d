/* SPDX-License-Identifier: BSD-3-Clause */
/* A message that is being packed or sent. */
#ifndef MADI_OBJECT_TX_H
#define MADI_OBJECT_TX_H

#include "core/send/policy.h"
#include "core/object/message.h"

#include <sys/uio.h>

/* Whether a long block goes into its message's packet or is announced; used where measured durations decide. */
typedef enum madi_way { MADI_WAY_OPEN, MADI_WAY_PACKET, MADI_WAY_ANNOUNCED } madi_way_t;

/* A part of a message in packing order: a run of blocks in wire format, or one block that lies elsewhere. */
typedef struct madi_piece {
    const void *base;   /* address of a block in one piece; NULL if the block is in segments */
    struct iovec *segs; /* the segments of a block, in allocated memory; NULL if the block is in one piece */
    int n_segs;         /* number of segments */
    bool run;           /* true for a run: off and len are a range of the stage buffer */
    bool later;         /* of a block: true if it is sent with its value at mad_end_packing */
    uint8_t way;        /* block: madi_way_t */
    bool timed;         /* of a block: true if its duration is recorded, to compare methods of sending */
    uint64_t desc;      /* block: its descriptor */
    uint32_t off, len;  /* a run's offset and length in bytes */
    void *copy;         /* a copy of a block, freed with the message; NULL if none */
    uint32_t handle;    /* rendezvous block: its handle, else 0 */
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
    madi_tx_t *next;        /* the next message in conn->queue or conn->deferred */
    mad_request_t *request; /* the request that completes with the message; NULL: the thread that ends the message waits */
    madi_waitable_t *wait;  /* the completion for which the ending thread waits; NULL if no thread waits */
    /* Fields of the packer; after a flush under tx_lock. */
    struct iovec tail;    /* MADI_PLAIN_TAILED: the last block's bytes; its descriptor is the end of `small` */
    unsigned char *stage; /* the stage buffer: `small`, or allocated; begins with room for the header */
    uint32_t stage_len;   /* bytes in stage, header space included */
    uint32_t stage_cap;   /* size of stage in bytes */
    uint32_t run_start;   /* offset in stage of the blocks that belong to no piece yet */
    madi_piece_t *pieces; /* array of pieces; NULL while the whole message is one run */
    uint32_t n_pieces;    /* number of pieces */
    uint32_t cap_pieces;  /* entries that are allocated */
    /* Under tx_lock. */
    uint32_t next_piece; /* the first piece that has not been sent */
    uint32_t seq;        /* the message's number in its connection */
    uint32_t
        rdv_pending; /* number of unfinished rendezvous blocks, plus 1 if the driver holds a packet of a continued block */
    madi_rdv_send_t *free_block; /* memory of a rendezvous block that has ended, for the next one; NULL if none */
    int64_t began;               /* ns, while tracing: time at which the message was queued */
    bool may_be_read;            /* true if the peer may read the long block from this process's memory */
    bool sender_polls;           /* the sender polls for the completion, so it can move a part of the long block */
    bool started;                /* true once the message's first packet was sent */
    bool ended;                  /* the program has ended it */
    bool queued;                 /* true if the message is in conn->queue or conn->deferred */
    bool all_sent;               /* all packets of the message were sent; announced blocks may be under way */
    bool flushed; /* set by the packing thread: progress may be sending the message, so pieces and stage need tx_lock */
    /* send: blocks that do not leave in the message's packets; under tx_lock. */
    struct madi_send_tx {
        uint32_t n_held;    /* number of the blocks in rdv_pending that wait for the end of the message */
        uint64_t cont_left; /* bytes of piece next_piece that remain, while it is continued in further packets; else 0 */
        bool cont_busy;     /* true while the driver holds a packet of the continued block, and uses cont_op and cont_hdr */
        madi_op_t cont_op;
        madi_wire_hdr_t cont_hdr;
        bool put_tried;     /* true once the sender has looked for the receiver's offer for the first block */
        uint64_t put_at;    /* address of the first block at the receiver; 0 if it was not offered */
        uint64_t put_bytes; /* number of bytes written at put_at */
    } sending;
    _Alignas(16) unsigned char small[MADI_STAGE];
};

#endif
