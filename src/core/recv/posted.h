/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that are posted before their messages arrive. */
#ifndef MADI_POSTED_H
#define MADI_POSTED_H

#include "core/object/request.h"
#include "core/object/types.h"

/* A receive that was posted before its message arrived. */
struct madi_posted {
    mad_request_t request; /* must be first: madi_request_free(&request) then frees the posted receive */
    struct madi_posted *next;
    madi_conn_t *conn;
    int offer;                /* the driver's number of the offer to the sender; -1: none */
    bool claimed;             /* the sender has claimed the offer: it writes the block, or has written it */
    struct madi_posted *ring; /* if pooled: the next in the ring of pooled receives */
    int n;
    mad_block_t blocks[];
};

/* Blocks for which a pooled receive has room; the most pooled receives of a session. */
#define MADI_POSTED_BLOCKS 2
#define MADI_POSTED_POOLED 256

/* Make a posted receive of the program's blocks, not in its connection's list yet.  NULL: no memory.  Under
 * session->lock. */
madi_posted_t *madi_posted_new(madi_conn_t *conn, const mad_block_t *blocks, int n, bool async);

void madi_posted_ring_free(mad_session_t *session); /* free all pooled receives at the end of the session */

void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *msg);
void madi_posted_next(madi_conn_t *conn); /* remove the first posted receive, whose message is here; advertise the next */
/* Receive a short packet directly into the first posted receive of its connection, if the packet is the whole message and
 * fits.  Otherwise change nothing, and return false. */
bool madi_posted_take_short(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_foreign_t body);
void madi_posted_offer(madi_conn_t *conn);        /* advertise the first posted receive to the sender, if possible */
bool madi_posted_withdraw(madi_posted_t *posted); /* withdraw the offer; false if the sender has begun to write */

#endif
