/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that arrive, under session->lock: from the first packet of a message until no part of it is in flight.
 *
 *   ready.c     messages that wait to be opened          finish.c    the end of a message
 *   block.c     parsing of blocks                        feed.c      blocks that were unpacked before they arrived
 *   rdv_recv.c  rendezvous blocks                        cont.c      continued blocks
 *   posted.c    posted receives                          begun.c     lent messages that the sender is still writing
 *   unopened.c  messages on channels that are not open   offer.c     posted receives that the sender may write */
#ifndef MADI_RECEIVE_H
#define MADI_RECEIVE_H

#include "core/object/conn.h"
#include "core/object/channel.h"
#include "core/object/rx.h"
#include "core/wire/wire.h"

/* Return the next block of a message in place, and move the cursor behind it.  Return false unless the message is
 * plain, and all bytes of the block are in its packet. */
static inline bool madi_borrow_plain(madi_rx_msg_t *m, const void **base, size_t *len)
{
    uint64_t desc;
    size_t left = madi_rx_left(m);
    if (MADI_UNLIKELY(!m->base.plain || left < MADI_WIRE_DESC_SIZE))
        return false;
    desc = madi_foreign_read8(m->cur);
    if (MADI_UNLIKELY(MADI_WIRE_DESC_KIND(desc) != MADI_WIRE_INLINE ||
                      MADI_WIRE_DESC_LEN(desc) > left - MADI_WIRE_DESC_SIZE))
        return false;
    *base = madi_foreign_pass_on(madi_foreign_skip(m->cur, MADI_WIRE_DESC_SIZE));
    *len = (size_t)MADI_WIRE_DESC_LEN(desc);
    m->cur = madi_foreign_skip(m->cur, MADI_WIRE_DESC_SIZE + *len);
    m->index++;
    return true;
}

/* Counters of blocks that came from one peer. */
typedef struct madi_recv_counts {
    uint64_t pulled_blocks, pulled_bytes; /* blocks that were read from the peer's memory */
    uint64_t taken_blocks, taken_bytes;   /* blocks that were received after a grant */
    uint64_t placed_blocks, placed_bytes; /* blocks that the peer has written into this process's memory */
    uint64_t shared_blocks;               /* shared blocks; pulled_blocks and taken_blocks count these too */
} madi_recv_counts_t;

/* recv_gate.c: this folder's part of a gate (gate->recv).  The caller holds session->lock. */
struct madi_recv_gate *madi_recv_gate_new(void); /* create the part; NULL if out of memory */
void madi_recv_gate_reset(madi_gate_t *gate);    /* clear the part for another peer; precondition: madi_rdv_recv_none */
void madi_recv_gate_shrink(madi_gate_t *gate);   /* free what was learned about the peer */
void madi_recv_gate_free(madi_gate_t *gate);     /* free the part if there is one */
const madi_recv_counts_t *madi_recv_counts(const madi_gate_t *gate);
bool madi_rdv_recv_none(const madi_gate_t *gate); /* true if no rendezvous block is being received */

/* recv_session.c: this folder's part of a session (session->recv) */
mad_status_t madi_recv_session_init(mad_session_t *session);
void madi_recv_session_fini(mad_session_t *session); /* free the part; init may have failed, or not have run */

/* begun.c.  Only the thread that owns the message calls these functions. */
void madi_begun_look(madi_rx_msg_t *msg); /* move the message's end behind the arrived bytes; when all have arrived, the
                                           * message becomes MADI_PLAIN_LENT */
void madi_begun_spin(madi_rx_msg_t *msg); /* like madi_begun_look, but spin for all bytes as long as a copy would take */
void madi_begun_wait(madi_rx_msg_t *msg); /* wait for all bytes, or fail; called without locks */
void madi_begun_skip(madi_rx_msg_t *msg); /* treat the message as complete, and do not wait for the rest */
/* Copy the message's last block while it is being written; false if the block at the cursor is another one, or is not
 * the block that the receiver expects. */
bool madi_begun_unpack(madi_rx_msg_t *msg, void *buf, size_t len, uint64_t desc);

/* ready.c.  The caller holds session->lock. */
static inline void madi_openers_wake(madi_conn_t *conn) /* wake one thread that waits for a message of this connection */
{
    if (!marceli_waiters_wake_one(&conn->openers))
        marceli_waiters_wake_one(&conn->channel->openers);
}
void madi_rx_make_ready(madi_rx_msg_t *msg);
void madi_conn_rx_quick(madi_conn_t *conn);  /* recompute fast_hdr after a change of the connection */
void madi_conn_hand_back(madi_conn_t *conn); /* return the peer's number of the channel, if the peer waits for it and no
                                              * message is held */
void madi_conn_drop(madi_conn_t *conn);      /* discard messages that have arrived and will never be opened */
void madi_rx_open(madi_rx_msg_t *msg);       /* return the credit of a message that is being opened */
madi_rx_msg_t *madi_rx_take_from(madi_conn_t *conn); /* take the next message of a connection; NULL if none */

/* block.c.  The caller holds session->lock. */
/* A parsed block of the current packet. */
typedef struct madi_sent_block {
    uint64_t desc;
    bool announced; /* rendezvous: the rest of the block needs a grant */
    bool placed;    /* the sender has written all of the block to its destination */
    bool continued; /* the rest of the block comes in the next packets */
    bool waits;     /* announced with an address: the sender waits for the end of the block, and can move a part of it */
    bool shared;    /* like waits, and the sender has chosen that both sides move a part */
    uint64_t at;    /* of an announced block: its address in the sender's memory; 0 if none */
    madi_wire_rdv_t rdv;
    madi_foreign_t data;
    uint64_t inside;       /* number of the block's bytes that are at `data` */
    madi_foreign_t behind; /* the end of the block in the packet */
} madi_sent_block_t;
bool madi_block_next(madi_rx_msg_t *msg);  /* true if a block is at the cursor, which moves to the next packet if needed */
void madi_packet_next(madi_rx_msg_t *msg); /* make the next packet the current one; precondition: it has arrived */
bool madi_block_none(const madi_rx_msg_t *msg); /* true if the message has no further block */
bool madi_block_agrees(const madi_rx_msg_t *msg, uint64_t sent, uint64_t expected); /* compare two descriptors */
/* Report a mismatch to both sides. sent, expected: descriptors, or MADI_WIRE_DESC_NONE or MADI_WIRE_DESC_ANY. */
void madi_block_mismatch(madi_rx_msg_t *msg, uint64_t sent, uint64_t expected);
/* Parse the block at the cursor, once; the cursor stays.  MAD_ERR_PROTOCOL: the message fails, and the cursor moves to its
 * end. */
mad_status_t madi_block_look(madi_rx_msg_t *msg, madi_sent_block_t *block);
/* Put the block at the cursor, as madi_block_look has parsed it, into the pieces.  wait: as for madi_rdv_grant. */
mad_status_t madi_block_place(madi_rx_msg_t *msg, const madi_sent_block_t *block, const struct iovec *pieces, int n,
                              uint64_t expected, madi_waitable_t *wait);
/* Like madi_block_place, but parses the block first. */
mad_status_t madi_block_take(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t expected,
                             madi_waitable_t *wait);
void madi_block_refuse(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* discard the bytes that have not arrived */
void madi_block_drop(madi_rx_msg_t *msg, bool disagrees); /* discard a block; disagrees: report a mismatch to both sides */
void madi_spread(const struct iovec *pieces, int n, madi_foreign_t src, uint64_t skip, uint64_t len);

/* cont.c.  The caller holds session->lock. */
static inline madi_rdv_recv_t *madi_cont_of(madi_rx_msg_t *msg) /* any lock, or none */
{
    return atomic_load_explicit(&msg->receiving.cont, memory_order_relaxed);
}
/* Direct the rest of a continued block, behind the bytes that have arrived, into the pieces. wait: as for madi_rdv_grant. */
mad_status_t madi_cont_start(madi_rx_msg_t *msg, const struct iovec *pieces, int n, const madi_sent_block_t *block,
                             madi_waitable_t *wait);
void madi_cont_drop(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* discard the rest of a continued block */
void madi_cont_skip(madi_rx_msg_t *msg, bool cont); /* skip bytes of a dropped block; cont: the packet continues the block */
void madi_cont_feed(madi_rx_msg_t *msg); /* copy a packet of the continued block, which arrived elsewhere, into place */
/* Begin to receive a packet that continues a block whose destination is known.  Return false if the packet does not continue
 * that block. */
bool madi_cont_begin(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void madi_cont_done(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr);

/* rdv_recv.c.  The caller holds session->lock. */
/* Make the state of a block that is being received; here: number of its bytes that have arrived. wait (or NULL)
 * completes when all bytes have arrived. granted: the block gets a handle, for a grant.  NULL if out of memory. */
madi_rdv_recv_t *madi_rdv_recv_new(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len, uint64_t here,
                                   madi_waitable_t *wait, bool granted);
unsigned char *madi_rdv_place(const madi_rdv_recv_t *r); /* the destination of the block's first byte */
/* Send a grant for a block, with its destination; wait (or NULL) completes when the block has arrived. */
mad_status_t madi_rdv_grant(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len,
                            const madi_sent_block_t *block, madi_waitable_t *wait);
void madi_rdv_send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop);
int madi_rdv_pull(madi_gate_t *gate);        /* read the next stride from the sender's memory; 0 if no block is to be read */
void madi_rdv_recv_done(madi_rdv_recv_t *r); /* complete the block: spread its bytes over the pieces, and count it */
void madi_rdv_recv_check(madi_rdv_recv_t *r); /* like madi_rdv_recv_done, but only if the whole block has arrived */
/* Return the destination of a packet of a granted block, as in madi_rx_begin; rx->cookie is the block.  Return false if the
 * packet breaks the protocol. */
bool madi_rdv_begin(madi_gate_t *gate, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void madi_rdv_arrived(madi_rdv_recv_t *r, uint32_t len); /* record that the block's next len bytes have arrived */
/* Record that a piece has begun that will not arrive, since its rail is lost. */
void madi_rdv_abandon(madi_gate_t *gate, uint32_t handle, uint32_t len);
void madi_rdv_written(madi_rdv_recv_t *r, uint64_t end); /* record that the sender has written all bytes before end */
void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status);
/* Begin to receive the rest of the announced or continued block at the cursor into memory of the library. */
mad_status_t madi_early_start(madi_rx_msg_t *msg, const madi_sent_block_t *block);
/* Like madi_early_start, but charge the block to the peer.  MAD_ERR_AGAIN: other blocks of the peer have to be freed first.
 * MAD_ERR_NOMEM also if the block alone is longer than what one peer may be charged. */
mad_status_t madi_early_start_charged(madi_rx_msg_t *msg, const madi_sent_block_t *block);
void madi_early_free(madi_rx_msg_t *msg);                /* free the block's memory, if there is any */
void madi_early_drop(madi_rx_msg_t *msg);                /* free it, and go on to the next block */
static inline void madi_early_forget(madi_rx_msg_t *msg) /* free a borrowed block, which is valid only until the next call */
{
    if (msg->early && msg->early->borrowed)
        madi_early_drop(msg);
}

/* feed.c.  The caller holds session->lock. */
void madi_rx_feed(madi_rx_msg_t *msg); /* fill waiting blocks with data that has arrived */
/* Queue the destination of a CHEAPER block that has not arrived. */
mad_status_t madi_block_wait(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t desc);

/* finish.c.  The caller holds session->lock. */
/* Discard the remaining blocks of an ended message, and report the mismatch.  Return true if no part of the message is in
 * flight any more. */
bool madi_rx_settle(madi_rx_msg_t *msg);
void madi_rx_live_remove(madi_rx_msg_t *msg); /* remove the message from conn->unfinished, if it is there */
void madi_rx_release(madi_rx_msg_t *msg);     /* free all that the message holds, and give its structure back; any lock */
void madi_rx_finish(madi_rx_msg_t *msg); /* complete the message's request if the message has ended and nothing is missing */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status);
void madi_rx_drop(madi_rx_msg_t *msg); /* discard an arrived message that is not opened */

/* unopened.c.  The caller holds session->lock. */
void madi_unopened_message(madi_conn_t *conn, size_t len); /* charge a waiting packet to its peer; a peer that passes its
                                                            * bound is in error */

#endif
