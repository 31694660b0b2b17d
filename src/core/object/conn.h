/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection: a channel and a peer, with what is sent and received between them. */
#ifndef MADI_OBJECT_CONN_H
#define MADI_OBJECT_CONN_H

#include "base/base.h"
#include "core/object/types.h"
#include "engine/engine.h"

#include <stdatomic.h>

/* Messages, and credit bytes of their packets: headers included, rounded up to cache lines. */
typedef struct madi_traffic {
    uint64_t messages_out, bytes_out, messages_in, bytes_in;
} madi_traffic_t;

struct madi_conn {
    /* Sending: fields of the holder of packing ... */
    _Atomic(int) packing; /* not 0: held by a message */
    _Atomic(int) waiting; /* threads that wait for packing, and one more if messages are deferred */
    madi_tx_t *spare;     /* the holder's message; between messages: one for reuse, or NULL */
    mad_channel_t *channel;
    madi_gate_t *gate;
    uint16_t number; /* this side's number for the channel on this gate's link */
    uint8_t flags;   /* of its packets: MADI_WIRE_MODES or 0 */
    mad_peer_t peer; /* the gate's */
    uint64_t whole;  /* template: the first 8 header bytes of a message in one packet, length 0 */
    /* ... and fields under gate->tx_lock. */
    bool announced;            /* CHANNEL was sent: the peer knows the number */
    bool closing;              /* the channel is closed: CLOSE is due when nothing is left to send (send/close.c) */
    bool handed;               /* CLOSE was sent, and CLOSED has not arrived: the number is not free yet */
    marceli_waiters_t packers; /* threads that wait for packing */
    bool in_pending;           /* in gate->pending */
    bool has_deferred;         /* messages are deferred: counted in waiting */
    bool starved;              /* the first message of the queue waits for credits */
    uint64_t tx_seq;           /* messages so far */
    uint64_t tx_cost_before;   /* credit bytes of all packets before the credits were last reset */
    uint32_t n_blocks;         /* blocks that are announced, and not complete */
    uint64_t block_bytes_out;  /* bytes of blocks that were granted, written, or read by the peer */
    /* Valid while quick is not 0. */
    madi_link_t *link;
    bool (*send_short)(madi_link_t *link, const void *packet, size_t total);
    uint64_t quick;        /* credit bytes left while a message may leave at once: link up, nothing queued before it */
    uint64_t credit_left;  /* credit bytes left otherwise; one of the two is 0 */
    uint64_t credit_limit; /* total of credit bytes that the receiver has given so far */
    madi_tx_t *queue, **queue_tail;       /* the first one is being sent */
    madi_tx_t *deferred, **deferred_tail; /* one-call messages that wait for the end of another message's packing */
    madi_conn_t *next_pending;
    /* Receiving, under session->lock. */
    _Alignas(MADI_LINE) madi_rx_msg_t *ready;
    madi_rx_msg_t **ready_tail;
    madi_link_t *rx_link;    /* the gate's link, valid while rx_head is not 0 */
    uint32_t rx_head;        /* first 4 header bytes of a one-packet message that may be opened at once; 0: none may */
    madi_rx_msg_t *arriving; /* the message whose last packet has not arrived; or NULL */
    madi_rx_msg_t *live;     /* opened incomplete messages: they fail when the link breaks */
    madi_posted_t *posted, **posted_tail;
    marceli_waiters_t openers; /* threads that wait for a message of this peer */
    bool in_ready;
    madi_conn_t *next_ready; /* in channel->ready */
    uint64_t rx_limit;       /* the limit of credit bytes that was last sent to the sender */
    uint64_t rx_tell;        /* total of returned credit bytes at which the next limit is sent */
    int64_t rx_left;         /* credit bytes until then */
    uint64_t rx_messages;
    uint64_t rx_cost_before; /* like tx_cost_before */
    uint64_t block_bytes_in;
    uint64_t rx_window, rx_floor; /* credit bytes: the window now, and its least size */
    uint64_t rx_held;             /* credit bytes of messages that have arrived and are not opened */
    uint16_t remote;              /* the peer's number for the channel */
    bool remote_known;
    bool remote_closing;    /* CLOSE has arrived: no message follows, and the peer waits for CLOSED */
    bool seen;              /* the channel was open since the peer announced its number */
    bool unopened;          /* the channel is not open: its messages wait, charged to the peer (unopened.c) */
    bool unopened_counted;  /* charged as one of the peer's channels */
    int64_t unopened_bytes; /* bytes charged for its messages */
    madi_conn_t *next_of_channel;
    madi_conn_t *next_of_gate;
};

#endif
