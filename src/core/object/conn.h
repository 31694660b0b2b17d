/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection: a channel and a peer, with what is sent and received between them. */
#ifndef MADI_OBJECT_CONN_H
#define MADI_OBJECT_CONN_H

#include "base/base.h"
#include "core/inspect/counters.h"
#include "core/object/types.h"
#include "engine/engine.h"

#include <stdatomic.h>

/* Rows MOVED of counters.h, by MADI_MOVED_key.  Bytes are credit bytes of packets: headers included, rounded up to cache
 * lines. */
typedef struct madi_traffic {
    uint64_t count[MADI_MOVED_COUNTS];
} madi_traffic_t;

/* The whole structure is visible here, because the inlined fast paths of sending and receiving use most of it.  The
 * first cache lines of a connection are the sender's, the others the receiver's.  "Credit bytes" are bytes of packets
 * as madi_wire_cost counts them. */
struct madi_conn {
    /* Sending: fields of the holder of packing, and constants. */
    _Atomic(int) packing;   /* not 0: held by a message */
    _Atomic(int) waiting;   /* number of threads that wait for packing, plus 1 if messages are deferred */
    madi_tx_t *spare;       /* message of the holder of packing; between two messages, a structure for reuse; NULL if none */
    mad_channel_t *channel; /* constant, like gate, number, flags, peer and hdr_template */
    madi_gate_t *gate;
    uint16_t number;       /* this side's number for the channel on this gate's link */
    uint8_t flags;         /* flags of the connection's packets: MADI_WIRE_MODES or 0 */
    mad_peer_t peer;       /* number of the gate's peer */
    uint64_t hdr_template; /* the first 8 header bytes of a message in one packet, with length 0 */
    /* Sending: fields under gate->tx_lock. */
    bool announced;            /* true after CHANNEL was sent, so that the peer knows the channel's number */
    bool closing;              /* the channel is closed: CLOSE is due when nothing is left to send (send/close.c) */
    bool close_sent;           /* CLOSE was sent, and CLOSED has not arrived: the number is not free yet */
    marceli_waiters_t packers; /* threads that wait for packing */
    bool in_pending;           /* true if the connection is in the gate's list of pending connections */
    bool has_deferred;         /* messages are deferred, and `waiting` counts that */
    bool starved;              /* true if the first message of the queue waits for credits */
    uint64_t tx_seq;           /* number of messages sent so far */
    uint64_t tx_cost_before;   /* credit bytes of all packets before the credits were last reset */
    uint32_t n_blocks;         /* number of announced blocks that are not complete */
    uint64_t block_bytes_out;  /* bytes of blocks that were granted, written, or read by the peer */
    madi_link_t *link;         /* the gate's link; `link` and `send_short` are valid while fast_credits is not 0 */
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    uint64_t fast_credits; /* credit bytes left while a message may leave at once (no other is queued); else 0 */
    uint64_t credit_left;  /* credit bytes left while messages are queued; one of fast_credits and credit_left is 0 */
    uint64_t credit_limit; /* total of credit bytes that the receiver has given so far */
    madi_tx_t *queue, **queue_tail; /* list of messages to send, of which the first one is being sent; NULL if none */
    madi_tx_t *deferred,
        **deferred_tail;       /* one-call messages that wait until another message has been packed; NULL if none */
    madi_conn_t *next_pending; /* next in the gate's list of pending connections */
    /* Receiving, under session->lock.  NULL: none. */
    _Alignas(MADI_LINE) madi_rx_msg_t *ready; /* messages that can be opened, in order */
    madi_rx_msg_t **ready_tail;
    madi_link_t *rx_link;    /* the gate's link; valid while fast_hdr is not 0 */
    uint32_t fast_hdr;       /* first 4 header bytes of a one-packet message that may be opened at once; 0 if none */
    madi_rx_msg_t *arriving; /* the message whose last packet has not arrived */
    /* incomplete messages that the program has opened; these messages fail when the link breaks */
    madi_rx_msg_t *unfinished;
    madi_posted_t *posted, **posted_tail; /* list of posted receives, of which the first one is served next */
    marceli_waiters_t openers;            /* threads that wait for a message of this peer */
    bool in_ready;                        /* true if the connection is in channel->ready */
    madi_conn_t *next_ready;              /* the next connection in channel->ready */
    uint64_t rx_limit;                    /* the limit of credit bytes that was last sent to the sender */
    uint64_t rx_limit_due;                /* total of returned credit bytes at which the next limit is sent */
    int64_t rx_until_limit;               /* credit bytes until that next limit; negative if the limit is overdue */
    uint64_t counts[MADI_CONN_COUNTS];    /* counters, by MADI_CONN_COUNT */
    uint64_t rx_cost_before;              /* credit bytes of all packets before the credits were last reset */
    uint64_t block_bytes_in;              /* bytes of blocks that were granted, read, or written by the peer */
    uint64_t rx_window, rx_floor;         /* credit bytes: the present window, and its minimum */
    uint64_t rx_held;                     /* credit bytes of messages that have arrived and were not opened yet */
    uint16_t remote;                      /* the peer's number for the channel; valid while remote_known */
    bool remote_known;                    /* the packet CHANNEL has arrived, and CLOSED was not sent */
    bool remote_closing;                  /* CLOSE has arrived: no message follows, and the peer waits for CLOSED */
    bool opened_since_announce;           /* the channel was open at some time since the peer announced its number */
    bool unopened;                        /* the channel is not open: its messages wait, charged to the peer (unopened.c) */
    bool unopened_counted;                /* the channel is charged as one of the peer's channels that are not open */
    int64_t unopened_bytes;               /* bytes charged for the messages of the channel that is not open */
    madi_conn_t *next_of_channel;         /* next in channel->all */
    madi_conn_t *next_of_gate;            /* next in gate->conns, or in the gate's list of connections for reuse */
};

/* Add n to a connection's counter, which is a row N of counters.h.  Each counter has one lock: session->lock or
 * gate->tx_lock. */
#define MADI_CONN_COUNT(conn, key, n) madi_conn_count(conn, MADI_CONN_COUNT_##key, n)
static inline void madi_conn_count(madi_conn_t *conn, enum madi_conn_place place, uint64_t n)
{
    conn->counts[place] += n;
}

#endif
