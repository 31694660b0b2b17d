/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: wraps another driver, and does at random everything that driver.h allows a driver to do.
 *
 *   core -> fault -> inner driver     send is refused, taken and sent later, completed late; packets and chunks are short;
 *                                     polls find nothing; arm reports work that is not there; links come up late
 *   inner driver -> fault -> core     packets wait here while those of other links overtake them; bodies are lent from
 *                                     here, or never; links are cut
 *
 * The order of the packets of one link is kept, and nothing is lost before a cut.
 *
 *   fault.c     the table, adapters, the dice, polling and sleeping
 *   fault_rx.c  upcalls of the inner driver: packets, links up and down fault_tx.c  what the core sends
 */
#ifndef MADI_FAULT_H
#define MADI_FAULT_H

#include "core/driver.h"

/* A pseudo-random sequence, determined by its seed.  Each sequence is used under one lock. */
typedef struct fault_dice {
    uint64_t state;
} fault_dice_t;

uint64_t fault_roll(fault_dice_t *dice, uint64_t n); /* 0..n-1 */
bool fault_chance(fault_dice_t *dice, int percent);

/* Probabilities and limits of the faults, from the knobs. */
typedef struct fault_plan {
    uint64_t seed;
    int delay, again, arm; /* percent of packets to delay, of sends to refuse, of calls of arm that prevent a sleep */
    int64_t delay_ns;      /* ns: longest delay */
    bool shorten;
    int lend; /* percent of the bodies that this driver lends; -1: no body is lent, not even by the inner driver */
    int64_t cut_after, cut_one_in; /* number of packets until a cut; of N links (cut_one_in) one is cut; 0: never */
} fault_plan_t;

typedef struct fault_link fault_link_t;

typedef struct fault_adapter {
    madi_adapter_t base;
    madi_adapter_t *inner;
    fault_plan_t plan;
    fault_dice_t dice;    /* under the session's lock */
    fault_link_t *links;  /* open links */
    uint64_t n_links;     /* number of links made so far */
    int64_t hidden_until; /* ns: time before which the inner driver is not polled */
    _Atomic(int64_t) due; /* ns: next time at which this adapter has something to do */
    int timer_fd;         /* timer that wakes a sleeping thread at `due` */
    madi_watch_t timer;
    bool inner_open, inner_closed;
} fault_adapter_t;

/* A received packet that is delivered later. */
typedef struct fault_in {
    struct fault_in *next;
    madi_wire_hdr_t hdr;
    int64_t due;
    madi_foreign_t loan; /* loan of the inner driver, if set */
    /* the body if there is no loan, stored after this structure; has room for at least MADI_SHORT_MAX bytes */
    unsigned char *body;
} fault_in_t;

/* A packet to send that was accepted, or that must seem to be accepted. */
typedef struct fault_out {
    madi_op_t op; /* the operation for the inner driver; must be first */
    struct fault_out *next;
    fault_link_t *link;
    madi_op_t *user; /* the core's operation; NULL for a copied packet */
    mad_status_t status;
    int64_t due;
    uint64_t sum; /* checksum of an operation's bytes when it was accepted */
    size_t total;
    int n;
    struct iovec vec[];
} fault_out_t;

struct fault_link {
    madi_link_t base;
    madi_link_t *inner;
    fault_link_t *next; /* the next link; stays valid after close, since a poll may be iterating */
    uint64_t number;
    bool closed;
    _Atomic(int) cut;       /* the link was cut; the next poll reports the cut */
    _Atomic(int64_t) moved; /* number of packets, both directions */
    _Atomic(int64_t) cut_at;
    /* receiving, under the session's lock */
    fault_dice_t dice;
    bool is_up, up_reported, is_down;
    int64_t up_due;
    mad_status_t down_status;
    char down_text[MADI_REASON_MAX];
    fault_in_t *storing; /* between rx_begin and rx_done */
    fault_in_t *in, **in_tail;
    madi_lock_t lent_lock;
    fault_in_t *lent;
    /* Fields for sending, under the link's tx lock. */
    fault_dice_t tx_dice;
    fault_out_t *out, **out_tail;
    int n_out;
    bool refused;
    _Atomic(int) pending; /* number of packets and operations that must end before the link counts as drained */
    madi_lock_t late_lock;
    fault_out_t *late; /* operations to be completed later */
};

/* fault.c */
/* Return a random time, now or later. */
int64_t fault_delay(fault_adapter_t *a, fault_dice_t *dice, int64_t now);
void fault_due(fault_adapter_t *a, int64_t when); /* request a poll at the time `when` or earlier; any lock may be held */
void fault_count(fault_link_t *l, fault_dice_t *dice); /* count a packet, and cut the link if the cut is due */

/* fault_rx.c.  The caller holds the session's lock. */
extern const madi_upcalls_t fault_upcalls;
/* Report that the link is up, if the inner link is.  Also called before the end of such a link is reported: the peer has
 * the link up, so this process must not look for another one and leave the peer's messages behind. */
void fault_up_report(fault_link_t *l);
int fault_deliver(fault_link_t *l, int64_t now); /* deliver packets that are due; return their number */
madi_link_t *fault_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan);
void fault_slot_put(madi_link_t *link, madi_foreign_t loan);
void fault_rx_free(fault_link_t *l);

/* fault_tx.c */
madi_sent_t fault_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool fault_send_short(madi_link_t *link, const void *packet, size_t total);
bool fault_drained(madi_link_t *link);
void fault_acknowledge(madi_link_t *link);
/* send packets and complete operations that are due; return the number of events; under the session's lock */
int fault_flush(fault_link_t *l, int64_t now);
void fault_tx_end(fault_link_t *l); /* at close: discard queued packets, complete their operations */

static inline fault_adapter_t *fault_of(fault_link_t *l)
{
    return (fault_adapter_t *)l->base.adapter;
}

#endif
