/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that are posted before their messages arrive. */
#ifndef MADI_POSTED_H
#define MADI_POSTED_H

#include "core/conn/request.h"
#include "core/object/request.h"
#include "core/object/session.h"
#include "core/object/types.h"
#include "core/recv/short.h"
#include "core/wire/wire.h"

/* A receive that was posted before its message arrived. */
struct madi_posted {
    mad_request_t request; /* must be first: madi_request_free(&request) then frees the posted receive */
    struct madi_posted *next;
    madi_conn_t *conn;
    uint64_t length_word;     /* the packet's length in the first header word of the short packet that this receive takes;
                               * MADI_POSTED_LONG if it takes none */
    uint64_t desc;            /* the descriptor of the block in this short packet */
    int offer;                /* the driver's number of the offer to the sender; -1 if none */
    bool claimed;             /* true if the sender has claimed the offer, and writes or has written the block */
    struct madi_posted *ring; /* if pooled: the next in the ring of pooled receives */
    int n;
    mad_block_t blocks[];
};

#define MADI_POSTED_LONG (UINT64_C(0xffffffff) << 32) /* longer than every short packet */

/* Number of blocks for which a pooled receive has room; maximum number of pooled receives of a session. */
#define MADI_POSTED_BLOCKS 2
#define MADI_POSTED_POOLED 256

/* Make a posted receive of the program's blocks, not in its connection's list yet.  NULL if out of memory.  Under
 * session->lock. */
madi_posted_t *madi_posted_new(madi_conn_t *conn, const mad_block_t *blocks, int n, bool async);

/* Fill in all fields of a posted receive but the request's own.  Under session->lock. */
static inline void madi_posted_fill(madi_posted_t *p, madi_conn_t *conn, const mad_block_t *blocks, int n)
{
    p->request.posted = p;
    atomic_store_explicit(&p->request.used, true, memory_order_relaxed);
    p->next = NULL;
    p->conn = conn;
    p->length_word = MADI_POSTED_LONG;
    if (n == 1 && blocks->len <= MADI_SHORT_BLOCK) {
        p->length_word = (MADI_WIRE_DESC_SIZE + blocks->len) << 32;
        p->desc = madi_wire_desc(blocks->len, MADI_WIRE_INLINE, blocks->receive_mode, blocks->send_mode);
    }
    p->offer = -1;
    p->claimed = false;
    p->n = n;
    for (int i = 0; i < n; i++)
        p->blocks[i] = blocks[i];
}

/* Like madi_posted_new, for a block that a short packet can hold, with a structure of the pool that was used before.
 * Return NULL if the next structure of the pool is in use. */
static inline madi_posted_t *madi_posted_reuse(mad_session_t *session, madi_conn_t *conn, const mad_block_t *block)
{
    madi_posted_t *last = session->recv.posted_ring, *p;
    /* pairs with madi_request_free */
    if (MADI_UNLIKELY(!last || atomic_load_explicit(&(p = last->ring)->request.used, memory_order_acquire)))
        return NULL;
    session->recv.posted_ring = p;
    madi_request_reuse(&p->request);
    madi_posted_fill(p, conn, block, 1);
    return p;
}

void madi_posted_ring_free(mad_session_t *session); /* free all pooled receives at the end of the session */

void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *msg);
void madi_posted_next(madi_conn_t *conn);  /* remove the first posted receive, whose message is here; advertise the next */
void madi_posted_offer(madi_conn_t *conn); /* advertise the first posted receive to the sender, if possible */
bool madi_posted_withdraw(madi_posted_t *posted); /* withdraw the offer; false if the sender has begun to write */

#endif
