/* SPDX-License-Identifier: BSD-3-Clause */
/* The forwarding state of a session, and the limits of streams. */
#ifndef MADI_GATEWAY_STATE_H
#define MADI_GATEWAY_STATE_H

#include "core/core.h"
#include "core/forward.h"
#include "core/inspect/counters.h"
#include "gateway/map.h"

/* Longest payload of a fragment in bytes, including the inner header (doc/rationale.md has the measurements).
 * GW_FRAGMENT_LEAST applies if a network is slow, or if its driver has a lower limit. */
#define GW_FRAGMENT ((size_t)256 << 10)
#define GW_FRAGMENT_LEAST ((size_t)32 << 10)
/* us that a fragment may take on the slowest network; a hop is idle for that time when a message begins or ends */
#define GW_FRAGMENT_US 250
#define GW_HEAD (sizeof(madi_wire_hdr_t) + sizeof(madi_wire_forward_t)) /* headers before the payload, in bytes */
/* maximum number of bytes that tags add to a packet */
#define GW_SEALS ((size_t)2 * MADI_WIRE_PROOF)
#define GW_FIRST ((uint64_t)16 << 10) /* credit in bytes before the first CREDIT arrives */
#define GW_WINDOW_MAX ((uint64_t)2 << 20)
#define GW_HOPS 16  /* most gateways on a path */
#define GW_TEXT 160 /* bytes of the longest explanation that is sent */

/* Places of the rows FORWARDING of counters.h, in their order, and the number of these rows: the next group is GATEWAYS. */
#define GW_SUM(key) (MADI_COUNT_FORWARDING_##key - MADI_COUNT_FORWARDING_virtual_links)
#define GW_SUMS (MADI_COUNT_GATEWAYS_up - MADI_COUNT_FORWARDING_virtual_links)
/* Add n to the counter of a row of counters.h.  To add a counter, add its row and such a call. */
#define GW_COUNT(gw, key, n) ((gw)->sums[GW_SUM(key)] += (n))

typedef struct gw gw_t;
typedef struct gw_hop gw_hop_t;
typedef struct gw_side gw_side_t;
typedef struct gw_end gw_end_t;
typedef struct gw_transit gw_transit_t;
typedef struct gw_place gw_place_t;
typedef struct gw_held gw_held_t;
typedef struct gw_early gw_early_t;
typedef struct gw_dial gw_dial_t;
typedef struct gw_frag gw_frag_t;
typedef struct gw_route gw_route_t;

/* The virtual adapter: all forwarding state of a session. */
struct gw {
    madi_adapter_t base;
    madi_forward_t forward;
    madi_map_t *map;
    int host;
    bool forwards; /* true if this host is on two or more networks */
    bool draining; /* this process accepts no new streams, and requests that passing streams take other paths (gw_drain) */
    bool counted;  /* true if counted by marceli_progress_count_serving */
    bool awaits;   /* true if one of the launcher's gateways was missing at the start; another one will replace it */
    gw_place_t *places; /* the forwarding processes among the first n_placed peers, by host; NULL before the first use */
    uint32_t n_placed;
    uint32_t n_known;   /* number of peers when this process started; further peers came later */
    uint64_t label_key; /* secret, odd number that places labels in the hash tables */
    uint64_t turn;      /* number that selects one of several equally good paths, in turn */
    gw_hop_t *hops;
    gw_end_t *ends;
    gw_transit_t *transits;
    gw_dial_t *dials;                      /* pending connections made on behalf of peers (dial.c) */
    gw_hop_t *asker;                       /* hop for which the next process is being chosen; NULL if for this process */
    bool asker_claims;                     /* true if only peers have named the address of the chosen process */
    int n_transits, closing;               /* number of passing streams; number of streams that are closed at both ends */
    _Atomic(int) unsettled;                /* 1 if the next poll has to handle one of the following fields */
    bool later;                            /* true if streams have to be freed, or need a path */
    gw_frag_t *sent;                       /* fragments in the program's memory that have left */
    gw_side_t *credit_list, **credit_tail; /* list of the sides whose peers have to be granted credit */
    struct madi_gateway_rate *rate;        /* rate.c; NULL: unlimited */
    /* bytes that may still be granted (negative: overdrawn); ns: time of `rate_left` */
    int64_t rate_left, rate_at;
    madi_watch_t rate_timer; /* expires when credit that waits may be granted */
    gw_frag_t *pool;         /* free fragments of full size */
    int n_pool;
    size_t fragment; /* longest fragment by the topology file, equal in all processes that read the file */
    int64_t budget;  /* bytes that may still be granted */
    int64_t budget_all;
    int64_t held, held_most;     /* bytes of fragments held here; maximum so far */
    int64_t n_held, n_held_most; /* number of these fragments; maximum so far */
    gw_route_t *routes;
    int n_routes;
    int64_t sums[GW_SUMS]; /* counters of the rows FORWARDING, by GW_COUNT; under session->lock */
    _Atomic(uint64_t) stalls, resends;
    /* Failover. */
    madi_watch_t timer;
    _Atomic(int) ticks; /* 1 if the timer is set for pending work; 0 if only for the next check of idle endpoints */
    uint32_t idle_turn;
    _Atomic(int64_t) due; /* ns: when the timer fires */
};

/* virtual.c */
extern const madi_driver_t madi_driver_virtual;
static inline gw_t *gw_of(madi_adapter_t *adapter)
{
    return (gw_t *)adapter;
}

static inline gw_t *gw_of_session(mad_session_t *session)
{
    return MADI_CONTAINER(session->forward, gw_t, forward);
}
int gw_settle(gw_t *gw); /* Do the work that could not be done while a tx_lock was held.  Return the number of events. */
/* Make the next poll free finished streams and search for paths.  Under the session's lock. */
static inline void gw_later(gw_t *gw)
{
    gw->later = true;
    atomic_store_explicit(&gw->unsettled, 1, memory_order_relaxed);
}
/* Return the host of an adapter's bytes, and in flags its GW_ flags; -1 if unknown. */
#define GW_FORWARDS 1u
#define GW_ANSWERS 2u /* flag: the process's progress thread answers while the program computes */
#define GW_DAEMON MADI_FORWARD_DAEMON
int gw_host_read(gw_t *gw, const unsigned char *bytes, size_t len, unsigned *flags);
/* True if the process with these adapter bytes can be reached through gateways; otherwise reason says why not. */
bool gw_reachable(gw_t *gw, int lane, const void *bytes, size_t len, char *reason);

/* alive.c.  The caller holds the session's lock, except for gw_alive_watch. */
mad_status_t gw_alive_open(gw_t *gw);
void gw_alive_close(gw_t *gw);
void gw_alive_set(gw_t *gw);
void gw_alive_soon(gw_t *gw); /* Check often, because a stream has no path. */
/* Move deadlines by the time during which this process did not run (the timer is overdue).  Called before deadlines are
 * compared with the clock. */
void gw_alive_postpone(gw_t *gw, int64_t now);
/* Start the timer if it is not running, because there is something to watch.  Any lock may be held. */
static inline void gw_alive_watch(gw_t *gw)
{
    marceli_progress_note_move();
    if (MADI_UNLIKELY(!atomic_load_explicit(&gw->ticks, memory_order_relaxed)))
        gw_alive_set(gw);
}
int64_t gw_step_limit(const gw_t *gw); /* Return the ns allowed for one step of opening a path. */
/* Return the ns that the other endpoint waits for the stream's opener before it opens a path itself. */
int64_t gw_opener_head_start(const gw_t *gw);
/* Probe the gateway on this side and, through it, the later gateways on the stream's path. */
void gw_side_probe(gw_side_t *side);
/* Handle a PING: answer it if it is a probe, and pass the probe on.  side: the stream that it is about, or NULL. */
void gw_hop_ping(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

#endif
