/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual links and gateways.
 *
 * A *virtual link* is a link of the driver `virtual`.  To the core it is like any other link, so connections, modes,
 * credits and rendezvous work over it unchanged.  Below it lies a *stream*: fragments (packets of type FORWARD) that
 * travel hop by hop over ordinary links of ordinary gates.  A process that a stream passes through is a gateway.
 *
 *      process A                       gateway G                        process B
 *   core                                                              core
 *     | vlink (end)                                              (end) vlink |
 *   side ======== hop: gate A-G ====== side | side ====== hop: gate G-B ==== side
 *                                        transit
 *
 *   virtual.c   the driver: adapter, connect, start, send           end.c      endpoints of streams: handshake, packets in
 *   window.c    fragments sent but not acknowledged                 resume.c   failover: another path for a stream
 *   move.c      a standby path beside the current one               next.c     choice of the next process on a path
 *   alive.c     liveness of the gateways on a path                  hop.c      streams of one gate, outgoing fragments
 *   transit.c   streams that pass through this process              arrive.c   incoming fragments
 *   credit.c    flow control, and the bound on memory               say.c      report for mad_info
 *   map.c       hosts, and the next host towards each               count.c    traffic counters, by route
 *   daemon.c    processes that only forward (madgw)                 lane.c     channels with networks of their own
 *   know.c      gateways that join later                            cipher.c   keys that only the endpoints have
 *   protect.c   sealing and proofs of outgoing fragments            verify.c   verification of incoming fragments
 *   rate.c      bandwidth limit                                     dial.c     connections made on behalf of peers
 *   label.c     streams by their labels on a hop                    form.c     lengths of fragments
 *
 * Locks: session->lock protects everything except outgoing state of a hop (its sides' queues, tx_*), which the tx_lock
 * of the hop's gate protects.  The send of a virtual link takes that lock after the tx_lock of the virtual link's own
 * gate; never the other way round, and never the locks of two real gates.  An endpoint's window, and its choice of
 * path, change under the tx_lock of the virtual link's own gate (before the link exists, under the session's lock).
 * doc/gateways.md describes flow control, and why no cycle of waits can arise. */
#ifndef MADI_GATEWAY_H
#define MADI_GATEWAY_H

#include "core/core.h"
#include "core/forward.h"
#include "gateway/cipher.h"
#include "gateway/map.h"

/* Longest payload of a fragment in bytes, including the inner header (doc/rationale.md has the measurements).
 * GW_FRAGMENT_LEAST applies if a network is slow, or its driver cannot do more. */
#define GW_FRAGMENT ((size_t)256 << 10)
#define GW_FRAGMENT_LEAST ((size_t)32 << 10)
#define GW_FRAGMENT_US 250 /* time that a fragment may take on the slowest network: a hop stays idle that long when a
                            * message begins or ends */
/* Blocks below this many bytes may travel with their message, without a grant (virtual_packet_room).  Longer ones
 * arrive sooner if granted, since they then go in several pieces and without a copy. */
#define GW_AHEAD ((size_t)192 << 10)
#define GW_HEAD (sizeof(madi_wire_hdr_t) + sizeof(madi_wire_forward_t)) /* headers before the payload, in bytes */
#define GW_SEALS ((size_t)2 * MADI_WIRE_PROOF) /* most bytes that tags add to a packet */
#define GW_FIRST ((uint64_t)16 << 10) /* credit in bytes before the first CREDIT arrives */
#define GW_WINDOW_MAX ((uint64_t)2 << 20)
#define GW_HOPS 16 /* most gateways on a path */
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

/* Traffic counters. */
typedef struct gw_count {
    uint64_t fragments, bytes;
} gw_count_t;

/* A route of streams, as far as this process knows it, with the traffic of those already closed (count.c). */
typedef struct gw_route {
    struct gw_route *next;
    int lane;
    int from, via, to; /* hosts: of the previous process, the next one, the destination; -1: unknown, or several */
    bool passes;       /* false: the streams end here, and from is this host */
    uint64_t opened;
    gw_count_t there, back; /* towards the destination, and back from it */
    uint64_t stalls, resends;
    uint32_t queued_most; /* largest queue of one stream, in one direction */
    uint64_t queued_bytes_most;
    int row; /* index of the row in a report */
} gw_route_t;

/* A fragment that is queued, or being sent. */
typedef struct gw_frag {
    madi_op_t op; /* must be first */
    struct gw_frag *next;
    gw_side_t *side;      /* side on which it is sent */
    gw_held_t *held;      /* the packet, if it is sent from the program's memory; else NULL */
    madi_link_t *lender;  /* link whose driver lent the body; else NULL */
    madi_foreign_t loan;
    uint32_t cost;
    bool pooled;
    bool taken;           /* by the driver: included in the hop's in_flight */
    int64_t queued_at, began; /* for traces, ns: when it was queued; when the driver took it */
    int n;
    struct iovec vec[2];
    struct iovec *more;   /* used instead of vec for a packet of the program */
    madi_wire_hdr_t hdr;  /* sent together with the body that follows */
    unsigned char body[];
} gw_frag_t;

/* A stream on one hop, as this process sees it. */
struct gw_side {
    gw_hop_t *hop; /* NULL if the hop no longer carries the stream */
    uint32_t label;
    bool opener;   /* this process has opened the stream on this hop */
    bool visited;  /* for gw_sides_next */
    gw_end_t *end;         /* set if the stream ends here; else NULL */
    gw_transit_t *transit; /* set if the stream passes through; else NULL */
    gw_route_t *route;     /* for a former path */
    gw_side_t *next_label; /* next in hop->sides */
    gw_side_t *next_old;   /* next former path of the same endpoint; events on these are ignored */
    bool old;
    bool moves;            /* endpoint: a gateway on this path has asked for another path */
    uint32_t turn;         /* endpoint: the turn, as in madi_wire_open */
    uint32_t acks_out, acks_in; /* endpoint, encrypted: proved ACKs sent and received on this path */
    /* Incoming: credits that this process has granted, in bytes.  Under the session's lock. */
    uint64_t rx_limit, rx_used, rx_back, rx_window, rx_told;
    uint32_t free; /* bytes of the budget set aside for outgoing control fragments, which need no credit */
    gw_side_t *next_tell;
    bool tells;
    gw_count_t in;
    /* Outgoing, under the gate's tx_lock. */
    uint64_t tx_limit, tx_used;
    gw_frag_t *queue, **queue_tail;
    gw_side_t *next_active; /* next in hop->active */
    bool active;
    bool stalled;           /* waiting for credit */
    int64_t stalled_at;     /* for traces, ns: since when */
    gw_count_t out;
    uint64_t stalls, resends; /* number of waits for credit; of fragments sent again on another path */
    uint32_t queued, queued_most;
    uint64_t queued_bytes, queued_bytes_most;
    _Atomic(int) in_flight; /* fragments that a driver has taken, or whose completion is pending */
};

/* A gate over which fragments travel. */
struct gw_hop {
    madi_gate_t *gate;
    gw_t *gw;
    gw_hop_t *next;
    bool down;
    bool forwards;  /* the peer is a gateway */
    bool answers;   /* and its progress thread always answers */
    const char *network; /* name in the topology file; or NULL */
    bool moves;     /* the peer has asked that streams take other paths */
    bool over_told; /* already logged: it allows more than GW_HOPS further gateways */
    bool named_far; /* already logged: it named an address that is not dialled */
    int64_t asked;  /* ns: since when a sign of life is due; 0: none is due */
    /* Streams by label: [0] opened by the peer, [1] by this process (label.c). */
    gw_side_t **sides[2]; /* hash tables: lists by slot */
    uint32_t n_sides[2], cap_sides[2];
    uint32_t n_labels[2]; /* first label that was never given */
    uint32_t visited[2];  /* for gw_sides_next: slots already visited */
    /* The fragment being received, between rx_begin and rx_done. */
    enum gw_in { GW_IN_NONE, GW_IN_END, GW_IN_TRANSIT, GW_IN_WHOLE } in;
    gw_side_t *in_side;
    gw_frag_t *in_frag;   /* TRANSIT and WHOLE: where its bytes go */
    int64_t in_began; /* for traces, ns */
    /* Outgoing, under tx_lock. */
    gw_side_t *active, **active_tail; /* sides that have a fragment, and credit for it */
    gw_end_t *refused;                /* virtual links whose send was refused because this link was full */
    _Atomic(int) in_flight;           /* fragments that the driver has taken; their completion resumes sending */
    gw_count_t in_all[2], out_all[2]; /* [0] of streams that end here, [1] of others; locks as for the sides' counters */
};

/* A packet in the program's memory, or copied behind vec.  Lives from send until the other endpoint has it and no
 * driver reads it any more. */
struct gw_held {
    madi_op_t *user; /* the core's operation; NULL for a copy */
    gw_end_t *end;
    gw_held_t *next;
    int out;   /* fragments that refer to it: queued, or taken by a driver */
    bool over; /* acknowledged or given up, with status */
    mad_status_t status;
    madi_wire_hdr_t hdr;
    int n;
    struct iovec vec[]; /* the first is hdr; for a copy, everything */
};

/* Fragments sent but not yet acknowledged. */
typedef struct gw_window {
    unsigned char *ring;
    uint64_t cap, head, tail; /* positions only grow; position modulo cap is the place in the ring */
    uint64_t bytes, unasked;  /* payload of the fragments in it; bytes sent since an acknowledgement was last requested */
    uint32_t base, next;      /* number of the first fragment in it; of the next one to be sent */
    _Atomic(uint32_t) ack;    /* next number that the other endpoint expects; base follows lazily */
    _Atomic(int) held;        /* number of entries that refer to the program's memory */
    _Atomic(int) full;        /* 1 if a sender waits for room */
} gw_window_t;

/* Peers that were already tried, and are to be avoided. */
typedef struct gw_avoid {
    mad_peer_t peer[32];
    int n;
    bool lost; /* avoid lost peers too: they may be back, but only another dial can show that */
} gw_avoid_t;

/* A READY fragment kept for later. */
struct gw_early {
    madi_wire_hdr_t hdr;
    uint32_t turn;
    unsigned char body[sizeof(madi_wire_forward_t) + sizeof(madi_wire_ready_t)];
};

/* The endpoint of a stream in this process. */
struct gw_end {
    gw_t *gw;
    gw_end_t *next;
    gw_side_t *side;     /* the current path; NULL if none */
    gw_side_t *old;      /* former paths, until nothing of them is pending here */
    gw_route_t *route;   /* route of the current path; NULL while the peer is unknown */
    madi_link_t *link;   /* the virtual link; NULL before it exists, and after its end */
    uint64_t stream;     /* as in madi_wire_open, like turn */
    uint32_t turn;
    bool active;         /* this process has opened the stream */
    bool started, ready; /* the handshake is over here; at the other endpoint */
    bool closed;         /* CLOSE was sent, or cannot be sent */
    bool gone;           /* the other endpoint has closed, or no path is left */
    bool dead;           /* closed and gone: to be freed */
    _Atomic(uint32_t) rx_seq; /* number of fragments received completely */
    gw_window_t window;
    _Atomic(int) n_held; /* number of gw_held_t of this endpoint */
    /* The packet that has arrived in part.  If its path fails, another path brings all of it again. */
    bool half, half_asks;
    madi_wire_hdr_t half_hdr;
    madi_rx_t half_rx;
    gw_hop_t *charged;   /* hop whose peer is charged for the handshake; NULL after the handshake, or if this process
                          * opened the stream */
    madi_watch_t watch;  /* our end of the socket pair, during the handshake; else fd is -1 */
    int their_fd;        /* descriptor number of the core's end */
    bool refused;        /* on the list hop->refused */
    gw_end_t *next_refused;
    /* alive.c */
    uint32_t seen;       /* acknowledged plus received fragments at the last check */
    bool asked;          /* an acknowledgement was requested since then */
    uint32_t drain_asked; /* fragment up to which the session's end has requested an acknowledgement */
    /* resume.c */
    bool resuming;       /* a path was opened, and the other endpoint has not answered yet */
    int64_t lost;        /* ns: since when there is no path; 0: there is one */
    int64_t try_at;      /* ns: when to try the next path, or give up the one being tried */
    mad_status_t status; /* reason of the last failure */
    int turns;           /* number of times that all paths were tried */
    bool hope;           /* at least one path has not reported that the peer is gone */
    gw_avoid_t avoid;
    char why[GW_TEXT + 1];
    /* move.c: a standby path, which the opener tries while it keeps the current path, or which the other endpoint has
     * opened. */
    gw_side_t *beside;
    uint32_t beside_turn, beside_ack;
    int64_t beside_at;   /* ns: since when it is tried */
    bool beside_takes;   /* take it as soon as the packet arriving on the current path is complete */
    uint32_t turn_tried; /* greatest turn that this endpoint has opened; that the other one has */
    uint32_t turn_heard;
    /* protect.c, verify.c */
    gw_cipher_t *cipher; /* keys of the two endpoints; NULL before the handshake is over here */
    bool encrypts;       /* packets and acknowledgements are sealed */
    unsigned char *sealed; /* buffer for one packet, allocated with the first that is too long for the stack */
    unsigned char half_tag[MADI_WIRE_PROOF]; /* tag of the body of the packet that has arrived in part */
    gw_early_t *early;   /* READY that arrived before the handshake was over here; or NULL */
    uint32_t forged;     /* number of recent forged fragments; rx_seq at the last one */
    uint32_t forged_at;
    bool unproved_told;  /* already logged: an unproved attempt to resume or end the stream */
    bool repeated_told;  /* already logged: a repeated fragment */
};

/* A stream that passes through this process. */
struct gw_transit {
    gw_t *gw;
    gw_transit_t *next;
    gw_side_t side[2];
    gw_route_t *route; /* NULL if the stream was never opened towards the destination */
    gw_dial_t *dial;   /* side[1] waits for this dial, whose outcome is not reported; else NULL */
    bool moved[2];     /* MOVE has come from the endpoint beyond side[i], and was passed on */
    bool direct;    /* the process beyond side[1] is the destination */
    bool closed[2]; /* closed by the endpoint beyond side[i]; its fragments may still be queued on the other side */
};

typedef struct gw_link {
    madi_link_t base;
    gw_end_t *end;
    madi_link_t *carrier; /* link that lent the bodies now on loan */
} gw_link_t;

/* The virtual adapter: all forwarding state of a session. */
struct gw {
    madi_adapter_t base;
    madi_forward_t forward;
    madi_map_t *map;
    int host;
    bool forwards; /* this host is on two networks or more */
    bool draining; /* takes no new streams, and asks those that pass to move (gw_drain) */
    bool counted;  /* counted as a session that needs progress */
    bool awaits;   /* a gateway that the launcher was to start was missing at the start: another will take its place */
    gw_place_t *places; /* by host: the forwarding processes among the first n_placed peers; NULL before the first use */
    uint32_t n_placed;
    uint32_t n_known;   /* number of peers at this process's start; all others came later */
    uint64_t label_key; /* secret and odd; places labels in the hash tables */
    uint64_t turn;      /* rotates over paths that are equally good */
    gw_hop_t *hops;
    gw_end_t *ends;
    gw_transit_t *transits;
    gw_dial_t *dials;      /* connections made on behalf of peers (dial.c) */
    gw_hop_t *asker;       /* hop for which the next process is being chosen; NULL: for this process */
    bool asker_claims;     /* set if the chosen process has an address that only peers have named */
    int n_transits, closing; /* closing: those closed at both ends */
    _Atomic(int) unsettled; /* the next poll has something to settle below */
    bool later;             /* streams are to be freed, or to be given a path */
    gw_frag_t *sent; /* fragments of the program's memory that have left */
    gw_side_t *tell, **tell_tail; /* sides whose peers are to be granted credit */
    struct madi_gateway_rate *rate; /* rate.c; NULL: unlimited */
    int64_t rate_left, rate_at;     /* bytes that may still be granted (negative: overdrawn), and the time of that
                                     * value, ns */
    madi_watch_t rate_timer;        /* fires when waiting credit may be granted */
    gw_frag_t *pool; /* free fragments of full size */
    int n_pool;
    size_t fragment;    /* longest fragment by the topology file: the same for every process that reads it */
    int64_t budget;     /* bytes that may still be granted */
    int64_t budget_all;
    int64_t held, held_most; /* bytes of fragments held here; their maximum */
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
gw_frag_t *gw_held_frag(gw_held_t *held); /* Make a fragment of a held packet, ready to be queued; NULL if out of memory. */
bool gw_held_fill(gw_held_t *held, gw_frag_t *frag); /* Fill the body once the head is set; false if OpenSSL failed, and
                                                      * frag is freed. */

/* hop.c */
gw_hop_t *gw_hop_get(gw_t *gw, madi_gate_t *gate); /* Return the hop of a gate, creating it if needed; NULL if out of
                                                    * memory. */
/* Put a side on a hop: under a new label if this process opens the stream (label NULL), else under the peer's label. */
bool gw_side_open(gw_side_t *side, gw_hop_t *hop, const uint32_t *label);
bool gw_side_crowded(gw_side_t *side); /* True if enough fragments wait that an acknowledgement may be left out.  Takes
                                        * the tx_lock. */
void gw_side_drop(gw_side_t *side);  /* Discard queued fragments */
void gw_side_close(gw_side_t *side); /* Also stop receiving */
madi_sent_t gw_side_send_user(gw_side_t *side, gw_frag_t *frag); /* Send or queue a fragment of the program's memory;
                                                                  * SENT or TAKEN.  Under tx_lock. */
static inline uint32_t gw_cost(size_t length) /* Cost of a fragment in credit bytes: its memory, and an allowance for
                                               * small ones. */
{
    return (uint32_t)(length + 319) & ~UINT32_C(63);
}
gw_frag_t *gw_frag_new(gw_t *gw, uint32_t len); /* Under the session's lock; NULL if out of memory. */
void gw_frag_free(gw_t *gw, gw_frag_t *frag);   /* Under the session's lock; not for a fragment of the program's memory. */
/* Append a fragment to a side's queue, and send it if possible.  Under the session's lock, no tx_lock. */
void gw_side_put(gw_side_t *side, gw_frag_t *frag);
void gw_side_enqueue(gw_side_t *side, gw_frag_t *frag); /* Append without sending.  Under tx_lock. */
/* Send a fragment made here: its kind, and a body behind the forward header. */
void gw_side_say(gw_side_t *side, unsigned kind, uint16_t channel, const void *body, size_t len, const void *more,
                 size_t more_len);
void gw_side_say_close(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
void gw_side_pass_close(gw_side_t *side, const madi_wire_close_t *c, const char *text); /* Pass a CLOSE on unchanged. */
/* Under tx_lock. may: true if the side has credit for this fragment. */
bool gw_side_may(const gw_side_t *side, const madi_wire_hdr_t *hdr, uint32_t cost);
void gw_side_activate(gw_side_t *side); /* List the side as active if it has a fragment and credit for it. */
void gw_hop_pump(gw_hop_t *hop);
void gw_frag_done(madi_op_t *op, mad_status_t status);
extern const madi_forward_t gw_forward;

/* label.c; under the session's lock */
void gw_labels_key(gw_t *gw); /* Draw the secret of the hash tables; once, before there is a hop. */
bool gw_label_new(gw_hop_t *hop, const madi_wire_hdr_t *hdr); /* True if the label of this OPEN is unused; it is then
                                                               * taken. */
bool gw_label_put(gw_hop_t *hop, gw_side_t *side); /* False if out of memory. label and opener are set before. */
void gw_label_drop(gw_hop_t *hop, gw_side_t *side);
gw_side_t *gw_side_find(gw_hop_t *hop, const madi_wire_hdr_t *hdr); /* NULL if none. */
/* Return the next stream of a hop that is down, each once, even while others come and go; NULL if none is left. */
gw_side_t *gw_sides_next(gw_hop_t *hop);
void gw_labels_free(gw_hop_t *hop); /* Close all streams, and free the tables. */

/* form.c; no lock */
bool gw_form_good(const madi_wire_hdr_t *hdr); /* True for a known kind with a length that is allowed for it. */
bool gw_costs(const madi_wire_hdr_t *hdr);     /* False for control fragments about the stream, which need no credit. */

/* arrive.c; contracts as in forward.h */
madi_place_t gw_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* end.c; under the session's lock, no tx_lock */
gw_end_t *gw_end_new(gw_t *gw, bool active, int *their_fd);
gw_side_t *gw_side_new(gw_end_t *end); /* Create a side that is on no hop; NULL if out of memory. */
/* Write the head of a fragment for the current path. asks: request an acknowledgement now; it may be requested anyway. */
void gw_end_head(gw_end_t *end, gw_frag_t *frag, unsigned kind, uint32_t seq, size_t len, bool asks);
void gw_end_ack(gw_end_t *end, bool ask); /* Acknowledge what has arrived. */
void gw_end_ack_by(gw_end_t *end, gw_side_t *side, bool ask); /* Like gw_end_ack, but on the given path. */
void gw_end_acked(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
void gw_end_open(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open); /* OPEN or TRY by the other one */
madi_place_t gw_end_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_end_packet_done(gw_hop_t *hop);
void gw_end_received(gw_end_t *end, bool asks); /* Account for a packet that has arrived completely. */
void gw_end_half_received(gw_end_t *end);       /* Account for the rest of a packet that had arrived in part. */
bool gw_end_holds(const gw_end_t *end, const madi_wire_hdr_t *inner, size_t length); /* True if a packet with this inner
                                                                                      * header is valid now. */
void gw_end_told(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* HELLO or READY has arrived. */
void gw_end_closed(gw_end_t *end, mad_status_t status, const char *text); /* The other endpoint has closed, or no path
                                                                           * is left. */
bool gw_end_start(gw_end_t *end, madi_link_t *link, int fd); /* Takes fd, the core's end of the pair; false if out of
                                                              * memory. */
void gw_end_close(gw_end_t *end, mad_status_t status, const char *text);  /* This endpoint closes. */
void gw_end_leave_refused(gw_end_t *end);
void gw_end_route(gw_end_t *end); /* Set the route after a change of path. */
void gw_end_finish(gw_end_t *end); /* If both endpoints have closed, have it freed. */
void gw_ends_reap(gw_t *gw, bool all);

/* Stop charging the peer that opened the stream: its handshake is over, or the charge has lapsed. */
static inline void gw_end_uncharge(gw_end_t *end)
{
    if (end->charged)
        madi_uncharge(end->charged->gate, MADI_CHARGE_HANDSHAKES, 1);
    end->charged = NULL;
}

/* Take the tx_lock of the virtual link's gate, if the link exists. */
static inline void gw_end_lock(gw_end_t *end)
{
    if (end->link)
        madi_lock(&end->link->gate->tx_lock);
}

static inline void gw_end_unlock(gw_end_t *end)
{
    if (end->link)
        madi_unlock(&end->link->gate->tx_lock);
}

/* protect.c; under the session's lock or, for packets, the tx_lock of the virtual link's gate */
bool gw_protect_start(gw_end_t *end, madi_link_t *link); /* The handshake is over: make the keys.  False if out of memory. */
bool gw_link_encrypts(const madi_link_t *link); /* Contract as in forward.h. */
size_t gw_protected_more(const gw_end_t *end, unsigned kind, size_t len);
static inline size_t gw_protected_len(const gw_end_t *end, unsigned kind, size_t len) /* Length of a payload on the wire. */
{
    bool as_is = !end->encrypts && kind != MADI_FORWARD_READY;
    return MADI_LIKELY(as_is) ? len : len + gw_protected_more(end, kind, len);
}
/* Write a payload, sealed if need be, behind the head that gw_end_head made.  False if OpenSSL failed. */
bool gw_protect(gw_end_t *end, gw_frag_t *frag, const struct iovec *vec, int n, size_t len);
/* Like gw_protect, but for a packet, written to out; hdr, forward and turn are those of its head. */
bool gw_protect_packet(gw_end_t *end, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward, const struct iovec *vec,
                       int n, size_t len, unsigned char *out);
void gw_protect_ack(gw_side_t *side, gw_frag_t *frag); /* frag has room for a proof. */
void gw_protect_open(const gw_end_t *end, unsigned kind, madi_wire_open_t *open);
void gw_protect_close(const gw_side_t *side, madi_wire_close_t *c, const char *text);

/* verify.c; under the session's lock, no tx_lock */
bool gw_open_proved(gw_end_t *end, unsigned kind, const madi_wire_open_t *open); /* True if the other endpoint sent it,
                                                                                  * or if it cannot prove that yet. */
bool gw_ready_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
bool gw_ack_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* If false, the path was already
                                                                                    * given up. */
bool gw_close_proved(const gw_side_t *side, const madi_wire_close_t *c, const char *text);
/* Handle a fragment that the other endpoint cannot have sent (text says why): give up the path, or after repeated cases
 * the stream. */
void gw_forged(gw_side_t *side, const char *text);
/* Number of leading bytes of a packet's fragment that gw_end_packet needs; 0 if its length is invalid. */
uint32_t gw_packet_head(const gw_side_t *side, const madi_wire_hdr_t *hdr);
madi_place_t gw_sealed_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
bool gw_sealed_done(gw_side_t *side); /* Verify the body of a long packet that is now complete; false if the other
                                       * endpoint did not send it. */

/* window.c; under the tx_lock of the virtual link's gate */
bool gw_window_room(gw_end_t *end, size_t len, bool copy); /* Make room for one more fragment; false if the window is
                                                            * full or memory is short. */
bool gw_window_asks(gw_end_t *end, size_t len); /* True if it is time to request an acknowledgement. */
void gw_window_keep(gw_end_t *end, unsigned kind, const struct iovec *vec, int n, size_t len); /* record what was sent */
void gw_window_hold(gw_end_t *end, gw_held_t *held, size_t len); /* Record what is about to be sent. */
/* Under the session's lock, without the tx_lock: */
bool gw_window_came(gw_end_t *end, uint32_t ack); /* Process an acknowledgement; false if it is impossible. */
void gw_window_settle(gw_end_t *end, uint32_t ack); /* Take the first proved acknowledgement, and ignore earlier
                                                     * unproved ones. */
void gw_held_left(gw_held_t *held);  /* One fragment less refers to held: a driver has finished reading it. */
bool gw_window_empty(gw_end_t *end);
bool gw_window_calm(gw_end_t *end); /* True if everything in the window is short.  Under the lock that protects the
                                     * window. */
bool gw_window_drains(gw_end_t *end); /* Like gw_window_empty; the first call that returns false requests an
                                       * acknowledgement of everything. */
void gw_window_rest(gw_end_t *end);  /* Free the ring after it was empty for a while. */
int gw_window_resend(gw_end_t *end); /* Send everything in the window again, while nothing else is sent.  Return the
                                      * number of fragments, -1 if out of memory. */
void gw_window_drop(gw_end_t *end, mad_status_t status); /* Discard it for good, completing operations with status. */

/* alive.c; under the session's lock, except gw_alive_watch */
mad_status_t gw_alive_open(gw_t *gw);
void gw_alive_close(gw_t *gw);
void gw_alive_set(gw_t *gw);
void gw_alive_soon(gw_t *gw); /* A stream has no path: check often. */
void gw_alive_forgive(gw_t *gw, int64_t now); /* Before judging times: forgive those during which this process did not
                                               * run (the timer is overdue). */
static inline void gw_alive_watch(gw_t *gw) /* Start the timer if it is not running: there is something to watch.  Any
                                             * lock. */
{
    marceli_async_moves();
    if (MADI_UNLIKELY(!atomic_load_explicit(&gw->ticks, memory_order_relaxed)))
        gw_alive_set(gw);
}
int64_t gw_patience(const gw_t *gw); /* Time allowed for one step of opening a path, ns. */
int64_t gw_head_start(const gw_t *gw); /* Head start of a stream's opener before the other endpoint opens a path, ns. */
void gw_side_ask(gw_side_t *side); /* Probe the gateway on this side, and those behind it on the stream's path. */
/* A PING has arrived: answer it if it is a question, and pass the question on. side: the stream that it is about, or
 * NULL. */
void gw_hop_ping(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

/* resume.c; under the session's lock */
void gw_way_lost(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
bool gw_way_open(gw_end_t *end, gw_hop_t *hop, const unsigned char *address); /* Open a path over hop; false if out of
                                                                               * memory. */
void gw_way_wait(gw_end_t *end, const char *why); /* Begin a new stream without a path: the processes that lead to the
                                                   * other endpoint are lost right now. */
void gw_way_look(gw_end_t *end, int64_t now); /* Check an endpoint that has no path. */
int gw_ways_look(gw_t *gw); /* Check all endpoints that have no path; return the number of events. */
static inline const unsigned char *gw_end_address(const gw_end_t *end) /* Address of the other endpoint; NULL if not
                                                                        * known yet. */
{
    return end->link ? end->gw->base.session->peers[end->link->gate->peer].address : NULL;
}
/* Create a side for a path over hop: opened by the other endpoint under this label, or by this one (NULL) under a new
 * label.  NULL if out of memory, or if the hop is down. */
gw_side_t *gw_way_begin(gw_end_t *end, gw_hop_t *hop, const uint32_t *label);
uint32_t gw_way_turn(const gw_end_t *end); /* Turn of the next path that this endpoint opens. */
void gw_way_say_open(gw_end_t *end, gw_side_t *side, unsigned kind, uint32_t turn, const unsigned char *address);
void gw_way_avoid(gw_end_t *end, const gw_side_t *side); /* The process on that side was tried. */
/* Replace the current path by new, or by none (NULL). resuming: send nothing on it before gw_way_resume. */
void gw_way_change(gw_end_t *end, gw_side_t *new, bool resuming, const char *text);
/* Remove a path from the endpoint, and send CLOSE on it. */
void gw_way_retire(gw_end_t *end, gw_side_t *side, enum madi_close_what what, const char *text);
void gw_way_resume(gw_end_t *end, uint32_t ack); /* Both endpoints are on this path: send again what the other one has
                                                  * not received. */

/* move.c; under the session's lock */
void gw_move_came(gw_side_t *side); /* A gateway on this path asks for another path. */
bool gw_move_look(gw_end_t *end, int64_t now); /* True if another check is needed. */
void gw_move_tried(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open); /* TRY by the other one */
void gw_move_opened(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open);
void gw_move_acked(gw_end_t *end, uint32_t ack); /* The standby path was acknowledged. */
void gw_move_failed(gw_end_t *end, const char *text); /* The standby path is unusable. */
void gw_move_forget(gw_end_t *end, enum madi_close_what what, const char *text);
void gw_move_take(gw_end_t *end); /* Switch to the standby path. */
void gw_drain(gw_t *gw);

/* next.c; under the session's lock, except gw_started */
mad_status_t gw_started(mad_session_t *session);
bool gw_reached_directly(gw_t *gw, int lane, const unsigned char *address); /* True if an adapter other than the virtual
                                                                             * one reaches the address. */
int gw_host_of(gw_t *gw, const unsigned char *address, unsigned *flags); /* -1 if not in the topology file; flags may be
                                                                          * NULL. */
void gw_places_free(gw_t *gw);
void gw_place_wanted(gw_t *gw, mad_peer_t peer); /* A process that only a peer had named is connected now. */
void gw_place_forget(mad_session_t *session, mad_peer_t peer); /* Contract as in forward.h. */
/* True for a gate that is down if the process that was dialled does not exist there, or refuses us, as its host
 * reported.  A network that is out of order may recover, and a process that was once connected is dialled again to find
 * out. */
static inline bool gw_nobody_there(const madi_gate_t *gate)
{
    return !gate->adapter && !gate->apart;
}
int gw_host_of_peer(gw_t *gw, mad_peer_t peer);
unsigned gw_flags_of(gw_t *gw, const unsigned char *address); /* GW_FORWARDS, GW_ANSWERS, GW_DAEMON */
/* Choose the peer that carries fragments towards the process with this address on that lane, except those in avoid (may
 * be NULL), and set *gate.  On failure reason says why; MAD_ERR_PEER means that processes on the way are lost, but may
 * come back. *direct (unless direct is NULL) is true if the process itself was dialled; if that failed, it does not
 * exist there. */
mad_status_t gw_next_gate(gw_t *gw, int lane, const unsigned char *address, const gw_avoid_t *avoid, madi_gate_t **gate,
                          bool *direct, char *reason);

/* dial.c; under the session's lock */
/* True if an address that only peers have named may be dialled.  False is logged, once for each peer that names one. */
bool gw_dial_place(gw_hop_t *from, const unsigned char *address);
/* True if this gate may be dialled on behalf of gw->asker.  False: too many dials are pending for it; reason says so. */
bool gw_dial_may(gw_t *gw, const madi_gate_t *gate, char *reason);
/* Record a pending dial for the peer that opened a stream under this label.  NULL if out of memory, or too many. */
gw_dial_t *gw_dial_new(gw_hop_t *hop, uint32_t label, bool direct);
void gw_dial_follow(gw_dial_t *dial, gw_transit_t *transit); /* The stream waits for this dial. */
void gw_dial_leave(gw_transit_t *transit);                   /* The stream is over. */
void gw_dial_failed(gw_dial_t *dial); /* Have the opener refused, but only after the same delay as for any failed dial. */
void gw_dials_up(const madi_gate_t *gate);
void gw_dials_hop_down(gw_hop_t *hop);
int64_t gw_dials_look(gw_t *gw, int64_t now); /* Return when to check again, ns; INT64_MAX if no dial is pending. */
void gw_dials_free(gw_t *gw);

/* transit.c */
void gw_open_came(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const unsigned char *body);
void gw_transit_fragment(gw_side_t *from, gw_frag_t *frag);
bool gw_transit_now(gw_side_t *from, const madi_wire_hdr_t *hdr, madi_foreign_t body); /* Send without queueing; false
                                                                                        * if not sent. */
void gw_transit_lost(gw_side_t *side, const char *text); /* The hop of this side is down. */
void gw_transit_fail(gw_transit_t *t, mad_status_t status, const char *text);
void gw_refuse(gw_hop_t *hop, const madi_wire_hdr_t *hdr, enum madi_close_what what, mad_status_t status, const char *text);
/* The endpoint beyond this side is gone. */
void gw_transit_closed(gw_side_t *from, const madi_wire_close_t *c, const char *text);
int gw_transits_reap(gw_t *gw, bool all);
/* True for the first MOVE from this side only: one is enough for the endpoint. */
static inline bool gw_transit_moves(gw_side_t *side)
{
    bool *moved = &side->transit->moved[side == &side->transit->side[1]], was = *moved;
    *moved = true;
    return !was;
}
static inline gw_side_t *gw_transit_other(gw_side_t *side)
{
    return side == &side->transit->side[0] ? &side->transit->side[1] : &side->transit->side[0];
}

/* credit.c; under the session's lock, no tx_lock */
void gw_budget_shares(gw_t *gw); /* Reserve shares of the budget; once, at the start. */
bool gw_credit_open(gw_side_t *side, size_t opening); /* Reserve the first window, and opening bytes for an outgoing
                                                       * OPEN.  False if the budget is used up. */
void gw_credit_close(gw_side_t *side);
void gw_credit_first(gw_side_t *side);     /* Grant the first window. */
void gw_credit_unlimited(gw_side_t *side); /* For an endpoint. */
bool gw_credit_take(gw_side_t *side, uint32_t cost); /* A fragment has arrived; false if no credit covered it. */
void gw_credit_back(gw_side_t *side, uint32_t cost); /* A fragment has left: its credit may be granted again.  Under
                                                      * tx_locks too. */
void gw_credit_tell(gw_t *gw); /* Send CREDIT for all sides that are due. */
void gw_credit_came(gw_side_t *side, uint64_t limit);

/* rate.c; under the session's lock */
bool gw_rate_may(gw_t *gw); /* True if credit may be granted now; if false, a timer calls gw_credit_tell later. */
bool gw_rate_spare(gw_t *gw); /* True if windows may grow. */
void gw_rate_take(gw_t *gw, int64_t bytes); /* Account for granted bytes; negative: returned unused. */
void gw_rate_close(gw_t *gw);

/* daemon.c */
bool gw_is_daemon(void); /* True if this process only forwards (madgw). */
/* A gateway started by the launcher appends its number and its start time to the host's name in its address.  It
 * replaces the gateway that had this number before. */
typedef struct gw_mark {
    uint32_t number;
    uint64_t since; /* ns; 0 if the process is none of these */
} gw_mark_t;
size_t gw_mark_put(unsigned char *bytes, size_t room); /* Write the mark of this process; return its length. */
gw_mark_t gw_mark_read(const unsigned char *bytes, size_t len); /* Read the mark from an adapter's bytes. */
mad_status_t gw_learn_gateways(mad_session_t *session); /* Add the gateways that the launcher started beside the ranks. */
mad_status_t gw_learn_named(mad_session_t *session);    /* Add the gateways of MAD_GATEWAYS.  MAD_ERR_CONFIG is logged. */

/* lane.c; contracts as in forward.h */
int gw_lane(mad_session_t *session, const char *channel);
const char *gw_lane_name(mad_session_t *session, int lane);
int gw_lanes(mad_session_t *session);
bool gw_lane_carries(mad_session_t *session, int lane);
int gw_lane_of(gw_t *gw, int lane); /* Lane of the channel whose streams this lane carries: itself, or the one that it
                                     * stands in for. */
/* Lane on which a stream of this lane continues to that process. */
int gw_lane_to(gw_t *gw, int lane, const unsigned char *address);
bool gw_agrees(mad_session_t *session, const unsigned char *address);
bool gw_lane_reachable(mad_session_t *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                       char *reason);
int gw_lane_place(mad_session_t *session, int lane, const madi_adapter_t *adapter);
const char *gw_network(const madi_gate_t *gate);
bool gw_carried(const madi_adapter_t *adapter);
int gw_security(const madi_adapter_t *adapter);

/* know.c; under the session's lock */
void gw_know_up(madi_gate_t *gate); /* Contract as in forward.h. */
void gw_know_came(gw_hop_t *hop, const unsigned char *address, size_t max);

/* say.c */
void gw_say(struct mad_session *session, madi_json_t *json);

/* count.c */
/* Return the row of these streams, and count one more stream; NULL if out of memory.  Under the session's lock, as all
 * here except the inline functions. */
gw_route_t *gw_route_open(gw_t *gw, int lane, int from, int via, int to, bool passes);
/* Add the counters of a finished stream to its row. route may be NULL. */
void gw_route_close(gw_route_t *route, const gw_side_t *there, const gw_side_t *back);
void gw_routes_free(gw_t *gw);
void gw_route_text(const madi_link_t *link, char *buf, size_t len); /* Contract as in forward.h; under the session's lock. */
void gw_say_routes(struct mad_session *session, madi_json_t *json);
void gw_traffic(madi_gate_t *gate, madi_traffic_t *ends, madi_traffic_t *passing);

static inline void gw_count(gw_count_t *side, gw_count_t *hop, uint32_t length)
{
    side->fragments++;
    side->bytes += length;
    hop->fragments++;
    hop->bytes += length;
}
/* Count a fragment that costs credit: received, under the session's lock; sent, under tx_lock. */
static inline void gw_side_came(gw_side_t *side, const madi_wire_hdr_t *hdr)
{
    gw_count(&side->in, &side->hop->in_all[side->transit != NULL], hdr->length);
}
static inline void gw_side_sent(gw_side_t *side, const madi_wire_hdr_t *hdr, uint32_t cost)
{
    side->tx_used += cost;
    gw_count(&side->out, &side->hop->out_all[side->transit != NULL], hdr->length);
}
static inline void gw_side_queued(gw_side_t *side, const gw_frag_t *frag)
{
    side->queued_bytes += frag->hdr.length;
    if (++side->queued > side->queued_most)
        side->queued_most = side->queued;
    if (side->queued_bytes > side->queued_bytes_most)
        side->queued_bytes_most = side->queued_bytes;
}
/* Add a trace event; end 0 means now.  Under tx_lock or the session's lock. */
void gw_trace(madi_trace_kind_t kind, int64_t began, int64_t end, const gw_side_t *side, uint32_t length);
/* Note that the side waits for credit, if it was not waiting already.  Under tx_lock. */
static inline void gw_side_stalls(gw_side_t *side)
{
    if (!side->stalled) {
        side->stalls++;
        atomic_fetch_add_explicit(&side->hop->gw->stalls, 1, memory_order_relaxed);
        side->stalled_at = madi_trace_now();
    }
    side->stalled = true;
}
/* Note that it no longer waits for credit.  Under tx_lock. */
static inline void gw_side_goes(gw_side_t *side)
{
    side->stalled = false;
    if (MADI_UNLIKELY(side->stalled_at != 0))
        gw_trace(MADI_TRACE_STALL, side->stalled_at, 0, side, 0);
    side->stalled_at = 0;
}

#endif
