/* SPDX-License-Identifier: BSD-3-Clause */
/* The forwarding state of a session, and the limits of streams. */
#ifndef MADI_GATEWAY_STATE_H
#define MADI_GATEWAY_STATE_H

#include "core/core.h"
#include "core/forward.h"
#include "gateway/map.h"

/* Longest payload of a fragment in bytes, including the inner header (doc/rationale.md has the measurements).
 * GW_FRAGMENT_LEAST applies if a network is slow, or its driver cannot do more. */
#define GW_FRAGMENT ((size_t)256 << 10)
#define GW_FRAGMENT_LEAST ((size_t)32 << 10)
#define GW_FRAGMENT_US \
    250 /* time that a fragment may take on the slowest network: a hop stays idle that long when a
                            * message begins or ends */
#define GW_HEAD (sizeof(madi_wire_hdr_t) + sizeof(madi_wire_forward_t)) /* headers before the payload, in bytes */
#define GW_SEALS ((size_t)2 * MADI_WIRE_PROOF)                          /* most bytes that tags add to a packet */
#define GW_FIRST ((uint64_t)16 << 10)                                   /* credit in bytes before the first CREDIT arrives */
#define GW_WINDOW_MAX ((uint64_t)2 << 20)
#define GW_HOPS 16  /* most gateways on a path */
#define GW_TEXT 160 /* longest explanation that travels, in bytes */

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
    bool forwards;      /* this host is on two networks or more */
    bool draining;      /* takes no new streams, and asks those that pass to move (gw_drain) */
    bool counted;       /* counted as a session that needs progress */
    bool awaits;        /* a gateway that the launcher was to start was missing at the start: another will take its place */
    gw_place_t *places; /* by host: the forwarding processes among the first n_placed peers; NULL before the first use */
    uint32_t n_placed;
    uint32_t n_known;   /* number of peers at this process's start; all others came later */
    uint64_t label_key; /* secret and odd; places labels in the hash tables */
    uint64_t turn;      /* rotates over paths that are equally good */
    gw_hop_t *hops;
    gw_end_t *ends;
    gw_transit_t *transits;
    gw_dial_t *dials;                      /* connections made on behalf of peers (dial.c) */
    gw_hop_t *asker;                       /* hop for which the next process is being chosen; NULL: for this process */
    bool asker_claims;                     /* set if the chosen process has an address that only peers have named */
    int n_transits, closing;               /* closing: those closed at both ends */
    _Atomic(int) unsettled;                /* the next poll has something to settle below */
    bool later;                            /* streams are to be freed, or to be given a path */
    gw_frag_t *sent;                       /* fragments of the program's memory that have left */
    gw_side_t *credit_list, **credit_tail; /* sides whose peers are to be granted credit */
    struct madi_gateway_rate *rate;        /* rate.c; NULL: unlimited */
    int64_t rate_left, rate_at;            /* bytes that may still be granted (negative: overdrawn), and the time of that
                                     * value, ns */
    madi_watch_t rate_timer;               /* fires when waiting credit may be granted */
    gw_frag_t *pool;                       /* free fragments of full size */
    int n_pool;
    size_t fragment; /* longest fragment by the topology file: the same for every process that reads it */
    int64_t budget;  /* bytes that may still be granted */
    int64_t budget_all;
    int64_t held, held_most;     /* bytes of fragments held here; their maximum */
    int64_t n_held, n_held_most; /* number of these fragments; its maximum */
    gw_route_t *routes;
    int n_routes;
    uint64_t fragments, bytes, copies, opened, refused;
    _Atomic(uint64_t) stalls, resends;
    /* Failover. */
    madi_watch_t timer;
    _Atomic(int) ticks; /* 1: the timer is set for pending work; 0: only for the next check of idle endpoints, if any */
    uint32_t idle_turn;
    _Atomic(int64_t) due; /* ns: when the timer fires */
    uint64_t rerouted, given_up, dead_gateways;
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
int gw_settle(gw_t *gw); /* Do what could not be done while a tx_lock was held.  Return the number of events. */
/* Have the next poll free finished streams and look for paths.  Under the session's lock. */
static inline void gw_later(gw_t *gw)
{
    gw->later = true;
    atomic_store_explicit(&gw->unsettled, 1, memory_order_relaxed);
}
/* Return the host of an adapter's bytes, and in flags its GW_ flags; -1 if unknown. */
#define GW_FORWARDS 1u
#define GW_ANSWERS 2u /* its progress thread answers while the program computes */
#define GW_DAEMON MADI_FORWARD_DAEMON
int gw_host_read(gw_t *gw, const unsigned char *bytes, size_t len, unsigned *flags);
/* True if the process with these adapter bytes is behind gateways; else reason says why not. */
bool gw_reachable(gw_t *gw, int lane, const void *bytes, size_t len, char *reason);

/* alive.c; under the session's lock, except gw_alive_watch */
mad_status_t gw_alive_open(gw_t *gw);
void gw_alive_close(gw_t *gw);
void gw_alive_set(gw_t *gw);
void gw_alive_soon(gw_t *gw);                  /* A stream has no path: check often. */
void gw_alive_postpone(gw_t *gw, int64_t now); /* Before judging times: forgive those during which this process did not
                                               * run (the timer is overdue). */
static inline void gw_alive_watch(gw_t *gw)    /* Start the timer if it is not running: there is something to watch.  Any
                                             * lock. */
{
    marceli_progress_note_move();
    if (MADI_UNLIKELY(!atomic_load_explicit(&gw->ticks, memory_order_relaxed)))
        gw_alive_set(gw);
}
int64_t gw_step_limit(const gw_t *gw); /* Time allowed for one step of opening a path, ns. */
int64_t
gw_opener_head_start(const gw_t *gw); /* Head start of a stream's opener before the other endpoint opens a path, ns. */
void gw_side_probe(gw_side_t *side);  /* Probe the gateway on this side, and those behind it on the stream's path. */
/* A PING has arrived: answer it if it is a question, and pass the question on. side: the stream that it is about, or
 * NULL. */
void gw_hop_ping(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

#endif
