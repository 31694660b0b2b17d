/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that receive messages offer each other and the rest of the core.  Included by core.h.
 *
 *   deliver.c   packets come in              open.c        messages are opened
 *   block.c     their blocks are read        unpack.c      ... into the program's memory
 *   rdv_recv.c  blocks that are granted      unpack_end.c  the end of a message
 *   posted.c    receives posted before           borrow.c      ... where they lie
 *   begun.c     messages that are still being written
 *   cont.c      blocks that go on in further packets */
#ifndef MADI_RECEIVE_H
#define MADI_RECEIVE_H

#include "core/core.h"

#include <string.h>

/* deliver.c; under session->lock */
void madi_rx_make_ready(madi_rx_msg_t *msg);
void madi_conn_rx_quick(madi_conn_t *conn); /* set rx_head anew: something about the connection has changed */
void madi_credit_tell(madi_conn_t *conn);
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
void madi_credit_return_later(madi_conn_t *conn, uint32_t cost); /* the sender may learn of it when nothing comes */
void madi_credit_forget(madi_conn_t *conn);
madi_rx_msg_t *madi_rx_more(mad_session_t *session);
void madi_rx_clear(madi_rx_msg_t *msg);   /* everything as it is in a new one */

/* An empty message, marked as used; rx_start makes it one.  NULL: no memory. */
static inline madi_rx_msg_t *madi_rx_new(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring;
    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return madi_rx_more(session);
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    return m;
}

/* It is cleared, or it was plain 2, or 3 and its loan was returned.  Any thread, any lock. */
static inline void madi_rx_free(madi_rx_msg_t *m)
{
    atomic_store_explicit(&m->used, 0, memory_order_release); /* pairs with madi_rx_new */
}

/* It begins with the packet whose header is in hdr and whose body lies at data. */
static inline void madi_rx_start(madi_rx_msg_t *m, madi_conn_t *conn, madi_foreign_t data, bool opened)
{
    m->conn = conn;
    m->cur = data;
    m->end = madi_foreign_skip(data, m->hdr.length);
    m->state = opened ? 0x010101 : 0x0101;
}

/* Bytes of the packet at hand that are not unpacked yet. */
static inline size_t madi_rx_left(const madi_rx_msg_t *m)
{
    return madi_foreign_between(m->cur, m->end);
}

/* The next block of a message that is all in the packet at hand, if it lies there whole: the cursor moves behind it. */
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
void madi_rx_abandon(madi_gate_t *gate); /* the rest of what is coming in will not come */
void madi_rx_packet_free(madi_rx_packet_t *packet);
void madi_packet_return(madi_rx_packet_t *packet); /* give its loan back */

/* begun.c; only the thread that has the message */
void madi_begun_look(madi_rx_msg_t *msg); /* its end is behind what is there now; all: it is plain 3 */
void madi_begun_spin(madi_rx_msg_t *msg); /* like madi_begun_look, but wait for all as long as a copy takes */
void madi_begun_wait(madi_rx_msg_t *msg); /* wait for all, or fail; no lock */
void madi_begun_skip(madi_rx_msg_t *msg); /* nobody reads the rest */
/* Copy the message's last block while it is written; false: the block at the cursor is another one, or of another form. */
bool madi_begun_unpack(madi_rx_msg_t *msg, void *buf, size_t len, uint64_t desc);

/* open.c; under session->lock */
static inline void madi_openers_wake(madi_conn_t *conn) /* one that waits for a message like the one that has come */
{
    if (!marceli_waiters_wake_one(&conn->openers))
        marceli_waiters_wake_one(&conn->channel->openers);
}
void madi_rx_ask(madi_rx_msg_t *msg); /* it is opened: its credit goes back */
madi_rx_msg_t *madi_rx_take_from(madi_conn_t *conn); /* the next message of a connection, or NULL */

/* block.c; under session->lock */
/* A block as it lies in the packet. */
typedef struct madi_sent_block {
    uint64_t desc;
    bool announced; /* the rest of it is to be granted */
    bool placed;    /* all of it is where it belongs */
    bool continued; /* the bytes that are not here come in the next packets */
    bool waits;     /* announced, with an address: its sender waits */
    uint64_t at;    /* announced: its address, or 0 */
    madi_wire_rdv_t rdv;
    madi_foreign_t data;
    uint64_t inside; /* bytes of it that are here */
    madi_foreign_t behind; /* what follows it in the packet */
} madi_sent_block_t;
bool madi_block_next(madi_rx_msg_t *msg); /* is there one at the cursor?  Goes on to the next packet if need be */
void madi_packet_next(madi_rx_msg_t *msg); /* the packet that comes next, and is there, is the one at hand now */
bool madi_block_none(const madi_rx_msg_t *msg); /* the message has no further one */
bool madi_block_agrees(const madi_rx_msg_t *msg, uint64_t sent, uint64_t expected);
/* Tell both sides that they disagree.  Descriptors, or MADI_WIRE_DESC_NONE and MADI_WIRE_DESC_ANY. */
void madi_block_mismatch(madi_rx_msg_t *msg, uint64_t sent, uint64_t expected);
#define MADI_BLOCK_WORDS 40
const char *madi_block_words(uint64_t desc, char buf[MADI_BLOCK_WORDS]); /* for people: what a descriptor says; buf */
/* Read the block at the cursor, once.  The cursor stays, but goes to the end if the message fails: MAD_ERR_PROTOCOL. */
mad_status_t madi_block_look(madi_rx_msg_t *msg, madi_sent_block_t *block);
/* Put the block at the cursor, as it was looked at, into the pieces.  wait: as for madi_rdv_grant. */
mad_status_t madi_block_place(madi_rx_msg_t *msg, const madi_sent_block_t *block, const struct iovec *pieces, int n,
                              uint64_t expected, madi_waitable_t *wait);
/* Like madi_block_place, but looks at it first. */
mad_status_t madi_block_take(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t expected,
                             madi_waitable_t *wait);
void madi_block_refuse(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* what of it is not here is not wanted */
void madi_block_drop(madi_rx_msg_t *msg, bool disagrees); /* nobody unpacks it; true: both sides are told */
void madi_spread(const struct iovec *pieces, int n, madi_foreign_t src, uint64_t skip, uint64_t len);

/* cont.c; under session->lock */
static inline madi_rdv_recv_t *madi_cont_of(madi_rx_msg_t *msg) /* any lock, or none */
{
    return atomic_load_explicit(&msg->cont, memory_order_relaxed);
}
/* Put what comes of a continued block, behind the bytes that are here, into the pieces; wait: as for madi_rdv_grant. */
mad_status_t madi_cont_start(madi_rx_msg_t *msg, const struct iovec *pieces, int n, const madi_sent_block_t *block,
                             madi_waitable_t *wait);
void madi_cont_drop(madi_rx_msg_t *msg, const madi_sent_block_t *block); /* nobody wants it */
void madi_cont_skip(madi_rx_msg_t *msg, bool cont); /* the packet at hand, which goes on (or does not) with a dropped block */
void madi_cont_feed(madi_rx_msg_t *msg); /* a packet of it has come in elsewhere: put it where it belongs */
/* A packet that goes on with a block whose place is known.  False: it is not one of that block. */
bool madi_cont_begin(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void madi_cont_done(madi_rx_msg_t *msg, const madi_wire_hdr_t *hdr);
void madi_cont_poll(madi_rx_msg_t *msg); /* until it is there, or it takes long; no lock */

/* rdv_recv.c; under session->lock */
/* The receiving of a block of which so many bytes are there; wait, if there is one, is done when it is filled.  granted: by a
 * handle.  NULL: no memory. */
madi_rdv_recv_t *madi_rdv_recv_new(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len, uint64_t here,
                                   madi_waitable_t *wait, bool granted);
unsigned char *madi_rdv_place(const madi_rdv_recv_t *r); /* where its first byte goes */
/* Name the destination of a block to its sender; wait, if there is one, is done when it is filled. */
mad_status_t madi_rdv_grant(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t len,
                            const madi_sent_block_t *block, madi_waitable_t *wait);
void madi_rdv_send_grant(madi_gate_t *gate, uint32_t sender, uint32_t receiver, uint64_t len, bool drop);
int madi_rdv_pull(madi_gate_t *gate); /* read the next stride of what is read from a sender's memory; 0: there is none */
void madi_rdv_recv_done(madi_rdv_recv_t *r); /* spread and account */
void madi_rdv_recv_check(madi_rdv_recv_t *r); /* the same, if all of it is here */
void madi_rdv_written(madi_rdv_recv_t *r, uint64_t end); /* the sender has written what is before it */
void madi_rdv_recv_fail(madi_gate_t *gate, mad_status_t status);
/* Have a block come that is not all here: announced or continued, at the cursor. */
mad_status_t madi_early_start(madi_rx_msg_t *msg, const madi_sent_block_t *block);
mad_status_t madi_early_take(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t expected,
                             bool may_wait); /* no lock */
void madi_early_drop(madi_rx_msg_t *msg);
static inline void madi_early_forget(madi_rx_msg_t *msg) /* a borrowed block goes with the next call */
{
    if (msg->early && msg->early->borrowed)
        madi_early_drop(msg);
}

/* unpack.c; under session->lock, but for the first */
void madi_message_wait(madi_rx_msg_t *msg, bool (*test)(void *arg), void *arg); /* for more of it; no lock */
void madi_rx_feed(madi_rx_msg_t *msg); /* give waiting blocks what has come */
/* A CHEAPER block that is not there yet waits. */
mad_status_t madi_block_wait(madi_rx_msg_t *msg, const struct iovec *pieces, int n, uint64_t desc);

/* unpack_end.c; under session->lock */
void madi_rx_finish(madi_rx_msg_t *msg); /* ended and nothing missing: complete it */
void madi_rx_fail(madi_conn_t *conn, mad_status_t status);
void madi_rx_drop(madi_rx_msg_t *msg); /* one that nobody has; it has come */

/* posted.c; under session->lock */
void madi_posted_start(madi_posted_t *posted, madi_rx_msg_t *msg);
void madi_posted_next(madi_conn_t *conn); /* the first one is served: the next one becomes the first */
/* A short packet, for the first posted receive of its connection: if it is that message, whole, it is received straight into
 * the block.  False: nothing was done. */
bool madi_posted_take_short(madi_conn_t *conn, const madi_wire_hdr_t *hdr, madi_foreign_t body);
void madi_posted_offer(madi_conn_t *conn); /* the first one is next, if it is known what has come before */
bool madi_posted_withdraw(madi_posted_t *posted); /* false: the sender is writing it, or has */

#endif
