/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams on the hop to an adjacent process: fragments, sides, labels, credit. */
#ifndef MADI_GATEWAY_HOP_H
#define MADI_GATEWAY_HOP_H

#include "gateway/state.h"

/* Traffic counters. */
typedef struct gw_count {
    uint64_t fragments, bytes;
} gw_count_t;

/* A fragment that is queued, or being sent. */
struct gw_frag {
    madi_op_t op; /* must be first */
    struct gw_frag *next;
    gw_side_t *side;     /* side on which the fragment is sent */
    gw_held_t *held;     /* the packet, if it is sent directly from the program's memory; else NULL */
    madi_link_t *lender; /* link whose driver lent the body; else NULL */
    madi_foreign_t loan;
    uint32_t cost;
    bool pooled;
    bool taken;               /* true if the driver has taken the fragment, which the hop's in_flight then includes */
    int64_t queued_at, began; /* for traces, ns: when the fragment was queued, and when the driver took it */
    int n;
    struct iovec vec[2];
    struct iovec *more;  /* pieces of a packet in the program's memory; used instead of vec */
    madi_wire_hdr_t hdr; /* the fragment's header, sent together with the body that follows */
    unsigned char body[];
};

/* A stream on one hop, as this process sees it. */
struct gw_side {
    gw_hop_t *hop; /* the hop; NULL if no hop carries the stream any more */
    uint32_t label;
    bool opener;           /* true if this process has opened the stream on this hop */
    bool visited;          /* used by gw_sides_next */
    gw_end_t *end;         /* the endpoint, if the stream ends here; else NULL */
    gw_transit_t *transit; /* the transit, if the stream passes through; else NULL */
    gw_route_t *route;     /* the route, if this side belongs to a former path; else NULL */
    gw_side_t *next_label; /* next in hop->sides */
    gw_side_t *next_old;   /* next former path of the same endpoint; events on former paths are ignored */
    bool old;
    bool moves;                 /* endpoint: a gateway on this path has requested another path */
    uint32_t turn;              /* endpoint: turn (number of the attempt) of this path, as in madi_wire_open */
    uint32_t acks_out, acks_in; /* endpoint, encrypted: number of proved ACKs sent and received on this path */
    /* Incoming: credit that this process has granted, in bytes.  Under the session's lock. */
    uint64_t rx_limit, rx_used, rx_back, rx_window;
    uint32_t free; /* bytes of the budget reserved for outgoing control fragments, which need no credit */
    gw_side_t *next_credit;
    bool credit_due;
    gw_count_t in;
    /* Outgoing fields, under the gate's tx_lock. */
    uint64_t tx_limit, tx_used;
    gw_frag_t *queue, **queue_tail;
    gw_side_t *next_active; /* next in hop->active */
    bool active;
    bool stalled;       /* true while the stream waits for credit */
    int64_t stalled_at; /* ns, for traces: begin of the wait for credit */
    gw_count_t out;
    uint64_t stalls, resends; /* number of waits for credit; number of fragments sent again on another path */
    uint32_t queued, queued_most;
    uint64_t queued_bytes, queued_bytes_most;
    _Atomic(int) in_flight; /* number of fragments that a driver has taken, or whose completion is pending */
};

/* A gate over which fragments travel. */
struct gw_hop {
    madi_gate_t *gate;
    gw_t *gw;
    gw_hop_t *next;
    bool down;
    bool forwards;       /* the peer is a gateway */
    bool answers;        /* the process forwards, and its progress thread always answers */
    const char *network; /* network's name in the topology file; NULL if none */
    bool moves;          /* the peer has requested that streams take other paths */
    bool over_logged;    /* already logged: the peer allows more than GW_HOPS further gateways */
    bool named_far;      /* already logged: the peer named an address that is not dialled */
    int64_t asked;       /* ns: time since which a sign of life is due; 0: none is due */
    /* Streams by label: [0] opened by the peer, [1] by this process (label.c). */
    gw_side_t **sides[2]; /* hash tables: lists by slot */
    uint32_t n_sides[2], cap_sides[2];
    uint32_t n_labels[2]; /* the first label that has not been used yet */
    uint32_t visited[2];  /* used by gw_sides_next: slots already visited */
    /* The fragment being received, between rx_begin and rx_done. */
    enum gw_in { GW_IN_NONE, GW_IN_END, GW_IN_TRANSIT, GW_IN_WHOLE } in;
    gw_side_t *in_side;
    gw_frag_t *in_frag; /* TRANSIT and WHOLE: fragment that receives the bytes */
    int64_t in_began;   /* ns, for traces: time of the first byte */
    /* Outgoing, under tx_lock. */
    gw_side_t *active, **active_tail; /* list of the sides that have a fragment, and credit for it */
    gw_end_t *refused;                /* virtual links whose send was refused because this link was full */
    _Atomic(int) in_flight;           /* fragments that the driver has taken; their completion resumes sending */
    /* counters: [0] of streams that end here, [1] of other streams; locks as for the sides' counters */
    gw_count_t in_all[2], out_all[2];
};

/* hop.c */
gw_hop_t *gw_hop_get(gw_t *gw, madi_gate_t *gate); /* Return the hop of a gate, creating it if needed; NULL if out of
                                                    * memory. */
/* Put a side on a hop: under a new label if this process opens the stream (label NULL), else under the peer's label. */
bool gw_side_open(gw_side_t *side, gw_hop_t *hop, const uint32_t *label);
/* True if the queue is so long that an acknowledgement may be left out.  Takes the tx_lock. */
bool gw_side_crowded(gw_side_t *side);
void gw_side_drop(gw_side_t *side);  /* Discard queued fragments */
void gw_side_close(gw_side_t *side); /* Also stop receiving */
/* Send or queue a fragment in the program's memory; return SENT or TAKEN.  Under tx_lock. */
madi_sent_t gw_side_send_user(gw_side_t *side, gw_frag_t *frag);
static inline uint32_t gw_cost(size_t length) /* Cost of a fragment in credit bytes: its memory, and an allowance for
                                               * small ones. */
{
    return (uint32_t)(length + 319) & ~UINT32_C(63);
}
gw_frag_t *gw_frag_new(gw_t *gw, uint32_t len); /* Create a fragment; NULL if out of memory.  Under the session's lock. */
/* Free a fragment, but not one in the program's memory.  Under the session's lock. */
void gw_frag_free(gw_t *gw, gw_frag_t *frag);
/* Append a fragment to a side's queue, and send it if possible.  Under the session's lock, no tx_lock. */
void gw_side_put(gw_side_t *side, gw_frag_t *frag);
void gw_side_enqueue(gw_side_t *side, gw_frag_t *frag); /* Append without sending.  Under tx_lock. */
/* Send a control fragment made here.  kind: its kind; body: the bytes after the forward header. */
void gw_side_send_control(gw_side_t *side, unsigned kind, uint16_t channel, const void *body, size_t len, const void *more,
                          size_t more_len);
void gw_side_send_close(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
void gw_side_pass_close(gw_side_t *side, const madi_wire_close_t *c, const char *text); /* Pass a CLOSE on unchanged. */
/* True if the fragment may be sent now.  may: the side has credit for it.  Under tx_lock. */
bool gw_side_may_send(const gw_side_t *side, const madi_wire_hdr_t *hdr, uint32_t cost);
/* Put the side on the list of active sides if it has a fragment and credit for it. */
void gw_side_activate(gw_side_t *side);
void gw_hop_pump(gw_hop_t *hop);
void gw_frag_done(madi_op_t *op, mad_status_t status);
extern const madi_forward_t gw_forward;

/* label.c.  The caller holds the session's lock. */
void gw_labels_key(gw_t *gw); /* Create the secret of the hash tables; once, before the first hop exists. */
/* Reserve the label of this OPEN.  Return false if the label is already in use. */
bool gw_label_new(gw_hop_t *hop, const madi_wire_hdr_t *hdr);
/* Add a side to the table; false if out of memory.  label and opener must be set. */
bool gw_label_put(gw_hop_t *hop, gw_side_t *side);
void gw_label_drop(gw_hop_t *hop, gw_side_t *side);
gw_side_t *gw_side_find(gw_hop_t *hop, const madi_wire_hdr_t *hdr); /* NULL if none. */
/* Return the next stream of a hop that is down; NULL if none is left.  Each stream is returned once, even while others
 * come and go. */
gw_side_t *gw_sides_next(gw_hop_t *hop);
void gw_labels_free(gw_hop_t *hop); /* Close all streams, and free the tables. */

/* form.c.  The functions need no lock. */
bool gw_form_good(const madi_wire_hdr_t *hdr); /* True for a known kind with a permitted length. */
/* True if the fragment costs credit.  Control fragments about the stream do not. */
bool gw_costs(const madi_wire_hdr_t *hdr);

/* arrive.c.  The contracts are those of forward.h. */
madi_place_t gw_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx);

/* credit.c.  The caller holds the session's lock, and no tx_lock. */
void gw_budget_shares(gw_t *gw); /* Reserve the fixed parts of the budget.  Called once, at the start. */
/* Reserve the first window, and `opening` bytes for an outgoing OPEN.  Return false if the budget is used up. */
bool gw_credit_open(gw_side_t *side, size_t opening);
void gw_credit_close(gw_side_t *side);
void gw_credit_first(gw_side_t *side);               /* Grant the first window. */
void gw_credit_unlimited(gw_side_t *side);           /* For an endpoint. */
bool gw_credit_take(gw_side_t *side, uint32_t cost); /* Account for an arrived fragment; false if no credit covered it. */
/* Account for a fragment that has left this process, so that its credit may be granted again.  Also called under
 * tx_locks. */
void gw_credit_back(gw_side_t *side, uint32_t cost);
void gw_credit_send_due(gw_t *gw); /* Send CREDIT for all sides for which it is due. */
void gw_credit_arrived(gw_side_t *side, uint64_t limit);

/* rate.c.  The caller holds the session's lock. */
bool gw_rate_allows(gw_t *gw); /* True if credit may be granted now; if false, a timer calls gw_credit_send_due later. */
bool gw_rate_spare(gw_t *gw);  /* Account for `bytes` of granted credit; negative for credit returned unused. */
void gw_rate_take(gw_t *gw, int64_t bytes); /* Account for granted bytes; negative for bytes that were returned unused. */
void gw_rate_close(gw_t *gw);

/* count.c */
static inline void gw_count(gw_count_t *side, gw_count_t *hop, uint32_t length)
{
    side->fragments++;
    side->bytes += length;
    hop->fragments++;
    hop->bytes += length;
}
/* Count a fragment that costs credit: received, under the session's lock; sent, under tx_lock. */
static inline void gw_side_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr)
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
/* Record that the side waits for credit, unless this is already recorded.  Under tx_lock. */
static inline void gw_side_stalls(gw_side_t *side)
{
    if (!side->stalled) {
        side->stalls++;
        atomic_fetch_add_explicit(&side->hop->gw->stalls, 1, memory_order_relaxed);
        side->stalled_at = madi_trace_now();
    }
    side->stalled = true;
}
/* Record that the side no longer waits for credit.  Under tx_lock. */
static inline void gw_side_goes(gw_side_t *side)
{
    side->stalled = false;
    if (MADI_UNLIKELY(side->stalled_at != 0))
        gw_trace(MADI_TRACE_STALL, side->stalled_at, 0, side, 0);
    side->stalled_at = 0;
}

#endif
