/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of streams in this process: handshake, window, paths, proofs. */
#ifndef MADI_GATEWAY_END_H
#define MADI_GATEWAY_END_H

#include "gateway/cipher.h"
#include "gateway/hop.h"

/* A packet in the program's memory, or copied to the space after vec.  The packet is kept from the send until the other
 * endpoint has it and no driver reads it any more. */
struct gw_held {
    madi_op_t *user; /* the core's operation; NULL for a copy */
    gw_end_t *end;
    gw_held_t *next;
    int out;   /* number of fragments that refer to this memory: queued, or taken by a driver */
    bool over; /* acknowledged or given up; `status` has the result */
    mad_status_t status;
    madi_wire_hdr_t hdr;
    int n;
    struct iovec vec[]; /* vec[0] is hdr, or for a copy the whole packet */
};

/* Fragments sent but not yet acknowledged. */
typedef struct gw_window {
    unsigned char *ring;
    uint64_t cap, head, tail; /* positions in the ring; a position only grows, and its value modulo cap is the offset */
    /* bytes of the payload in the window; bytes sent since the last request for an acknowledgement */
    uint64_t bytes, unasked;
    uint32_t base, next;   /* number of the first fragment in the window; number of the next one to be sent */
    _Atomic(uint32_t) ack; /* next number that the other endpoint expects; `base` is updated later */
    _Atomic(int) held;     /* number of entries that refer to the program's memory */
    _Atomic(int) full;     /* 1 if a sender waits for room */
} gw_window_t;

/* Peers that were already tried, and are to be avoided. */
typedef struct gw_avoid {
    mad_peer_t peer[32];
    int n;
    bool lost; /* true to avoid lost peers, too; only another dial shows whether a lost peer is back */
} gw_avoid_t;

/* A READY fragment that is kept for later. */
struct gw_early {
    madi_wire_hdr_t hdr;
    uint32_t turn;
    unsigned char body[sizeof(madi_wire_forward_t) + sizeof(madi_wire_ready_t)];
};

/* The endpoint of a stream in this process. */
struct gw_end {
    gw_t *gw;
    gw_end_t *next;
    gw_side_t *side;   /* the current path; NULL if none */
    gw_side_t *old;    /* former paths, until no fragment of them is pending here */
    gw_route_t *route; /* route of the current path; NULL while the peer is unknown */
    madi_link_t *link; /* the virtual link; NULL before it exists and after its end */
    uint64_t stream;   /* random number of the stream, equal at both ends and on all paths (madi_wire_open) */
    uint32_t turn;
    bool active;              /* this process has opened the stream */
    bool started, ready;      /* started: the handshake is over at this endpoint; ready: at the other endpoint */
    bool closed;              /* true if CLOSE was sent, or cannot be sent */
    bool gone;                /* the other endpoint has closed, or no path is left */
    bool dead;                /* closed and gone: the endpoint will be freed */
    _Atomic(uint32_t) rx_seq; /* number of fragments received completely */
    gw_window_t window;
    _Atomic(int) n_held; /* number of packets (gw_held_t) kept by this endpoint */
    /* A packet of which a part has arrived.  If its path fails, another path delivers the whole packet again. */
    bool partial, partial_asks;
    madi_wire_hdr_t partial_hdr;
    madi_rx_t partial_rx;
    /* hop whose peer is charged for the handshake; NULL after the handshake, or if this process opened the stream */
    gw_hop_t *charged;
    madi_watch_t watch; /* this endpoint's end of the socket pair during the handshake; fd is -1 otherwise */
    int their_fd;       /* descriptor number of the core's end */
    bool refused;       /* true if the endpoint is on the list hop->refused */
    gw_end_t *next_refused;
    /* alive.c */
    uint32_t seen;        /* acknowledged plus received fragments at the last check */
    bool asked;           /* an acknowledgement was requested since then */
    uint32_t drain_asked; /* last fragment for which an acknowledgement was requested at the session's end */
    /* resume.c */
    bool resuming;       /* true if a path was opened, and the other endpoint has not answered yet */
    int64_t lost;        /* ns: time since which there is no path; 0 if there is one */
    int64_t try_at;      /* ns: time at which to try the next path, or to give up the one being tried */
    mad_status_t status; /* reason of the last failure */
    int turns;           /* number of times that all paths were tried in vain */
    bool hope;           /* at least one path did not report that the peer is gone */
    gw_avoid_t avoid;
    char why[GW_TEXT + 1];
    /* migrate.c: a standby path.  Either the opener tries it while it keeps the current path, or the other endpoint has
     * opened it. */
    gw_side_t *standby;
    uint32_t standby_turn, standby_ack;
    int64_t standby_since; /* ns: time since which the standby path is tried */
    bool standby_take;     /* use the standby path once the packet that is arriving on the current one is complete */
    /* greatest turn that this endpoint has opened; turn_received: greatest turn that the other endpoint has opened */
    uint32_t turn_tried;
    uint32_t turn_received;
    /* protect.c, verify.c */
    gw_cipher_t *cipher;   /* keys of the two endpoints; NULL until this endpoint's handshake is over */
    bool encrypts;         /* packets and acknowledgements are sealed */
    unsigned char *sealed; /* buffer for one packet, allocated for the first packet that is too long for the stack */
    unsigned char partial_tag[MADI_WIRE_PROOF]; /* tag of the body of the packet that has arrived in part */
    /* READY that arrived before this endpoint's handshake was over; NULL if none */
    gw_early_t *early;
    /* number of recent forged fragments; in forged_at, rx_seq when the last one arrived */
    uint32_t forged;
    uint32_t forged_at;
    bool unproved_logged; /* already logged: an unproved attempt to resume or end the stream */
    bool repeated_logged; /* already logged: a repeated fragment */
};

typedef struct gw_link {
    madi_link_t base;
    gw_end_t *end;
    madi_link_t *carrier; /* link that lent the bodies which are now on loan */
} gw_link_t;

/* virtual.c */
gw_frag_t *gw_held_frag(gw_held_t *held); /* Make a fragment of a held packet, ready to be queued; NULL if out of memory. */
bool gw_held_fill(gw_held_t *held, gw_frag_t *frag); /* Fill the body once the header is set; false if OpenSSL failed, and
                                                      * frag is freed. */

/* end.c.  The caller holds the session's lock, and no tx_lock. */
/* Create an endpoint without a path.  active: this process opens the virtual link.  The core makes the handshake over a
 * pair of sockets, and *their_fd is the core's end of this pair.  Return NULL if memory or descriptors are short. */
gw_end_t *gw_end_new(gw_t *gw, bool active, int *their_fd);
gw_side_t *gw_side_new(gw_end_t *end); /* Create a side that is on no hop; NULL if out of memory. */
/* Write the header of a fragment for the current path.  asks: request an acknowledgement now; otherwise one is
 * requested only if it is due. */
void gw_end_header(gw_end_t *end, gw_frag_t *frag, unsigned kind, uint32_t seq, size_t len, bool asks);
void gw_end_ack(gw_end_t *end, bool ask);                     /* Acknowledge what has arrived. */
void gw_end_ack_by(gw_end_t *end, gw_side_t *side, bool ask); /* Like gw_end_ack, but on the given path. */
void gw_end_acked(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
/* Handle OPEN or TRY from the other endpoint. */
void gw_end_open(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open);
madi_place_t gw_end_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
void gw_end_packet_done(gw_hop_t *hop);
void gw_end_received(gw_end_t *end, bool asks); /* Account for a packet that has arrived completely. */
void gw_end_half_received(gw_end_t *end);       /* Account for the rest of a packet that had arrived in part. */
/* True if a packet with this inner header is valid now. */
bool gw_end_holds(const gw_end_t *end, const madi_wire_hdr_t *inner, size_t length);
void gw_end_control_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* HELLO or READY has arrived. */
/* Handle the end of the stream: the other endpoint has closed, or no path is left. */
void gw_end_closed(gw_end_t *end, mad_status_t status, const char *text);
/* Take over fd, the core's end of the socket pair; false if out of memory. */
bool gw_end_start(gw_end_t *end, madi_link_t *link, int fd);
void gw_end_close(gw_end_t *end, mad_status_t status, const char *text); /* This endpoint closes. */
void gw_end_leave_refused(gw_end_t *end);
void gw_end_route(gw_end_t *end);  /* Set the route after a change of path. */
void gw_end_finish(gw_end_t *end); /* Free the endpoint later, if both endpoints have closed. */
void gw_ends_reap(gw_t *gw, bool all);

/* Stop charging the peer that opened the stream, because its handshake is over or the charge has expired. */
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

/* protect.c.  The caller holds the session's lock or, for packets, the tx_lock of the virtual link's gate. */
bool gw_protect_start(gw_end_t *end, madi_link_t *link); /* Create the keys after the handshake.  False if out of memory. */
bool gw_link_encrypts(const madi_link_t *link);          /* Contract as in forward.h. */
size_t gw_protected_more(const gw_end_t *end, unsigned kind, size_t len);
static inline size_t gw_protected_len(const gw_end_t *end, unsigned kind, size_t len) /* Length of a payload on the wire. */
{
    bool as_is = !end->encrypts && kind != MADI_FORWARD_READY;
    return MADI_LIKELY(as_is) ? len : len + gw_protected_more(end, kind, len);
}
/* Write a payload, sealed if necessary, after the header that gw_end_header made.  Return false if OpenSSL failed. */
bool gw_protect(gw_end_t *end, gw_frag_t *frag, const struct iovec *vec, int n, size_t len);
/* Like gw_protect, but for a packet, written to out; hdr, forward and turn are those of the packet's header. */
bool gw_protect_packet(gw_end_t *end, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward,
                       const struct iovec *vec, int n, size_t len, unsigned char *out);
void gw_protect_ack(gw_side_t *side, gw_frag_t *frag); /* Add a proof to an ACK; frag has room for it. */
void gw_protect_open(const gw_end_t *end, unsigned kind, madi_wire_open_t *open);
void gw_protect_close(const gw_side_t *side, madi_wire_close_t *c, const char *text);

/* verify.c.  The caller holds the session's lock, and no tx_lock. */
/* True if the other endpoint sent this OPEN or TRY, or if the other endpoint cannot prove that yet. */
bool gw_open_proved(gw_end_t *end, unsigned kind, const madi_wire_open_t *open);
bool gw_ready_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
/* Return false if the proof is wrong; these functions have then given the path up. */
bool gw_ack_proved(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body);
bool gw_close_proved(const gw_side_t *side, const madi_wire_close_t *c, const char *text);
/* Handle a fragment that the other endpoint cannot have sent (text says why): give up the path or, if this happens
 * repeatedly, the stream. */
void gw_forged(gw_side_t *side, const char *text);
/* Number of leading bytes of a packet's fragment that gw_end_packet needs; 0 if its length is invalid. */
uint32_t gw_packet_header(const gw_side_t *side, const madi_wire_hdr_t *hdr);
madi_place_t gw_sealed_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx);
bool gw_sealed_done(gw_side_t *side); /* Verify the body of a long packet that is now complete; false if the other
                                       * endpoint did not send it. */

/* window.c.  The caller holds the tx_lock of the virtual link's gate. */
bool gw_window_room(gw_end_t *end, size_t len, bool copy); /* Make room for one more fragment; false if the window is
                                                            * full or memory is short. */
bool gw_window_wants_ack(gw_end_t *end, size_t len);       /* True if it is time to request an acknowledgement. */
void gw_window_keep(gw_end_t *end, unsigned kind, const struct iovec *vec, int n, size_t len); /* record what was sent */
void gw_window_hold(gw_end_t *end, gw_held_t *held, size_t len); /* Put a packet into the window just before it is sent. */
/* Under the session's lock, without the tx_lock: */
bool gw_window_ack_arrived(gw_end_t *end, uint32_t ack); /* Process an acknowledgement; false if it is impossible. */
/* Take the first proved acknowledgement, which replaces earlier unproved ones. */
void gw_window_settle(gw_end_t *end, uint32_t ack);
/* Count one fragment less that refers to held, because a driver has finished reading it. */
void gw_held_left(gw_held_t *held);
bool gw_window_empty(gw_end_t *end);
/* True if the window contains only short packets.  Under the lock that protects the window. */
bool gw_window_calm(gw_end_t *end);
/* Like gw_window_empty, but the first call that returns false requests an acknowledgement of everything. */
bool gw_window_drains(gw_end_t *end);
void gw_window_rest(gw_end_t *end);  /* Free the ring if it has been empty for a while. */
int gw_window_resend(gw_end_t *end); /* Send everything in the window again.  Precondition: no other thread sends.
                                      * Return the number of fragments, -1 if out of memory. */
void gw_window_drop(gw_end_t *end, mad_status_t status); /* Empty the window for good, completing operations with status. */

/* resume.c.  The caller holds the session's lock. */
void gw_path_lost(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text);
/* Open a path over hop; false if out of memory. */
bool gw_path_open(gw_end_t *end, gw_hop_t *hop, const unsigned char *address);
/* Begin a new stream without a path, because the processes that lead to the other endpoint are currently lost. */
void gw_path_wait(gw_end_t *end, const char *why);
void gw_path_check(gw_end_t *end, int64_t now); /* Check an endpoint that has no path. */
int gw_paths_check(gw_t *gw);                   /* Check all endpoints that have no path; return the number of events. */
/* Address of the other endpoint; NULL if it is not known yet. */
static inline const unsigned char *gw_end_address(const gw_end_t *end)
{
    return end->link ? madi_peer_address(end->gw->base.session, end->link->gate->peer) : NULL;
}
/* Create a side for a path over hop.  label: that of a path which the other endpoint has opened; NULL: this endpoint
 * opens the path, under a new label.  Return NULL if out of memory, or if the hop is down. */
gw_side_t *gw_path_begin(gw_end_t *end, gw_hop_t *hop, const uint32_t *label);
uint32_t gw_path_turn(const gw_end_t *end); /* Turn of the next path that this endpoint opens. */
void gw_path_send_open(gw_end_t *end, gw_side_t *side, unsigned kind, uint32_t turn, const unsigned char *address);
/* Avoid the process on that side from now on, because it was tried. */
void gw_path_avoid(gw_end_t *end, const gw_side_t *side);
/* Replace the current path by `new`, or by none (NULL).  resuming: send nothing on it before gw_path_resume. */
void gw_path_change(gw_end_t *end, gw_side_t *new, bool resuming, const char *text);
/* Remove a path from the endpoint, and send CLOSE on it. */
void gw_path_retire(gw_end_t *end, gw_side_t *side, enum madi_close_what what, const char *text);
/* Resume when both endpoints are on this path: send again what the other endpoint has not received. */
void gw_path_resume(gw_end_t *end, uint32_t ack);

/* migrate.c.  The caller holds the session's lock. */
/* Record that a gateway on this path requests another path for the stream. */
void gw_migrate_requested(gw_side_t *side);
bool gw_migrate_check(gw_end_t *end, int64_t now); /* Continue a migration; true if another check is needed. */
void gw_migrate_tried(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open); /* TRY by the other one */
void gw_migrate_opened(gw_end_t *end, gw_hop_t *hop, uint32_t label, const madi_wire_open_t *open);
void gw_migrate_acked(gw_end_t *end, uint32_t ack);      /* The standby path was acknowledged. */
void gw_migrate_failed(gw_end_t *end, const char *text); /* The standby path is unusable. */
void gw_migrate_forget(gw_end_t *end, enum madi_close_what what, const char *text);
void gw_migrate_take(gw_end_t *end); /* Switch to the standby path. */
void gw_drain(gw_t *gw);

#endif
