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
 *   migrate.c   a standby path in addition to the current one       next_hop.c choice of the next process on a path
 *   alive.c     liveness of the gateways on a path                  hop.c      streams of one gate, outgoing fragments
 *   transit.c   streams that pass through this process              arrive.c   incoming fragments
 *   credit.c    flow control, and the bound on memory               report.c   report for mad_info
 *   map.c       hosts, and the next host towards each               count.c    traffic counters, by route
 *   daemon.c    processes that only forward (madgw)                 lane.c     channels with networks of their own
 *   gossip.c    gateways that join later                            cipher.c   keys that only the endpoints have
 *   protect.c   sealing and proofs of outgoing fragments            verify.c   verification of incoming fragments
 *   rate.c      bandwidth limit                                     dial.c     connections made on behalf of peers
 *   label.c     streams by their labels on a hop                    form.c     lengths of fragments
 *
 * Headers: state.h has the session's forwarding state and all limits; hop.h fragments and sides; end.h endpoints; route.h
 * the next process; this header streams that pass through.  This header includes the other ones.
 *
 * Locks: session->lock protects everything except outgoing state of a hop (its sides' queues, tx_*), which the tx_lock
 * of the hop's gate protects.  The send of a virtual link takes that lock after the tx_lock of the virtual link's own
 * gate; never the other way round, and never the locks of two real gates.  An endpoint's window, and its choice of
 * path, change under the tx_lock of the virtual link's own gate (before the link exists, under the session's lock).
 * doc/gateways.md describes flow control, and why no cycle of waits can arise. */
#ifndef MADI_GATEWAY_H
#define MADI_GATEWAY_H

#include "gateway/end.h"
#include "gateway/hop.h"
#include "gateway/route.h"
#include "gateway/state.h"

/* A stream that passes through this process. */
struct gw_transit {
    gw_t *gw;
    gw_transit_t *next;
    gw_side_t side[2];
    gw_route_t *route; /* row of the counters; NULL until the stream is opened towards the destination */
    gw_dial_t *dial;   /* the dial by which side[1] is being reached, if its outcome must not be reported; else NULL */
    bool moved[2];     /* the endpoint beyond side[i] was already sent MOVE */
    bool direct;       /* true if side[1] leads to the destination itself, and to no further gateway */
    bool closed[2];    /* closed by the endpoint beyond side[i]; its fragments may still be queued on the other side */
};

/* transit.c */
void gw_open_arrived(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const unsigned char *body);
void gw_transit_fragment(gw_side_t *from, gw_frag_t *frag);
/* Send a fragment without queueing it; false if it was not sent. */
bool gw_transit_now(gw_side_t *from, const madi_wire_hdr_t *hdr, madi_foreign_t body);
/* Handle the loss of this side's hop. */
void gw_transit_lost(gw_side_t *side, const char *text);
void gw_transit_fail(gw_transit_t *t, mad_status_t status, const char *text);
void gw_refuse(gw_hop_t *hop, const madi_wire_hdr_t *hdr, enum madi_close_what what, mad_status_t status, const char *text);
/* Handle CLOSE from the endpoint beyond this side. */
void gw_transit_closed(gw_side_t *from, const madi_wire_close_t *c, const char *text);
int gw_transits_reap(gw_t *gw, bool all);
/* Return true for the first MOVE from this side only, since the endpoint needs just one. */
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

/* dial.c.  The caller holds the session's lock. */
/* True if an address that only peers have named may be dialled.  A refusal is logged, once for each peer that names
 * such an address. */
bool gw_dial_address_allowed(gw_hop_t *from, const unsigned char *address);
/* True if this gate may be dialled on behalf of gw->asker.  Return false, and the reason, if too many dials are pending on
 * behalf of gw->asker. */
bool gw_dial_allowed(gw_t *gw, const madi_gate_t *gate, char *reason);
/* Record a pending dial for the peer that opened a stream under this label.  Return NULL if out of memory, or if there
 * are too many. */
gw_dial_t *gw_dial_new(gw_hop_t *hop, uint32_t label, bool direct);
void gw_dial_follow(gw_dial_t *dial, gw_transit_t *transit); /* Make the stream wait for this dial. */
void gw_dial_leave(gw_transit_t *transit);                   /* The stream is over. */
void gw_dial_failed(gw_dial_t *dial); /* Refuse the opener after the delay that every failed dial has. */
void gw_dials_up(const madi_gate_t *gate);
void gw_dials_hop_down(gw_hop_t *hop);
/* Return the time of the next check in ns; INT64_MAX if no dial is pending. */
int64_t gw_dials_check(gw_t *gw, int64_t now);
void gw_dials_free(gw_t *gw);

/* report.c */
void gw_report(struct mad_session *session, madi_json_t *json);

#endif
