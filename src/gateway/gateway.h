/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual links and gateways.
 *
 * A *virtual link* is a link of the driver `virtual`: to the core it is like any other, so connections, modes, credits and
 * rendezvous go over it unchanged.  Below it lies a *stream*: fragments (packets of type FORWARD) that go from hop to hop
 * over ordinary links of ordinary gates.  A process that a stream passes through is a gateway.
 *
 *      process A                       gateway G                        process B
 *   core                                                              core
 *     | vlink (end)                                              (end) vlink |
 *   side ======== hop: gate A-G ====== side | side ====== hop: gate G-B ==== side
 *                                        transit
 *
 *   virtual.c   the driver: adapter, connect, start, send           end.c      the ends of streams: handshake, packets in
 *   window.c    what is sent and not acknowledged                   resume.c   another way for a stream
 *   move.c      a way beside the one that a stream has              next.c     which process is next on a way
 *   alive.c     does who shall pass it on still live?               hop.c      a gate's streams, and fragments out
 *   transit.c   streams that pass through                           arrive.c   fragments in
 *   credit.c    who may send how much, and the bound on memory      say.c      what mad_info shows
 *   map.c       which host is reached through which                 count.c    what has passed, by route
 *   daemon.c    gateways that are processes of their own            lane.c     channels with networks of their own
 *   know.c      gateways that come later                         cipher.c   keys that only the ends have
 *   protect.c   what an end proves, and seals                    verify.c   what it believes of what comes
 *   rate.c      a limit of bandwidth
 *   label.c     streams by their numbers on a hop                form.c     lengths of fragments
 *   dial.c      calls on behalf of peers
 *
 * Locks: everything under session->lock, but what leaves over a hop (queues of its sides, tx_*) under the tx_lock of its
 * gate.  A virtual link's send takes that after the tx_lock of the virtual link's own gate; never the other way round,
 * and never two of real gates.  The window of an end, and which way it has, change under the tx_lock of the virtual link's
 * own gate (before the link is there: under the session's).  doc/gateways.md has flow control and why nothing can wait
 * in a circle. */
#ifndef MADI_GATEWAY_H
#define MADI_GATEWAY_H

#include "core/core.h"
#include "core/forward.h"
#include "gateway/cipher.h"
#include "gateway/map.h"

/* Bytes of a fragment's payload, the inner header included, at most (doc/rationale.md has what was measured), and where
 * networks are slow or drivers are involved that cannot do more. */
#define GW_FRAGMENT ((size_t)256 << 10)
#define GW_FRAGMENT_LEAST ((size_t)32 << 10)
#define GW_FRAGMENT_US 250 /* what the slowest network may take for one: so long a hop is idle as a message begins or ends */
/* Blocks below this may go with their message (virtual_packet_room): longer ones are there sooner when they are granted, in
 * several pieces, and not copied. */
#define GW_AHEAD ((size_t)192 << 10)
#define GW_HEAD (sizeof(madi_wire_hdr_t) + sizeof(madi_wire_forward_t)) /* before the payload */
#define GW_SEALS ((size_t)2 * MADI_WIRE_PROOF) /* that tags add to a packet, at most */
#define GW_FIRST ((uint64_t)16 << 10) /* credit before the first CREDIT comes */
#define GW_WINDOW_MAX ((uint64_t)2 << 20)
#define GW_HOPS 16 /* gateways on a way, at most */
#define GW_TEXT 160 /* bytes of an explanation that travels */

typedef struct gw gw_t;
typedef struct gw_hop gw_hop_t;
typedef struct gw_side gw_side_t;
typedef struct gw_end gw_end_t;
typedef struct gw_transit gw_transit_t;
typedef struct gw_place gw_place_t;
typedef struct gw_held gw_held_t;
typedef struct gw_early gw_early_t;
typedef struct gw_dial gw_dial_t;

/* What has passed. */
typedef struct gw_count {
    uint64_t fragments, bytes;
} gw_count_t;

/* Where streams go, as far as it is seen here, and what passed in those that are closed (count.c). */
typedef struct gw_route {
    struct gw_route *next;
    int lane;
    int from, via, to; /* hosts: of the process before, of the next one, of the destination; -1: not known, or several */
    bool passes;       /* false: the streams end here, and from is this host */
    uint64_t opened;
    gw_count_t there, back; /* towards the destination, and from it */
    uint64_t stalls, resends;
    uint32_t queued_most; /* of one stream, in one direction */
    uint64_t queued_bytes_most;
    int row; /* when it is told */
} gw_route_t;

/* A fragment that waits or is on its way out. */
typedef struct gw_frag {
    madi_op_t op; /* must be first */
    struct gw_frag *next;
    gw_side_t *side;      /* where it goes out */
    gw_held_t *held;      /* the packet, if it is sent from the program's memory; or NULL */
    madi_link_t *lender;  /* whose driver lent the body; or NULL */
    madi_foreign_t loan;
    uint32_t cost;
    bool pooled;
    bool taken;           /* by the driver: it is counted in the hop's in_flight */
    int64_t queued_at, began; /* traced: since when it waits; since when the driver has it */
    int n;
    struct iovec vec[2];
    struct iovec *more;   /* instead of vec, of a user's packet */
    madi_wire_hdr_t hdr;  /* what follows is sent behind it */
    unsigned char body[];
} gw_frag_t;

/* A stream on one hop, as this process sees it. */
struct gw_side {
    gw_hop_t *hop; /* NULL: that end is gone */
    uint32_t label;
    bool opener;   /* this process has opened the stream on this hop */
    bool visited;  /* gw_sides_next */
    gw_end_t *end;         /* one of these: the stream ends here */
    gw_transit_t *transit; /* or passes through */
    gw_route_t *route;     /* of an old way */
    gw_side_t *next_label; /* in hop->sides */
    gw_side_t *next_old;   /* of an end that has left this way: what came of it is heard no more */
    bool old;
    bool moves;            /* of an end: a gateway on this way has asked for another */
    uint32_t turn;         /* of an end: as in madi_wire_open */
    uint32_t acks_out, acks_in; /* of an end, encrypted: proved ACKs that were sent, and have come, by this way */
    /* In: credits that this process has given.  Under the session's lock. */
    uint64_t rx_limit, rx_used, rx_back, rx_window, rx_told;
    uint32_t free; /* bytes of the budget for what goes out here without credit */
    gw_side_t *next_tell;
    bool tells;
    gw_count_t in;
    /* Out, under the gate's tx_lock. */
    uint64_t tx_limit, tx_used;
    gw_frag_t *queue, **queue_tail;
    gw_side_t *next_active; /* in hop->active */
    bool active;
    bool stalled;           /* it waits for credit */
    int64_t stalled_at;     /* traced: since when */
    gw_count_t out;
    uint64_t stalls, resends; /* how often it had to wait for credit; fragments sent again on another way */
    uint32_t queued, queued_most;
    uint64_t queued_bytes, queued_bytes_most;
    _Atomic(int) in_flight; /* fragments that a driver has taken, or that wait to be told done */
};

/* One gate over which fragments go. */
struct gw_hop {
    madi_gate_t *gate;
    gw_t *gw;
    gw_hop_t *next;
    bool down;
    bool forwards;  /* the peer is a gateway */
    bool answers;   /* and somebody is always there who answers */
    const char *network; /* as the file calls it; or NULL */
    bool moves;     /* it has asked that streams take other ways */
    bool over_told; /* that it lets more than GW_HOPS gateways follow has been logged */
    bool named_far; /* the log says that it named an address which is not called */
    int64_t asked;  /* since when it owes a sign of life; 0: it does not */
    /* Streams by label: [0] opened by the peer, [1] by this process (label.c). */
    gw_side_t **sides[2]; /* by place: lists */
    uint32_t n_sides[2], cap_sides[2];
    uint32_t n_labels[2]; /* no label from there on was given */
    uint32_t visited[2];  /* gw_sides_next: places that are done */
    /* The fragment that is coming in, between rx_begin and rx_done. */
    enum gw_in { GW_IN_NONE, GW_IN_END, GW_IN_TRANSIT, GW_IN_WHOLE } in;
    gw_side_t *in_side;
    gw_frag_t *in_frag;   /* TRANSIT, and WHOLE: its bytes */
    int64_t in_began; /* traced */
    /* Out, under tx_lock. */
    gw_side_t *active, **active_tail; /* sides with fragments and credit for the first */
    gw_end_t *refused;                /* virtual links whose send was refused because this link was full */
    _Atomic(int) in_flight;           /* fragments that the driver has taken: their end is when to go on */
    gw_count_t in_all[2], out_all[2]; /* [0] of streams that end here, [1] of others; locks as for those of sides */
};

/* A packet of the program's memory, or copied to behind vec, from send until the other end has it and nobody reads it here
 * any more. */
struct gw_held {
    madi_op_t *user; /* the core's; NULL: a copy */
    gw_end_t *end;
    gw_held_t *next;
    int out;   /* fragments that refer to it: queued, or taken by a driver */
    bool over; /* acknowledged, or given up; with this status: */
    mad_status_t status;
    madi_wire_hdr_t hdr;
    int n;
    struct iovec vec[]; /* the first is hdr; of a copy all */
};

/* What was sent and is not acknowledged. */
typedef struct gw_window {
    unsigned char *ring;
    uint64_t cap, head, tail; /* positions count up, and lie in the ring modulo cap */
    uint64_t bytes, unasked;  /* of fragments in it; and sent since acknowledgement was asked for */
    uint32_t base, next;      /* the number of the first in it, and of the next fragment */
    _Atomic(uint32_t) ack;    /* as the other end said; base follows when it is looked at */
    _Atomic(int) held;        /* so many are of the program's memory */
    _Atomic(int) full;        /* somebody waits for room */
} gw_window_t;

/* Processes that were tried. */
typedef struct gw_avoid {
    mad_peer_t peer[32];
    int n;
    bool lost; /* such as were lost, too: they may be back, but that is found out only by calling them */
} gw_avoid_t;

/* A fragment READY. */
struct gw_early {
    madi_wire_hdr_t hdr;
    uint32_t turn;
    unsigned char body[sizeof(madi_wire_forward_t) + sizeof(madi_wire_ready_t)];
};

/* The end of a stream in this process. */
struct gw_end {
    gw_t *gw;
    gw_end_t *next;
    gw_side_t *side;     /* the way; NULL: it has none */
    gw_side_t *old;      /* ways that it has left, until nothing of them is under way here */
    gw_route_t *route;   /* of the way; NULL: the peer is not known yet */
    madi_link_t *link;   /* the virtual link; NULL: not yet, or no more */
    uint64_t stream;     /* as in madi_wire_open, and turn too */
    uint32_t turn;
    bool active;         /* this process has opened the stream */
    bool started, ready; /* both handshakes are over: here; there */
    bool closed;         /* CLOSE has been sent, or cannot be */
    bool gone;           /* the other end has closed, or there is no way any more */
    bool dead;           /* both: it is freed soon */
    _Atomic(uint32_t) rx_seq; /* fragments that are here whole */
    gw_window_t window;
    _Atomic(int) n_held; /* gw_held_t of this end */
    /* The packet that has come in part.  When its way breaks, the rest comes with all of it, by another. */
    bool half, half_asks;
    madi_wire_hdr_t half_hdr;
    madi_rx_t half_rx;
    gw_hop_t *charged;   /* whose peer is charged for a handshake; NULL: it is over, or this process has opened the stream */
    madi_watch_t watch;  /* our end of the socket pair, while the handshake lasts; else -1 */
    int their_fd;        /* the other one's number */
    bool refused;        /* in hop->refused */
    gw_end_t *next_refused;
    /* alive.c */
    uint32_t seen;       /* what was acknowledged, and had come, at the last look */
    bool asked;          /* for acknowledgement, since then */
    uint32_t drain_asked; /* up to which fragment the end of the session has asked for it */
    /* resume.c */
    bool resuming;       /* a way was opened, and the other end has not answered yet */
    int64_t lost;        /* since when there is no way; 0: there is one */
    int64_t try_at;      /* when to try the next, or give up the one that is tried */
    mad_status_t status; /* of why */
    int turns;           /* so often all ways were tried */
    bool hope;           /* not all of them said that the peer is gone */
    gw_avoid_t avoid;
    char why[GW_TEXT + 1];
    /* move.c: another way, which the opener tries while it still has this one, or which the other end has opened. */
    gw_side_t *beside;
    uint32_t beside_turn, beside_ack;
    int64_t beside_at;   /* since when it is tried */
    bool beside_takes;   /* it is to be taken when the packet is here that is coming in by the old one */
    uint32_t turn_tried; /* the greatest that this end has opened, and that the other one has */
    uint32_t turn_heard;
    /* protect.c, verify.c */
    gw_cipher_t *cipher; /* keys of the two ends; NULL: their handshake is not over here */
    bool encrypts;       /* its packets, and acknowledgements, are sealed */
    unsigned char *sealed; /* room for one packet, from the first that is longer than the stack's */
    unsigned char half_tag[MADI_WIRE_PROOF]; /* of the body of the packet that has come in part */
    gw_early_t *early;   /* READY that came before the handshake was over here; or NULL */
    uint32_t forged;     /* fragments that were not the other end's, lately; and what had come then */
    uint32_t forged_at;
    bool unproved_told;  /* that somebody wanted, or ended, the stream without a proof */
    bool repeated_told;  /* that something came twice */
};

/* A stream that passes through. */
struct gw_transit {
    gw_t *gw;
    gw_transit_t *next;
    gw_side_t side[2];
    gw_route_t *route; /* NULL: it was not opened */
    gw_dial_t *dial;   /* side[1] waits for a call, of whose end nothing is told; else NULL */
    bool moved[2];     /* MOVE has come from the end beyond side[i], and has been passed on */
    bool direct;    /* the process beyond side[1] is the one that is wanted */
    bool closed[2]; /* by the end beyond side[i]; what it sent may still be waiting at the other side */
};

typedef struct gw_link {
    madi_link_t base;
    gw_end_t *end;
    madi_link_t *carrier; /* of the bodies that are lent */
} gw_link_t;

/* The virtual adapter: all of it. */
struct gw {
    madi_adapter_t base;
    madi_forward_t forward;
    madi_map_t *map;
    int host;
    bool forwards; /* this host has two networks */
    bool draining; /* it takes no new streams, and those that pass are to go elsewhere (gw_drain) */
    bool counted;  /* as one that needs progress */
    bool awaits;   /* a gateway that the launcher has to start was not there at the start: another comes in its place */
    gw_place_t *places; /* by host: the processes that forward there, of the first n_placed peers; NULL: not asked for yet */
    uint32_t n_placed;
    uint32_t n_known;   /* so many peers were there when this process started; others came later */
    uint64_t label_key; /* secret, odd: where a label stands in a table */
    uint64_t turn;      /* of ways that are equal */
    gw_hop_t *hops;
    gw_end_t *ends;
    gw_transit_t *transits;
    gw_dial_t *dials;      /* dial.c */
    gw_hop_t *asker;       /* on whose behalf the next process is looked for; NULL: for this process */
    bool asker_claims;     /* and one is to be called whose address only peers have named */
    int n_transits, closing; /* closing: closed at both ends */
    _Atomic(int) unsettled; /* the next poll finds something in what follows, or: */
    bool later;             /* streams to be freed, or to be given a way */
    gw_frag_t *sent; /* users' that have left */
    gw_side_t *tell, **tell_tail; /* sides to whose peers credit is to be told */
    struct madi_gateway_rate *rate; /* rate.c; NULL: there is no limit */
    int64_t rate_left, rate_at;     /* bytes that may be promised, and since when: ns; below 0: too many were */
    madi_watch_t rate_timer;        /* when credits wait: until they may be told */
    gw_frag_t *pool; /* fragments of full size that are free */
    int n_pool;
    size_t fragment;    /* the longest, by the file: the same for all who read it */
    int64_t budget;     /* bytes that may still be promised */
    int64_t budget_all;
    int64_t held, held_most; /* bytes of fragments that wait here */
    int64_t n_held, n_held_most; /* so many are these */
    gw_route_t *routes;
    int n_routes;
    uint64_t fragments, bytes, copies, opened, refused;
    _Atomic(uint64_t) stalls, resends;
    /* Fail-over. */
    madi_watch_t timer;
    _Atomic(int) ticks; /* the timer is set for what is under way; else, where there are ends, for another look at idle ones */
    uint32_t idle_turn;
    _Atomic(int64_t) due; /* for then */
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
int gw_settle(gw_t *gw); /* what could not be done with a tx_lock held; returns events */
/* The next poll frees streams that are over, and looks for ways.  Under the session's lock. */
static inline void gw_later(gw_t *gw)
{
    gw->later = true;
    atomic_store_explicit(&gw->unsettled, 1, memory_order_relaxed);
}
/* The host of adapter bytes, and what it says of itself; -1: unknown. */
#define GW_FORWARDS 1u
#define GW_ANSWERS 2u /* its progress thread does, while the program computes */
#define GW_DAEMON MADI_FORWARD_DAEMON
int gw_host_read(gw_t *gw, const unsigned char *bytes, size_t len, unsigned *flags);
/* Is the process with these bytes behind gateways?  False: why not. */
bool gw_reachable(gw_t *gw, int lane, const void *bytes, size_t len, char *reason);
gw_frag_t *gw_held_frag(gw_held_t *held); /* to be queued; NULL: no memory */
bool gw_held_fill(gw_held_t *held, gw_frag_t *frag); /* when it has its head; false: OpenSSL refused, and it is gone */

/* hop.c */
gw_hop_t *gw_hop_get(gw_t *gw, madi_gate_t *gate); /* makes it; NULL: no memory */
/* Give the stream a place on the hop: opened by this process under a new label, or by the peer under that one. */
bool gw_side_open(gw_side_t *side, gw_hop_t *hop, const uint32_t *label);
bool gw_side_crowded(gw_side_t *side); /* so much waits that an acknowledgement may be left out; takes the tx_lock */
void gw_side_drop(gw_side_t *side);  /* what waits does not leave */
void gw_side_close(gw_side_t *side); /* nor does anything come */
madi_sent_t gw_side_send_user(gw_side_t *side, gw_frag_t *frag); /* SENT or TAKEN; under tx_lock */
static inline uint32_t gw_cost(size_t length) /* what a fragment costs: its memory, and something for small ones */
{
    return (uint32_t)(length + 319) & ~UINT32_C(63);
}
gw_frag_t *gw_frag_new(gw_t *gw, uint32_t len); /* under the session's lock; NULL: no memory */
void gw_frag_free(gw_t *gw, gw_frag_t *frag);   /* likewise, but for a user's */
/* Put a fragment at the end of a side's queue.  Under the session's lock, no tx_lock; sends it if possible. */
void gw_side_put(gw_side_t *side, gw_frag_t *frag);
void gw_side_enqueue(gw_side_t *side, gw_frag_t *frag); /* under tx_lock; sends nothing */
/* A fragment made here: kind, and a body behind the forward header. */
void gw_side_say(gw_side_t *side, unsigned kind, uint16_t channel, const void *body, size_t len, const void *more,
                 size_t more_len);
void gw_side_say_close(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
void gw_side_pass_close(gw_side_t *side, const madi_wire_close_t *c, const char *text); /* as it came */
/* Under tx_lock. */
bool gw_side_may(const gw_side_t *side, const madi_wire_hdr_t *hdr, uint32_t cost);
void gw_side_activate(gw_side_t *side); /* it has a fragment, and maybe credit for it */
void gw_hop_pump(gw_hop_t *hop);
void gw_frag_done(madi_op_t *op, mad_status_t status);
extern const madi_forward_t gw_forward;

/* label.c; under the session's lock */
void gw_labels_key(gw_t *gw); /* once, before there is a hop */
bool gw_label_new(gw_hop_t *hop, const madi_wire_hdr_t *hdr); /* of OPEN: nobody has it yet, and now it is taken */
bool gw_label_put(gw_hop_t *hop, gw_side_t *side); /* label and opener are set; false: no memory */
void gw_label_drop(gw_hop_t *hop, gw_side_t *side);
gw_side_t *gw_side_find(gw_hop_t *hop, const madi_wire_hdr_t *hdr); /* NULL: none */
/* Of a hop that is down: a stream that this has not returned yet, though others come and go meanwhile; NULL: none is left. */
gw_side_t *gw_sides_next(gw_hop_t *hop);
void gw_labels_free(gw_hop_t *hop); /* close all */

/* form.c; no lock */
bool gw_form_good(const madi_wire_hdr_t *hdr); /* of a known kind, and as long as those may be */
bool gw_costs(const madi_wire_hdr_t *hdr);     /* what is about the stream itself goes without credit */

/* arrive.c; as in forward.h */
madi_place_t gw_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* end.c; under the session's lock, no tx_lock */
gw_end_t *gw_end_new(gw_t *gw, bool active, int *their_fd);
gw_side_t *gw_side_new(gw_end_t *end); /* without a hop; NULL: no memory */
/* The head of a fragment on its way.  asks: acknowledgement is wanted at once; it may be anyway. */
void gw_end_head(gw_end_t *end, gw_frag_t *frag, unsigned kind, uint32_t seq, size_t len, bool asks);
void gw_end_ack(gw_end_t *end, bool ask); /* tell what has come */
void gw_end_ack_by(gw_end_t *end, gw_side_t *side, bool ask); /* by this way */
void gw_end_acked(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
void gw_end_open(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open); /* by the other end */
madi_place_t gw_end_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_end_packet_done(gw_hop_t *hop);
void gw_end_received(gw_end_t *end, bool asks); /* a packet is here whole */
void gw_end_half_received(gw_end_t *end);       /* the rest of one that had come in part is */
bool gw_end_holds(const gw_end_t *end, const madi_wire_hdr_t *inner, size_t length); /* true if such a packet may come now */
void gw_end_told(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* HELLO, READY */
void gw_end_closed(gw_end_t *end, mad_status_t status, const char *text); /* by the other one, or there is no way */
bool gw_end_start(gw_end_t *end, madi_link_t *link, int fd); /* takes fd, the other one of the pair; false: no memory */
void gw_end_close(gw_end_t *end, mad_status_t status, const char *text);  /* by this one */
void gw_end_leave_refused(gw_end_t *end);
void gw_end_route(gw_end_t *end); /* it has a new way */
void gw_end_finish(gw_end_t *end); /* if both have closed */
void gw_ends_reap(gw_t *gw, bool all);

/* The handshake of a stream that a peer has opened is over, or nobody will be charged for it any more. */
static inline void gw_end_uncharge(gw_end_t *end)
{
    if (end->charged)
        madi_uncharge(end->charged->gate, MADI_CHARGE_HANDSHAKES, 1);
    end->charged = NULL;
}

/* The tx_lock of the virtual link's gate, if there is one already. */
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

/* protect.c; under the session's lock or, of packets, the tx_lock of the virtual link's gate */
bool gw_protect_start(gw_end_t *end, madi_link_t *link); /* the handshake is over; false: no memory */
bool gw_link_encrypts(const madi_link_t *link); /* as in forward.h */
size_t gw_protected_more(const gw_end_t *end, unsigned kind, size_t len);
static inline size_t gw_protected_len(const gw_end_t *end, unsigned kind, size_t len) /* of a payload, as it travels */
{
    bool as_is = !end->encrypts && kind != MADI_FORWARD_READY;
    return MADI_LIKELY(as_is) ? len : len + gw_protected_more(end, kind, len);
}
/* Put a payload behind the head of a fragment, which gw_end_head has made, as it travels.  False: OpenSSL refused. */
bool gw_protect(gw_end_t *end, gw_frag_t *frag, const struct iovec *vec, int n, size_t len);
/* The same for a packet: behind head, of which hdr, forward and turn are. */
bool gw_protect_packet(gw_end_t *end, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward, const struct iovec *vec,
                       int n, size_t len, unsigned char *out);
void gw_protect_ack(gw_side_t *side, gw_frag_t *frag); /* with room for a proof */
void gw_protect_open(const gw_end_t *end, unsigned kind, madi_wire_open_t *open);
void gw_protect_close(const gw_side_t *side, madi_wire_close_t *c, const char *text);

/* verify.c; under the session's lock, no tx_lock */
bool gw_open_proved(gw_end_t *end, unsigned kind, const madi_wire_open_t *open); /* by the other end, or it cannot yet */
bool gw_ready_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
bool gw_ack_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* if not, its way was given up */
bool gw_close_proved(const gw_side_t *side, const madi_wire_close_t *c, const char *text);
/* What came by this way, text says it, is not from the other end: the way is given up, and after a few times the stream. */
void gw_forged(gw_side_t *side, const char *text);
/* So many bytes of a packet's fragment gw_end_packet looks at; none: it may not be so long. */
uint32_t gw_packet_head(const gw_side_t *side, const madi_wire_hdr_t *hdr);
madi_place_t gw_sealed_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
bool gw_sealed_done(gw_side_t *side); /* the body of a long one is here; false: it is not the other end's */

/* window.c; under the tx_lock of the virtual link's gate */
bool gw_window_room(gw_end_t *end, size_t len, bool copy); /* for one more fragment; false: full, or no memory */
bool gw_window_asks(gw_end_t *end, size_t len); /* is it time to ask for acknowledgement? */
void gw_window_keep(gw_end_t *end, unsigned kind, const struct iovec *vec, int n, size_t len); /* what was just sent */
void gw_window_hold(gw_end_t *end, gw_held_t *held, size_t len); /* what is about to be */
/* ... and with the session's lock, without it */
bool gw_window_came(gw_end_t *end, uint32_t ack); /* false: nonsense */
void gw_window_settle(gw_end_t *end, uint32_t ack); /* the first that is proved: what others have said before is not counted */
void gw_held_left(gw_held_t *held);  /* no driver reads it, by one fragment less */
bool gw_window_empty(gw_end_t *end);
bool gw_window_calm(gw_end_t *end); /* all that is in it is small: under the lock under which it changes */
bool gw_window_drains(gw_end_t *end); /* as empty; the first time that it is not, all in it is asked for */
void gw_window_rest(gw_end_t *end);  /* it was empty for a while */
int gw_window_resend(gw_end_t *end); /* all that is in it, while nothing else is sent; how many, or -1: no memory */
void gw_window_drop(gw_end_t *end, mad_status_t status); /* for ever */

/* alive.c; under the session's lock, but watch */
mad_status_t gw_alive_open(gw_t *gw);
void gw_alive_close(gw_t *gw);
void gw_alive_set(gw_t *gw);
void gw_alive_soon(gw_t *gw); /* a stream has no way: look often */
void gw_alive_forgive(gw_t *gw, int64_t now); /* before times are judged of which the timer is set for the first */
static inline void gw_alive_watch(gw_t *gw) /* there is something to watch.  Any lock */
{
    marceli_async_moves();
    if (MADI_UNLIKELY(!atomic_load_explicit(&gw->ticks, memory_order_relaxed)))
        gw_alive_set(gw);
}
int64_t gw_patience(const gw_t *gw); /* ns that one step of a new way may take */
int64_t gw_head_start(const gw_t *gw); /* ns that the opener of a stream has before the other end opens a way */
void gw_side_ask(gw_side_t *side); /* does the gateway there live, and those behind it on the stream's way? */
/* It asks, or answers; side: of the stream that it asks about, or NULL. */
void gw_hop_ping(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

/* resume.c; under the session's lock */
void gw_way_lost(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
bool gw_way_open(gw_end_t *end, gw_hop_t *hop, const unsigned char *address); /* false: no memory */
void gw_way_wait(gw_end_t *end, const char *why); /* a new stream, when who leads to the other end is lost just now */
void gw_way_look(gw_end_t *end, int64_t now); /* of an end that is without one */
int gw_ways_look(gw_t *gw); /* of those that lack one; returns events */
static inline const unsigned char *gw_end_address(const gw_end_t *end) /* of the other one; NULL: not known yet */
{
    return end->link ? end->gw->base.session->peers[end->link->gate->peer].address : NULL;
}
/* A side for a way over that hop, opened by the other end under this label, or by this one (NULL) under a new one.  NULL: no
 * memory, or the hop is down. */
gw_side_t *gw_way_begin(gw_end_t *end, gw_hop_t *hop, const uint32_t *label);
uint32_t gw_way_turn(const gw_end_t *end); /* of the next way that this end opens */
void gw_way_say_open(gw_end_t *end, gw_side_t *side, unsigned kind, uint32_t turn, const unsigned char *address);
void gw_way_avoid(gw_end_t *end, const gw_side_t *side); /* the process there was tried */
/* Leave the way for this one, or for none (NULL).  resuming: nothing is sent by it before gw_way_resume. */
void gw_way_change(gw_end_t *end, gw_side_t *new, bool resuming, const char *text);
/* It is no way of the end any more: CLOSE says so. */
void gw_way_retire(gw_end_t *end, gw_side_t *side, enum madi_close_what what, const char *text);
void gw_way_resume(gw_end_t *end, uint32_t ack); /* both ends are at this way: what the other one has not got goes again */

/* move.c; under the session's lock */
void gw_move_came(gw_side_t *side); /* its gateways ask for another way */
bool gw_move_look(gw_end_t *end, int64_t now); /* is there to be another look? */
void gw_move_tried(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open); /* by the other end */
void gw_move_opened(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open);
void gw_move_acked(gw_end_t *end, uint32_t ack); /* over the way beside */
void gw_move_failed(gw_end_t *end, const char *text); /* that cannot be taken */
void gw_move_forget(gw_end_t *end, enum madi_close_what what, const char *text);
void gw_move_take(gw_end_t *end); /* leave the old way for it */
void gw_drain(gw_t *gw);

/* next.c; under the session's lock, but the first */
mad_status_t gw_started(mad_session_t *session);
bool gw_reached_directly(gw_t *gw, int lane, const unsigned char *address); /* by an adapter of ours that is not virtual */
int gw_host_of(gw_t *gw, const unsigned char *address, unsigned *flags); /* -1: not in the file; flags may be NULL */
void gw_places_free(gw_t *gw);
void gw_place_wanted(gw_t *gw, mad_peer_t peer); /* a process that a peer has named is connected */
void gw_place_forget(mad_session_t *session, mad_peer_t peer); /* as in forward.h */
/* Of a gate that is down: who was called is not there, or does not want us, as is said there.  A network that does not lead
 * there now may again, and who was connected once is called anew, to find that out. */
static inline bool gw_nobody_there(const madi_gate_t *gate)
{
    return !gate->adapter && !gate->apart;
}
int gw_host_of_peer(gw_t *gw, mad_peer_t peer);
unsigned gw_flags_of(gw_t *gw, const unsigned char *address); /* GW_FORWARDS, GW_ANSWERS */
/* A peer through which fragments for that process go on, on that lane, but not one of these (or NULL); or the status, and
 * why: MAD_ERR_PEER when processes that lead there are lost, and may be back.  *direct (if not NULL): the process itself was
 * called, and if that failed, it is not there. */
mad_status_t gw_next_gate(gw_t *gw, int lane, const unsigned char *address, const gw_avoid_t *avoid, madi_gate_t **gate,
                          bool *direct, char *reason);

/* dial.c; under the session's lock */
/* True if an address that only peers name may be called.  False is logged, once of each peer that names one. */
bool gw_dial_place(gw_hop_t *from, const unsigned char *address);
/* True if this gate may be called, for gw->asker.  False: too many calls are under way for it, reason says. */
bool gw_dial_may(gw_t *gw, const madi_gate_t *gate, char *reason);
/* A call is under way, for the peer that has opened a stream under this label.  NULL: no memory, or too many. */
gw_dial_t *gw_dial_new(gw_hop_t *hop, uint32_t label, bool direct);
void gw_dial_follow(gw_dial_t *dial, gw_transit_t *transit); /* the stream waits for it */
void gw_dial_leave(gw_transit_t *transit);                   /* the stream is over */
void gw_dial_failed(gw_dial_t *dial); /* the opener is refused, but no sooner than after each call that fails */
void gw_dials_up(const madi_gate_t *gate);
void gw_dials_hop_down(gw_hop_t *hop);
int64_t gw_dials_look(gw_t *gw, int64_t now); /* when to look again; INT64_MAX: there are none */
void gw_dials_free(gw_t *gw);

/* transit.c */
void gw_open_came(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const unsigned char *body);
void gw_transit_fragment(gw_side_t *from, gw_frag_t *frag);
bool gw_transit_now(gw_side_t *from, const madi_wire_hdr_t *hdr, madi_foreign_t body); /* false: not sent */
void gw_transit_lost(gw_side_t *side, const char *text); /* its hop is down */
void gw_transit_fail(gw_transit_t *t, mad_status_t status, const char *text);
void gw_refuse(gw_hop_t *hop, const madi_wire_hdr_t *hdr, enum madi_close_what what, mad_status_t status, const char *text);
/* The end beyond it is gone. */
void gw_transit_closed(gw_side_t *from, const madi_wire_close_t *c, const char *text);
int gw_transits_reap(gw_t *gw, bool all);
/* True once: MOVE has come by this side, and one is enough for the end. */
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
void gw_budget_shares(gw_t *gw); /* once, at the start */
bool gw_credit_open(gw_side_t *side, size_t opening); /* the first window, and OPEN if one goes out here; false: the budget is
                                                      * used up */
void gw_credit_close(gw_side_t *side);
void gw_credit_first(gw_side_t *side);     /* tell it */
void gw_credit_unlimited(gw_side_t *side); /* for an end */
bool gw_credit_take(gw_side_t *side, uint32_t cost); /* a fragment has come; false: nobody had allowed it */
void gw_credit_back(gw_side_t *side, uint32_t cost); /* it has left; under tx_locks too */
void gw_credit_tell(gw_t *gw); /* those who are to be told */
void gw_credit_came(gw_side_t *side, uint64_t limit);

/* rate.c; under the session's lock */
bool gw_rate_may(gw_t *gw); /* false: a timer calls gw_credit_tell later */
bool gw_rate_spare(gw_t *gw); /* true if windows may grow */
void gw_rate_take(gw_t *gw, int64_t bytes); /* promised; below 0: given back unused */
void gw_rate_close(gw_t *gw);

/* daemon.c */
bool gw_is_daemon(void); /* this process */
/* A gateway that the launcher has started says which one it is, and since when, behind its host's name in its address: it
 * comes in the place of the one that had its number before. */
typedef struct gw_mark {
    uint32_t number;
    uint64_t since; /* ns; 0: this is no such process */
} gw_mark_t;
size_t gw_mark_put(unsigned char *bytes, size_t room); /* of this process; returns how many bytes */
gw_mark_t gw_mark_read(const unsigned char *bytes, size_t len); /* of an adapter's */
mad_status_t gw_learn_gateways(mad_session_t *session); /* those that the launcher has started beside the ranks */
mad_status_t gw_learn_named(mad_session_t *session);    /* those of MAD_GATEWAYS.  MAD_ERR_CONFIG, logged */

/* lane.c; as in forward.h */
int gw_lane(mad_session_t *session, const char *channel);
const char *gw_lane_name(mad_session_t *session, int lane);
int gw_lanes(mad_session_t *session);
bool gw_lane_carries(mad_session_t *session, int lane);
int gw_lane_of(gw_t *gw, int lane); /* whose streams are on it: itself, or the one that it carries for */
/* On which lane a stream of this one goes on to that process. */
int gw_lane_to(gw_t *gw, int lane, const unsigned char *address);
bool gw_agrees(mad_session_t *session, const unsigned char *address);
bool gw_lane_reachable(mad_session_t *session, int lane, madi_adapter_t *adapter, const void *bytes, size_t len,
                       char *reason);
int gw_lane_place(mad_session_t *session, int lane, const madi_adapter_t *adapter);
const char *gw_network(const madi_gate_t *gate);
bool gw_carried(const madi_adapter_t *adapter);
int gw_security(const madi_adapter_t *adapter);

/* know.c; under the session's lock */
void gw_know_up(madi_gate_t *gate); /* as in forward.h */
void gw_know_came(gw_hop_t *hop, const unsigned char *address, size_t max);

/* say.c */
void gw_say(struct mad_session *session, madi_json_t *json);

/* count.c */
/* The row of such streams, which one more is of; NULL: no memory.  Under the session's lock, as all here but the inlines. */
gw_route_t *gw_route_open(gw_t *gw, int lane, int from, int via, int to, bool passes);
/* A stream of the row is over: what was counted stays there.  route may be NULL. */
void gw_route_close(gw_route_t *route, const gw_side_t *there, const gw_side_t *back);
void gw_routes_free(gw_t *gw);
void gw_route_text(const madi_link_t *link, char *buf, size_t len); /* see forward.h; under the session's lock */
void gw_say_routes(struct mad_session *session, madi_json_t *json);
void gw_traffic(madi_gate_t *gate, madi_traffic_t *ends, madi_traffic_t *passing);

static inline void gw_count(gw_count_t *side, gw_count_t *hop, uint32_t length)
{
    side->fragments++;
    side->bytes += length;
    hop->fragments++;
    hop->bytes += length;
}
/* A fragment that costs has come, under the session's lock; has left, under tx_lock. */
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
/* Traced; end 0: now.  Under tx_lock, or the session's. */
void gw_trace(madi_trace_kind_t kind, int64_t began, int64_t end, const gw_side_t *side, uint32_t length);
/* It waits for credit from now on, if it does not already.  Under tx_lock. */
static inline void gw_side_stalls(gw_side_t *side)
{
    if (!side->stalled) {
        side->stalls++;
        atomic_fetch_add_explicit(&side->hop->gw->stalls, 1, memory_order_relaxed);
        side->stalled_at = madi_trace_now();
    }
    side->stalled = true;
}
/* It does not, any more.  Likewise. */
static inline void gw_side_goes(gw_side_t *side)
{
    side->stalled = false;
    if (MADI_UNLIKELY(side->stalled_at != 0))
        gw_trace(MADI_TRACE_STALL, side->stalled_at, 0, side, 0);
    side->stalled_at = 0;
}

#endif
