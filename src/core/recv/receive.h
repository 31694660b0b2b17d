/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the files that receive messages.  Included by core.h.
 *
 *   dispatch.c   incoming packets             open.c        opening of messages
 *   block.c     parsing of blocks            unpack.c      unpacking into the program's memory
 *   rdv_recv.c  rendezvous blocks            unpack_end.c  end of unpacking
 *   posted.c    posted receives              borrow.c      reading of blocks in place
 *   begun.c     lent messages that the sender is still writing
 *   cont.c      continued blocks: those whose rest comes in further packets */
#ifndef MADI_RECEIVE_H
#define MADI_RECEIVE_H

#include "core/core.h"

#include <string.h>

/* dispatch.c; under session->lock */
void madi_rx_make_ready(madi_rx_msg_t *msg);
void madi_conn_rx_quick(madi_conn_t *conn); /* recompute rx_head after a change of the connection */
void madi_credit_tell(madi_conn_t *conn); /* send the credit limit to the sender */
static inline uint64_t madi_credit_consumed(const madi_conn_t *conn)
{
    return conn->rx_tell - (uint64_t)conn->rx_left;
}
static inline void madi_credit_return(madi_conn_t *conn, uint32_t cost)
{
    conn->rx_left -= cost;
    if (MADI_UNLIKELY(conn->rx_left < 0))
        madi_credit_tell(conn);
}
void madi_credit_return_later(madi_conn_t *conn, uint32_t cost); /* like madi_credit_return, sent when progress is idle */
void madi_credit_forget(madi_conn_t *conn);
void madi_credit_begin_rx(madi_conn_t *conn); /* begin anew, with the floor */
void madi_credit_begin_tx(madi_conn_t *conn); /* likewise, of the sending side */
madi_rx_msg_t *madi_rx_more(mad_session_t *session);
void madi_rx_clear(madi_rx_msg_t *msg);   /* reset all fields for reuse */

/* Return an empty message structure, marked as used; madi_rx_start fills it.  NULL: no memory. */
static inline madi_rx_msg_t *madi_rx_new(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring;
    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return madi_rx_more(session);
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    return m;
}

/* Give the structure back for reuse.  Precondition: cleared, or plain 2, or plain 3 with its loan returned.  Any thread,
 * any lock. */
static inline void madi_rx_free(madi_rx_msg_t *m)
{
    atomic_store_explicit(&m->used, 0, memory_order_release); /* pairs with madi_rx_new */
}

/* Set up a message by its first packet, whose header is in m->hdr and whose body is at data. */
static inline void madi_rx_start(madi_rx_msg_t *m, madi_conn_t *conn, madi_foreign_t data, bool opened)
{
    m->conn = conn;
    m->cur = data;
    m->end = madi_foreign_skip(data, m->hdr.length);
    m->state = opened ? 0x010101 : 0x0101;
}

/* Number of bytes of the current packet that are not unpacked yet. */
static inline size_t madi_rx_left(const madi_rx_msg_t *m)
{
    return madi_foreign_between(m->cur, m->end);
}

/* Return the next block of a message in place, and move the cursor behind it.  False unless the message is plain, and the
 * block inline and whole. */
static inline bool madi_borrow_plain(madi_rx_msg_t *m, const void **base, size_t *len)
{
    uint64_t desc;
    size_t left = madi_rx_left(m);
    if (MADI_UNLIKELY(!m->base.plain || left < 8))
        return false;
    desc = madi_foreign_read8(m->cur);
    if (MADI_UNLIKELY(MADI_WIRE_DESC_KIND(desc) != MADI_WIRE_INLINE || MADI_WIRE_DESC_LEN(desc) > left - 8))
        return false;
    *base = madi_foreign_pass_on(madi_foreign_skip(m->cur, 8));
    *len = (size_t)MADI_WIRE_DESC_LEN(desc);
    m->cur = madi_foreign_skip(m->cur, 8 + *len);
    m->index++;
    return true;
}

static inline madi_conn_t *madi_conn_by_remote(const madi_gate_t *gate, uint16_t number)
{
    return MADI_LIKELY(number < gate->n_remote) ? gate->by_remote[number] : NULL;
}
void madi_rx_ring_free(mad_session_t *session);
void madi_rx_abandon(madi_gate_t *gate); /* give up a packet of which only a part has arrived */
void madi_rx_packet_free(madi_rx_packet_t *packet);
void madi_packet_return(madi_rx_packet_t *packet); /* return its loan to the driver */

/* begun.c; only by the thread that owns the message */
void madi_begun_look(madi_rx_msg_t *msg); /* move its end behind the bytes written so far; all: it becomes plain 3 */
void madi_begun_spin(madi_rx_msg_t *msg); /* like madi_begun_look, but spin for all bytes as long as a copy would take */
void madi_begun_wait(madi_rx_msg_t *msg); /* wait for all bytes, or fail; no lock */
void madi_begun_skip(madi_rx_msg_t *msg); /* discard the rest */
/* Copy the message's last block while it is being written; false if the block at the cursor is not that one, or differs. */
bool madi_begun_unpack(madi_rx_msg_t *msg, void *buf, size_t len, uint64_t desc);

/* open.c; under session->lock */
static inline void madi_openers_wake(madi_conn_t *conn) /* wake one thread that waits for a message of this connection */
{
    if (!marceli_waiters_wake_one(&conn->openers))
        marceli_waiters_wake_one(&conn->channel->openers);
}
void madi_rx_ask(madi_rx_msg_t *msg); /* return the credit of a message that is being opened */
madi_rx_msg_t *madi_rx_take_from(madi_conn_t *conn); /* take the next message of a connection; NULL if none */

/* block.c; under session->lock */
/* A parsed block of the current packet. */
typedef struct madi_sent_block {
    uint64_t desc;
    bool announced; /* rendezvous: its rest needs a grant */
    bool placed;    /* the sender has written all of it to its destination */
    bool continued; /* its rest comes in the next packets */
    bool waits;     /* announced with an address: the sender waits for its end, and can move a part of it */
    uint64_t at;    /* announced: its address in the sender's memory; 0: none */
    madi_wire_rdv_t rdv;
    madi_foreign_t data;
    uint64_t inside; /* number of its bytes at data */
    madi_foreign_t behind; /* the end of the block in the packet */
} madi_sent_block_t;
bool madi_block_next(madi_rx_msg_t *msg); /* true if a block is at the cursor, which moves to the next packet if needed */
void madi_packet_next(madi_rx_msg_t *msg); /* make the next packet the current one; precondition: it has arrived */
bool madi_block_none(const madi_rx_msg_t *msg); /* true if the message has no further block */
bool madi_block_agrees(const madi_rx_msg_t *msg, uint64_t sent, uint64_t expected); /* two descriptors */
/* Report a mismatch to both sides.  Descriptors, or MADI_WIRE_DESC_NONE and MADI_WIRE_DESC_ANY. */
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
void madi_block_refuse(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* discard its rest, which is not here yet */
void madi_block_drop(madi_rx_msg_t *msg, bool disagrees); /* discard a block; disagrees: report a mismatch to both sides */
void madi_spread(const struct iovec *pieces, int n, madi_foreign_t src, uint64_t skip, uint64_t len);

/* cont.c; under session->lock */
static inline madi_rdv_recv_t *madi_cont_of(madi_rx_msg_t *msg) /* any lock, or none */
{
    return atomic_load_explicit(&msg->cont, memory_order_relaxed);
}
/* Direct the rest of a continued block, behind the bytes that are here, into the pieces.  wait: as for madi_rdv_grant. */
mad_status_t madi_cont_start(madi_rx_msg_t *msg, const struct iovec *pieces, int n, const madi_sent_block_t *block,
                             madi_waitable_t *wait);
void madi_cont_drop(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* discard the rest of a continued block */
void madi_cont_skip(madi_rx_msg_t *msg, bool cont); /* skip a dropped block's bytes; cont: the packet continues it */
void madi_cont_feed(madi_rx_msg_t *msg); /* copy a packet of it that arrived elsewhere to the destination */
/* Begin to receive a packet that continues a block whose destination is known.  False: it does not continue that block. */
bool madi_cont_begin(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void madi_cont_done(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr);
void madi_cont_poll(madi_rx_msg_t *msg); /* poll for a limited time until the block is complete; no lock */

/* rdv_recv.c; under session->lock */
/* Make the state of a block that is being received; here: number of its bytes that have arrived.  wait (or NULL) completes
 * when all have.  granted: gets a handle, for a grant.  NULL: no memory. */
madi_rdv_recv_t *madi_rdv_recv_new(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len, uint64_t here,
                                   madi_waitable_t *wait, bool granted);
unsigned char *madi_rdv_place(const madi_rdv_recv_t *r); /* the destination of its first byte */
/* Send a grant for a block, with its destination; wait (or NULL) completes when the block has arrived. */
mad_status_t madi_rdv_grant(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len,
                            const madi_sent_block_t *block, madi_waitable_t *wait);
void madi_rdv_send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop);
int madi_rdv_pull(madi_gate_t *gate); /* read the next stride from the sender's memory; 0: nothing is to be read */
void madi_rdv_recv_done(madi_rdv_recv_t *r); /* complete it: spread over the pieces, and count */
void madi_rdv_recv_check(madi_rdv_recv_t *r); /* like madi_rdv_recv_done, but only if all of it is here */
void madi_rdv_written(madi_rdv_recv_t *r, uint64_t end); /* record that the sender has written all bytes before end */
void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status);
/* Begin to receive the rest of the announced or continued block at the cursor into memory of the library. */
mad_status_t madi_early_start(madi_rx_msg_t *msg, const madi_sent_block_t *block);
void madi_early_drop(madi_rx_msg_t *msg);
static inline void madi_early_forget(madi_rx_msg_t *msg) /* free a borrowed block: it is valid until the next call only */
{
    if (msg->early && msg->early->borrowed)
        madi_early_drop(msg);
}

/* unpack.c; under session->lock, except the first */
void madi_message_wait(madi_rx_msg_t *msg, bool (*test)(void *arg), void *arg); /* wait for more of it; no lock */
void madi_rx_feed(madi_rx_msg_t *msg); /* fill waiting blocks with data that has arrived */
/* Queue the destination of a CHEAPER block that has not arrived. */
mad_status_t madi_block_wait(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t desc);

/* unpack_end.c; under session->lock */
/* Discard the remaining blocks of an ended message, and report the mismatch.  True: nothing of it is in flight any more. */
bool madi_rx_settle(madi_rx_msg_t *msg);
void madi_rx_live_remove(madi_rx_msg_t *msg); /* remove it from conn->live, if it is there */
void madi_rx_release(madi_rx_msg_t *msg);     /* free all that it holds, and give its structure back; any lock */
void madi_rx_finish(madi_rx_msg_t *msg); /* complete its request if it has ended and nothing is missing */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status);
void madi_rx_drop(madi_rx_msg_t *msg); /* discard an arrived message that is not opened */

/* posted.c; under session->lock */
void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *msg);
void madi_posted_next(madi_conn_t *conn); /* the first one is served: the next one becomes the first */
/* A short packet, for the first posted receive of its connection: if it is that message, whole, it is received straight into
 * the block.  False: nothing was done. */
bool madi_posted_take_short(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_foreign_t body);
void madi_posted_offer(madi_conn_t *conn); /* the first one is next, if it is known what has come before */
bool madi_posted_withdraw(madi_posted_t *posted); /* false: the sender is writing it, or has */

#endif
