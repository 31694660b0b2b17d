/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: a reliable, ordered flow of segments over frames that may be lost, repeated or reordered.  This file knows no sockets,
 * no clock and no memory of packets: times are arguments, and a segment names its bytes by an owner and an offset.
 *
 *   sender (eth_out)                                    receiver (eth_in)
 *   eth_out_add      segment 7  - - - - - - - - - - ->  eth_in_arrived   NEXT: deliver; EARLY: keep; OLD: drop
 *   eth_out_add      segment 8  - - lost                eth_in_step      behind each delivery; returns a kept segment
 *   eth_out_add      segment 9  - - - - - - - - - - ->  EARLY
 *   eth_out_acked    <- - - - - - - - next 8, bits 9    eth_in_bits
 *   eth_out_resend   segment 8  - - - - - - - - - - ->
 *
 * Numbers of segments are 32 bits and wrap.  An acknowledgement is the number of the segment that the receiver waits for, and a
 * bit for each later one that the receiver keeps.
 *
 * Loss.  A segment is lost if one that was sent later by a margin has been acknowledged.  The margin is a part of the round
 * trip, and grows with each repeated segment that the receiver reports: so a network that reorders costs no resends.  The
 * end of a flow has no later segment: after a short timeout its first segment is sent again, and after a longer one all.
 *
 * Congestion.  At most `cwnd` segments are in flight.  A loss reduces cwnd to 0.7 of itself, once a round trip; a second
 * timeout to 2.  Otherwise cwnd grows, by one for each acknowledged segment at first and by one a round trip later.  Where the
 * round trip is long, segments leave at intervals (eth_out_room).
 *
 * Locks.  eth_out is under the link's tx lock, eth_in under the session's lock; `next` and `acked` of eth_in are read with
 * either. */
#ifndef ETH_FLOW_H
#define ETH_FLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ETH_WINDOW 512 /* segments that are sent and not acknowledged; a power of two */
#define ETH_BITS (ETH_WINDOW / 64)

/* A segment that was sent. */
typedef struct eth_segment {
    void *owner;     /* the driver's packet */
    uint64_t from;   /* bytes: offset of the segment in the packet */
    uint32_t len;    /* bytes */
    uint32_t number; /* of the segment */
    int64_t sent_at; /* ns */
    uint8_t flags;   /* the driver's */
    bool again;      /* the segment was sent more than once, so its acknowledgement measures no round trip */
    bool arrived;    /* acknowledged by a bit */
    bool lost;       /* to be sent again */
} eth_segment_t;

typedef struct eth_out {
    eth_segment_t segments[ETH_WINDOW]; /* by number % ETH_WINDOW */
    uint32_t released;                  /* first number whose segment is not released */
    uint32_t acked;                     /* first number that is not acknowledged */
    uint32_t next;                      /* number of the next new segment */
    uint32_t flying;                    /* number of segments in flight: sent, not acknowledged, not lost */
    uint32_t lost;                      /* segments with `lost` */
    uint32_t recover;                   /* first number whose loss reduces cwnd again */
    double cwnd, ssthresh, limit;       /* segments; limit: the greatest cwnd */
    int64_t srtt, rttvar;               /* ns; 0: not measured */
    int64_t rtt_least;                  /* ns: the shortest round trip; 0: not measured */
    int64_t newest;                     /* ns: latest time at which an acknowledged segment was sent */
    int64_t deadline;                   /* ns: the timeout; 0: none */
    int64_t timeout_max;                /* ns: above this value timeouts are not doubled */
    int64_t moved;                      /* ns: time of the last acknowledgement with news, or at which the first segment
                                         * left */
    int64_t pace;                       /* ns: time at which the next segment may leave, if segments leave at intervals */
    bool doubted;                       /* true if a segment counted as lost since a repeated segment was last reported */
    int timeouts;                       /* timeouts since the last new acknowledgement */
    int margin;                         /* margin of overtaking before a segment counts as lost, in eighths of a long round
                                         * trip */
    uint64_t resent;                    /* number of segments that were sent again */
} eth_out_t;

/* patience: ns without an acknowledgement after which the caller gives up.  The timeouts leave time for tens of attempts. */
void eth_out_init(eth_out_t *out, int64_t patience);
/* Set the number of segments for which the receiver has room, at most ETH_WINDOW. */
void eth_out_limit(eth_out_t *out, unsigned segments);
/* True if a new segment may leave now. */
bool eth_out_room(const eth_out_t *out, int64_t now);
/* Record a new segment as sent, and return the record.  Precondition: eth_out_room. */
eth_segment_t *eth_out_add(eth_out_t *out, void *owner, uint64_t from, uint32_t len, uint8_t flags, int64_t now);
/* Record a lost segment as sent again, and return its record; NULL if none is lost, or none may leave now. */
eth_segment_t *eth_out_resend(eth_out_t *out, int64_t now);
/* Undo eth_out_add or eth_out_resend for a segment, because the card's queue was full. */
void eth_out_unsent(eth_out_t *out, eth_segment_t *segment);
/* Handle an acknowledgement, which a peer wrote.  bits: ETH_BITS words, of which bit i is for segment next + 1 + i; NULL if
 * no segment is kept.  repeated: the receiver got a segment twice.  Return true if anything was new. */
bool eth_out_acked(eth_out_t *out, uint32_t next, const uint64_t *bits, bool repeated, int64_t now);
/* Return the next acknowledged segment, each segment once; NULL if there is none.  The record is valid until the next call
 * of eth_out_add. */
eth_segment_t *eth_out_release(eth_out_t *out);
/* Handle the deadline, if it has passed.  Return true if segments may now be sent again. */
bool eth_out_expire(eth_out_t *out, int64_t now);
/* Time in ns at which eth_out_expire or eth_out_room has to be called again; INT64_MAX if there is none.  waiting: a new
 * segment waits. */
int64_t eth_out_due(const eth_out_t *out, bool waiting);

typedef enum eth_arrived {
    ETH_NEXT,  /* the segment that the receiver waits for */
    ETH_EARLY, /* a later segment, which is not kept yet */
    ETH_OLD    /* a segment that is repeated, or outside of the window */
} eth_arrived_t;

typedef struct eth_in {
    _Atomic(uint32_t) next;  /* number of the segment that is delivered next */
    _Atomic(uint32_t) acked; /* value of `next` in the last acknowledgement that has left */
    void *kept[ETH_WINDOW];  /* early segments by number % ETH_WINDOW; NULL: none */
    int n_kept;
    bool repeated; /* a segment came twice since the last acknowledgement */
    bool now;      /* an acknowledgement must leave at once */
} eth_in_t;

eth_arrived_t eth_in_arrived(eth_in_t *in, uint32_t number);
void eth_in_keep(eth_in_t *in, uint32_t number, void *segment); /* keep a segment: an EARLY one, or the next one if it cannot
                                                                 * be delivered yet */
/* Count the delivery of the next segment, kept or not. */
void eth_in_step(eth_in_t *in);
/* Return the kept segment that is next, and stop keeping it; NULL if there is none. */
void *eth_in_take(eth_in_t *in);
/* Write the bits of an acknowledgement; return false if no segment is kept. */
bool eth_in_bits(const eth_in_t *in, uint64_t bits[ETH_BITS]);
/* Return the number of segments that were delivered and not acknowledged. */
static inline uint32_t eth_in_owed(const eth_in_t *in)
{
    return atomic_load_explicit(&in->next, memory_order_relaxed) - atomic_load_explicit(&in->acked, memory_order_relaxed);
}

#endif
