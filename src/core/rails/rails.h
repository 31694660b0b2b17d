/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of rails (core/rails.h has the protocol).  Private to src/core/rails.
 *
 *   rails.c          the table, the rails' link, its end       rails_send.c     packets that leave, and records of them
 *   rails_connect.c  further links: made, joined, tried again  rails_receive.c  packets that arrive
 *   rails_lost.c     rails that break, and what is sent again  rails_explain.c  what mad_info shows */
#ifndef MADI_RAILS_INSIDE_H
#define MADI_RAILS_INSIDE_H

#include "core/driver.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/rails.h"
#include "core/wire/wire.h"

/* maximum number of rails of a gate, including broken rails that are not settled yet (rails_lost.c) */
#define MADI_RAILS_MOST 8
#define MADI_RAILS_SETTLED 16           /* number of settled rails whose numbers are kept to recognise a repeated LOST */
#define MADI_RAILS_BLOCK (256 * 1024)   /* bytes: the first block of at least this length starts the use of rails */
#define MADI_RAILS_PIECE (256 * 1024)   /* bytes of a piece */
#define MADI_RAILS_WINDOW (1024 * 1024) /* bytes: minimum of the window, the bytes that may be in flight on a rail */
#define MADI_RAILS_WINDOW_MOST (64 * 1024 * 1024)
/* Bounds of what is kept for a peer that acknowledges nothing; packets beyond them wait in the queues that ledger.h counts.
 * Correct peers acknowledge after 64 packets, and give up few rails whose JOIN has not arrived. */
#define MADI_RAILS_KEPT 65536 /* packets that the rail for messages has sent without acknowledgement */
#define MADI_RAILS_KEPT_BYTES (2 * (uint64_t)MADI_RAILS_WINDOW_MOST)
#define MADI_RAILS_UNKNOWN 64                /* LOSTs without acknowledgement for rails whose JOIN has not arrived */
#define MADI_RAILS_STALL INT64_C(1000000000) /* ns without an answer after which a rail is given up */
/* ns: pause before a lost rail is connected again; each failure doubles the pause */
#define MADI_RAILS_AGAIN INT64_C(1000000000)
#define MADI_RAILS_AGAIN_MOST INT64_C(30000000000)

enum madi_rail_kind { MADI_RAIL_BEGIN = 1, MADI_RAIL_JOIN, MADI_RAIL_ACK, MADI_RAIL_ASK, MADI_RAIL_LOST, MADI_RAIL_END };

typedef struct madi_rails madi_rails_t;

/* A packet that was handed to a rail, or waits for it.  A record is in the list of its rail until the peer has
 * acknowledged it; then, while the driver still holds it, in rails->held. */
typedef struct rails_out {
    madi_op_t op; /* the driver's operation; must be first */
    struct rails_out *next;
    madi_rails_t *rails; /* NULL: the rails are gone */
    madi_op_t *user;     /* the core's operation; NULL: the packet is a copy */
    bool taken;          /* the driver holds the packet */
    bool acknowledged;   /* the peer has it */
    bool repeated;       /* the packet is a LOST that was already sent again by another rail */
    bool unknown;        /* the packet is a LOST for a rail whose JOIN has not arrived: counted in rails->n_unknown */
    size_t total;        /* bytes, header included */
    int64_t sent_at;     /* ns */
    int n;
    madi_wire_hdr_t hdr; /* header of a packet with an operation; the first entry of vec points to it */
    struct iovec vec[];  /* pieces of the packet; if the packet is a copy, one entry, and the bytes behind it */
} rails_out_t;

enum rail_state {
    RAIL_NONE,  /* a free place */
    RAIL_JOINS, /* the link is up, but JOIN has not been sent or has not arrived */
    RAIL_UP,
    RAIL_LOST /* the link is closed, but the peer's LOST has not arrived */
};

/* One rail.  Under gate->tx_lock, unless a field says otherwise; state, link, adapter and id change under both locks. */
typedef struct rail {
    enum rail_state state;
    madi_link_t *link;                          /* NULL unless state is JOINS or UP */
    madi_adapter_t *adapter;                    /* constant */
    uint32_t id;                                /* number of the rail, given by the process that connected it */
    bool join_due, begin_due, ack_due, ask_due; /* true while that control packet has to be sent */
    /* Sending. */
    rails_out_t *out, **out_tail; /* packets without acknowledgement, in the order of their numbers */
    rails_out_t *unsent;          /* the first packet in `out` that the driver has not taken; NULL if none */
    uint32_t n_sent, n_acked;     /* numbers of packets since BEGIN or JOIN: handed to the driver; acknowledged */
    uint64_t in_flight;           /* bytes of `out` that the driver has taken */
    uint32_t n_pieces;            /* number of packets in flight that have an operation */
    double bandwidth;             /* bytes per us, as measured; before the first measurement, as the driver declares */
    bool measured;
    double round_trip;   /* us: shortest time from sending a piece to its acknowledgement; 0 if not known */
    int64_t busy_since;  /* ns: start of the period that has not been added to `busy` yet */
    int64_t busy;        /* ns, and */
    uint64_t busy_bytes; /* bytes that were acknowledged in the time `busy` of the present measurement */
    int64_t asked_at;    /* ns: time at which ASK was sent; 0 if no answer is expected */
    /* Receiving; under session->lock. */
    uint32_t n_received, n_reported; /* numbers of packets: that have arrived; that ACK has reported */
    uint64_t unreported;             /* bytes behind the last ACK */
    bool carried;                    /* true if the rail carried messages when it broke; messages then wait until the rail is
                                      * settled */
    bool ends;                       /* true if END has arrived: the peer is closing all rails in an orderly way */
    bool partial;                    /* true while a packet other than DATA is arriving */
    uint32_t piece, piece_len;       /* of the DATA packet that is arriving: the block's handle and the length; 0 if none */
    int64_t heard_at;                /* ns: time at which the last packet arrived */
    uint64_t bytes_out, bytes_in;    /* bytes of pieces, for explanations */
} rail_t;

struct madi_rails {
    madi_link_t base;             /* the link that the gate uses; must be first */
    madi_adapter_t adapter;       /* copy of the first rail's adapter, with capabilities that all rails have */
    madi_link_t *lender;          /* the first rail's link, the only one that lends bodies; under session->lock */
    madi_adapter_t *base_adapter; /* the first rail's adapter, with which other adapters are compared; constant */
    madi_adapter_t *last_adapter; /* the adapter that carried messages last; under session->lock */
    /* Under session->lock. */
    size_t chunk_max;                     /* bytes of the longest packet with a piece, once rails are in use; constant */
    bool dials;                           /* this process connects further rails */
    uint32_t number;                      /* of the agreement; constant */
    uint32_t next_id;                     /* number of the next rail, if this process connects rails */
    uint32_t settled[MADI_RAILS_SETTLED]; /* numbers of the last rails whose LOST has arrived, since LOST may come again */
    unsigned n_settled;                   /* number of them so far */
    madi_gate_t *dialing;                 /* the gate that is connecting a further rail; NULL if none */
    int64_t dial_at;                      /* ns: time at which the next rail is connected; INT64_MAX if none is */
    int64_t dial_pause;                   /* ns: length of the pause after the next failure */
    bool ends;                            /* true if the peer is closing all rails, so none is connected again */
    /* Under gate->tx_lock, some changed under both locks. */
    bool tx_on, rx_on;   /* packets are counted: BEGIN was sent, has arrived */
    bool closed;         /* under both locks */
    rail_t *first;       /* the rail that carries messages; NULL: a rail was lost, and its peer's count is not known */
    uint32_t node_block; /* handle, given by the peer, of the block of which a piece was sent last */
    int node;            /* NUMA node of the memory of node_block; -1 if unknown */
    bool node_known;     /* false before the first block */
    rails_out_t *held;   /* packets in no rail's list that a driver holds */
    int n_unkept;        /* those of them that were sent before BEGIN, so that their rail must not break */
    uint32_t n_unknown;  /* number of records in the rails' lists with `unknown` */
    rail_t rail[MADI_RAILS_MOST];
};

extern const madi_driver_t madi_rails_driver;
extern const madi_upcalls_t madi_rails_upcalls;

/* rails_send.c.  Under gate->tx_lock. */
madi_sent_t madi_rails_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
bool madi_rails_send_short(madi_link_t *link, const void *packet, size_t total);
/* Send a control packet.  False: it was not sent, because the driver refused it, or JOIN or BEGIN has to leave first. */
bool madi_rail_control(rail_t *r, enum madi_rail_kind kind, uint32_t id, uint32_t count);
void madi_rail_pump(madi_rails_t *w, rail_t *r);         /* send the packets that wait on a rail */
void madi_rail_report(rail_t *r);                        /* send ACK */
void madi_rails_due(mad_session_t *session, int64_t at); /* have tick called at the time `at` (ns), or earlier; any
                                                          * lock */
void madi_rail_append(rail_t *r, rails_out_t *out);      /* append a packet to those that wait on a rail */
rail_t *madi_rails_quickest(madi_rails_t *w);            /* return the rail that is best for messages; NULL if none is up */
rails_out_t *madi_rails_lost_record(madi_rails_t *w, uint32_t id, uint32_t count); /* NULL if out of memory */
/* Take the packets that the peer has counted out of the rail's list, and add them to *done.  Return false if the peer has
 * counted more packets than were sent. */
bool madi_rail_acknowledged(madi_rails_t *w, rail_t *r, uint32_t count, rails_out_t **done);
/* Under session->lock, without gate->tx_lock: complete packets. */
void madi_rails_complete(rails_out_t *done, mad_status_t status);

/* rails_lost.c.  Under session->lock. */
void madi_rail_broke(madi_rails_t *w, rail_t *r, mad_status_t status, const char *text);
void madi_rail_settle(madi_rails_t *w, uint32_t id, uint32_t count); /* the peer's LOST has arrived */
bool madi_rail_is_settled(const madi_rails_t *w, uint32_t id);       /* true if an earlier LOST of the peer has settled
                                                                      * this rail */
int64_t madi_rails_stalled(madi_rails_t *w, int64_t now);            /* give up stalled rails; return the time of the next
                                                                      * check (ns) */

/* rails_connect.c.  Under session->lock. */
uint32_t madi_rails_offer(madi_gate_t *gate, const madi_adapter_t *adapter);
uint32_t madi_rails_agree(madi_gate_t *gate, const madi_adapter_t *adapter, uint32_t offered);
madi_gate_t *madi_rails_accept(madi_gate_t *gate, const madi_adapter_t *adapter, uint32_t number);
bool madi_rails_admits(const madi_gate_t *gate, const madi_adapter_t *adapter);
void madi_rails_join(madi_link_t *link);
void madi_rails_failed(madi_gate_t *gate);
void madi_rails_tick(mad_session_t *session, int64_t now);
void madi_rails_dial_soon(madi_rails_t *w, int64_t at); /* connect a further rail at the time `at` (ns), or earlier */
void madi_rails_abandon(madi_rails_t *w);               /* give up the further links that are being connected */
rail_t *madi_rails_place(madi_rails_t *w);              /* a free place; NULL: none */
void madi_rail_start(rail_t *r, madi_link_t *link);

/* rails_explain.c.  Under session->lock. */
bool madi_rails_explain(madi_gate_t *gate, const madi_adapter_t *adapter, char *reason);
void madi_rails_write(madi_gate_t *gate, madi_json_t *json);

#endif
