/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that send messages offer each other and the rest of the core.  Included by core.h.
 *
 *   pack.c      the blocks of a message      tx.c        its structure
 *   pack_end.c  its end, one-call forms      send.c      packets, the queue of a connection, credits
 *   now.c       messages that leave at once, from the caller's memory
 *   rdv_send.c  blocks that are announced, and sent when granted
 *   cont.c      blocks that go on in packets of their own */
#ifndef MADI_SEND_H
#define MADI_SEND_H

#include "core/core.h"

/* tx.c */
madi_tx_t *madi_tx_new(mad_session_t *session, madi_conn_t *conn);
void madi_tx_reset_pieces(madi_tx_t *tx); /* a message that was sent in pieces can be used again */
void madi_tx_free(madi_tx_t *tx);
static inline void madi_tx_reset(madi_tx_t *tx) /* the same of a plain one */
{
    tx->stage_len = tx->run_start = sizeof(madi_wire_hdr_t);
    tx->base.plain = 1;
}

/* pack.c */
/* The pieces of a strided block, allocated; NULL: the message has failed.  Of either side. */
struct iovec *madi_strided(mad_connection_t *cnx, void *base, size_t len, size_t stride, size_t count);
mad_status_t madi_tx_add(madi_tx_t *tx, const void *buf, size_t len, mad_send_mode_t smode, mad_receive_mode_t rmode);
mad_status_t madi_tx_close_run(madi_tx_t *tx); /* what was staged since the last piece becomes a piece */
void madi_tx_lock(madi_tx_t *tx); /* tx_lock, when the message was flushed */
void madi_tx_unlock(madi_tx_t *tx);
mad_status_t madi_tx_settle(madi_tx_t *tx);    /* the end: LATER segments take their values where they must be copied */

/* now.c */
/* Send a message of small blocks, if its way is free.  False: nothing was done; they may be too long, or not valid. */
bool madi_blocks_send_now(madi_conn_t *conn, const mad_block_t *blocks, int n);

/* pack_end.c */
void madi_packing_release(madi_conn_t *conn); /* give the connection to the next message; under gate->tx_lock */

/* send.c; under gate->tx_lock */
bool madi_tx_send_whole(madi_tx_t *tx); /* an ended message in one packet, at once; false: nothing was done */
/* An ended message whose last block goes on in a packet of its own, at once; false: nothing was done, but a block may have been
 * announced.  It is not over while tx->cont_busy. */
bool madi_tx_send_begun(madi_tx_t *tx);
void madi_tx_check_complete(madi_tx_t *tx);
void madi_conn_quick(madi_conn_t *conn); /* see whether a message may go at once, from now on */
static inline void madi_conn_slow(madi_conn_t *conn) /* it may not */
{
    conn->credit_left += conn->quick;
    conn->quick = 0;
}
static inline uint64_t madi_credit_used(const madi_conn_t *conn)
{
    return conn->credit_limit - conn->credit_left - conn->quick;
}
bool madi_conn_pump(madi_conn_t *conn); /* true: nothing left to send */
void madi_conn_fail(madi_conn_t *conn, mad_status_t status);
bool madi_conn_wants_link(const madi_conn_t *conn); /* what it waits for is the link, not credits */
void madi_conn_kick(madi_conn_t *conn); /* put into the gate's list of pending connections */
void madi_tx_mismatch(madi_conn_t *conn, const madi_wire_mismatch_t *mm);

/* cont.c; under gate->tx_lock */
/* True if a block of that length, which is not held back, goes on in a packet of its own if there is credit for it. */
static inline bool madi_cont_is(const madi_caps_t *caps, size_t len)
{
    return caps->cont_min && len >= caps->cont_min && len < caps->rdv_min && len + sizeof(madi_wire_hdr_t) <= caps->chunk_max;
}
/* Credit that the rest of a block uses. */
static inline uint64_t madi_cont_cost(uint64_t left)
{
    return madi_wire_cost(sizeof(madi_wire_hdr_t) + left);
}
/* Send the rest of the block that has begun, and ahead of it the packet of so many bytes in vec, of n pieces, which has room for
 * two more; 0: none.  False: the link is full. */
bool madi_cont_send(madi_tx_t *tx, struct iovec *vec, int n, size_t ahead);

/* rdv_send.c; under gate->tx_lock */
/* Give a block its handle (again); 0: no memory.  eager: bytes that go ahead; held: until the message has ended. */
uint32_t madi_rdv_announce(madi_tx_t *tx, madi_piece_t *piece, uint32_t eager, bool held, bool readable);
/* Has the receiver offered a place for this block?  Then a stride of it is written there: tx->put. */
bool madi_tx_put(madi_tx_t *tx, const madi_piece_t *piece);
void madi_rdv_prepare(madi_gate_t *gate, uint32_t handle); /* its announcement has left: what can be done meanwhile? */
void madi_tx_later(madi_tx_t *tx); /* it has ended: blocks that were held may go */
void madi_rdv_granted(madi_gate_t *gate, const madi_wire_grant_t *grant);
void madi_rdv_shared(madi_gate_t *gate, const madi_wire_share_t *share);
void madi_rdv_fail_all(madi_gate_t *gate, mad_status_t status);
bool madi_rdv_pump(madi_gate_t *gate);

#endif
