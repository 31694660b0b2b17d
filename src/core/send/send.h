/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that leave, under gate->tx_lock: which of their packets the driver gets, and when.
 *
 *   queue.c     packets, the queue of a connection      cont.c    continued blocks: those whose rest follows in packets of its own
 *   rdv_send.c  blocks that are announced, and sent when granted
 *   close.c     the end of a channel's number           policy.h  the path of a block */
#ifndef MADI_SEND_H
#define MADI_SEND_H

#include "core/conn/credit.h"
#include "core/object/tx.h"
#include "core/wire/wire.h"

/* Counters of what was sent to one peer. */
typedef struct madi_send_counts {
    uint64_t granted_blocks, granted_bytes; /* blocks sent after a grant */
    uint64_t shared_blocks;                 /* shared blocks; granted_blocks counts these too */
    uint64_t put_blocks, put_bytes;         /* blocks written into the receiver's memory */
    uint64_t fetched_blocks, fetched_bytes; /* blocks that the receiver has read */
} madi_send_counts_t;

/* send_gate.c: this folder's part of a gate (gate->send).  The caller holds gate->tx_lock. */
struct madi_send_gate *madi_send_gate_new(void); /* return NULL if out of memory */
void madi_send_gate_reset(madi_gate_t *gate);    /* reset this folder's part of a gate for another peer, when no block is
                                                  * announced */
void madi_send_gate_shrink(madi_gate_t *gate);   /* free what was learned about the peer */
void madi_send_gate_free(madi_gate_t *gate);     /* free the part if there is one */
const madi_send_counts_t *madi_send_counts(const madi_gate_t *gate);
bool madi_rdv_none(const madi_gate_t *gate);   /* true if no block is announced and not complete */
bool madi_rdv_queued(const madi_gate_t *gate); /* true if granted blocks are to be sent */
/* In the child of a fork: empty the lists, and call lose for the message of each announced block. */
void madi_send_gate_lose(madi_gate_t *gate, void (*lose)(madi_tx_t *tx));

/* queue.c.  The caller holds gate->tx_lock. */
/* send an ended message in one packet, immediately; if impossible, change nothing and return false */
bool madi_tx_send_whole(madi_tx_t *tx);
/* Send, now, an ended message whose last block is continued in a packet of its own.  Return false if nothing was sent; a
 * block may then have been announced.  The message is incomplete while madi_cont_is_busy. */
bool madi_tx_send_begun(madi_tx_t *tx);
void madi_tx_check_complete(madi_tx_t *tx);
void madi_conn_quick(madi_conn_t *conn); /* enable the short path of sending (conn->fast_credits) if nothing prevents it */
bool madi_conn_pump(madi_conn_t *conn);  /* send from the connection's queue; return true if nothing is left to send */
void madi_conn_fail(madi_conn_t *conn, mad_status_t status);
bool madi_conn_wants_link(const madi_conn_t *conn); /* true if the connection waits for the link, not for credits */
void madi_conn_kick(madi_conn_t *conn);             /* put the connection into the gate's list of pending connections */
/* send from the queues of that list; return true if a connection was put into the list again */
bool madi_pending_pump(madi_gate_t *gate);

/* cont.c.  The caller holds gate->tx_lock. */
/* True if a block of that length, which is not held back, is continued in a packet of its own, provided there is credit. */
static inline bool madi_cont_applies(const madi_caps_t *caps, size_t len)
{
    return caps->cont_min && len >= caps->cont_min && len < caps->rdv_min &&
           len + sizeof(madi_wire_hdr_t) <= caps->chunk_max;
}
/* Credit bytes that the rest of a continued block uses; left: its length in bytes. */
static inline uint64_t madi_cont_cost(uint64_t left)
{
    return madi_wire_cost(sizeof(madi_wire_hdr_t) + left);
}
bool madi_cont_is_busy(const madi_tx_t *tx); /* true if the driver holds a packet of the message's continued block */
/* Send the rest of the continued block, and in the same call a packet of ahead bytes (0: none) before it.  The packet before
 * it is in the n entries of vec, which has room for two more.  Return false if the link is full. */
bool madi_cont_send(madi_tx_t *tx, struct iovec *vec, int n, size_t ahead);

/* rdv_send.c.  The caller holds gate->tx_lock. */
/* Make the state of a rendezvous block, and return its handle; 0 if out of memory.  eager: bytes sent ahead of the grant;
 * held: the block may be sent only after its message has ended. */
uint32_t madi_rdv_announce(madi_tx_t *tx, madi_piece_t *piece, uint32_t eager, bool held, bool readable);
/* Write a stride of the block to the place that the receiver has offered (tx->sending.put_at); false if there is no offer. */
bool madi_tx_put(madi_tx_t *tx, const madi_piece_t *piece);
void madi_rdv_prepare(madi_gate_t *gate, uint32_t handle); /* prepare the first piece of an announced block, if possible */
void madi_tx_release_held(madi_tx_t *tx);                  /* release the held blocks of a message that has ended */
void madi_rdv_granted(madi_gate_t *gate, const madi_wire_grant_t *grant);
void madi_rdv_shared(madi_gate_t *gate, const madi_wire_share_t *share);
void madi_rdv_fail_all(madi_gate_t *gate, mad_status_t status);
bool madi_rdv_pump(madi_gate_t *gate);          /* send granted blocks; return false if some are left */
bool madi_rdv_goes_on(const madi_gate_t *gate); /* true if the driver holds nothing of the first granted block */

/* close.c.  The caller holds gate->tx_lock. */
void madi_conn_close(madi_conn_t *conn); /* send CLOSE if nothing is left to send */

#endif
