/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of streams.  The core's handshake needs a stream socket: each endpoint gives the core one end of a socket
 * pair, and carries the bytes that the core writes there to the other endpoint.  So the two endpoints prove the job's
 * key to each other through all gateways.  When both endpoints have finished the handshake (READY), packets flow.
 * HELLO, READY and PACKET are numbered, and kept until they are acknowledged. */
#include "gateway/gateway.h"
#include "base/knob.h"
#include "base/own.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_ONCE 4096 /* maximum bytes of the handshake in one fragment */

/* ---- Creation and end ------------------------------------------------------------------------------------------- */

static void end_unwatch(gw_end_t *end)
{
    if (end->watch.fd < 0)
        return;
    madi_watch_del(end->gw->base.session, &end->watch);
    madi_fd_close(end->watch.fd);
    end->watch.fd = -1;
}

/* Send a numbered fragment.  Called before the link is up, when no other thread sends. */
static void end_send_control(gw_end_t *end, unsigned kind, const void *bytes, size_t len)
{
    struct iovec vec = {(void *)bytes, len};
    uint32_t body = (uint32_t)(sizeof(madi_wire_forward_t) + gw_protected_len(end, kind, len));
    gw_frag_t *frag = gw_window_room(end, len, true) ? gw_frag_new(end->gw, body) : NULL;
    bool may = end->side && !end->resuming;
    if (!frag)
        return; /* the other endpoint finds the loss at the handshake's deadline, or when this process ends */
    gw_end_header(end, frag, kind, end->window.next, len, false);
    may = may && gw_protect(end, frag, &vec, len ? 1 : 0, len);
    gw_window_keep(end, kind, &vec, len ? 1 : 0, len);
    if (may)
        gw_side_put(end->side, frag);
    else
        gw_frag_free(end->gw, frag); /* the window sends the fragment once there is a path */
}

/* Carry the bytes that the core's handshake has written.  Return true if the core's end of the socket pair is still open. */
static bool handshake_carry(gw_end_t *end)
{
    char bytes[AT_ONCE];
    ssize_t n;
    while ((n = recv(end->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        end_send_control(end, MADI_FORWARD_HELLO, bytes, (size_t)n);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void handshake_ready(madi_watch_t *watch, uint32_t events)
{
    gw_end_t *end = MADI_CONTAINER(watch, gw_end_t, watch);
    (void)events;
    if (!end->closed && !handshake_carry(end))
        gw_end_close(end, MAD_ERR_PEER, "the handshake failed");
}

gw_side_t *gw_side_new(gw_end_t *end)
{
    gw_side_t *side = calloc(1, sizeof *side);
    if (side)
        side->end = end;
    return side;
}

gw_end_t *gw_end_new(gw_t *gw, bool active, int *their_fd)
{
    gw_end_t *end = calloc(1, sizeof *end);
    int pair[2];
    if (!end)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair)) {
        free(end);
        return NULL;
    }
    madi_fd_own(pair[0]);
    madi_fd_own(pair[1]);
    end->gw = gw;
    end->active = active;
    end->watch = (madi_watch_t){.fd = pair[0], .ready = handshake_ready};
    end->their_fd = *their_fd = pair[1];
    if (madi_watch_add(gw->base.session, &end->watch, EPOLLIN)) {
        madi_fd_close(pair[0]);
        madi_fd_close(pair[1]);
        free(end);
        return NULL;
    }
    end->next = gw->ends;
    gw->ends = end;
    return end;
}

void gw_end_leave_refused(gw_end_t *end)
{
    gw_hop_t *hop = end->side ? end->side->hop : NULL;
    madi_gate_t *gate = hop ? hop->gate : NULL;
    if (!gate)
        return;
    madi_lock(&gate->tx_lock);
    for (gw_end_t **p = &hop->refused; end->refused && *p; p = &(*p)->next_refused)
        if (*p == end) {
            *p = end->next_refused;
            break;
        }
    end->refused = false;
    madi_unlock(&gate->tx_lock);
}

/* Free the endpoint later, if both endpoints have closed or the path is gone. */
void gw_end_finish(gw_end_t *end)
{
    if (!end->closed || !end->gone || end->dead)
        return;
    end->dead = true;
    gw_later(end->gw);
}

/* True if no fragment waits on this side, and no driver still reads one that was sent. */
static bool side_is_quiet(const gw_side_t *side)
{
    bool waits = side->queue && side->hop && !side->hop->down;
    return !waits && !atomic_load_explicit(&side->in_flight, memory_order_relaxed);
}

static void old_sides_reap(gw_end_t *end, bool all)
{
    for (gw_side_t **p = &end->old, *side; (side = *p);) {
        if (!all && !side_is_quiet(side)) {
            p = &side->next_old;
            continue;
        }
        *p = side->next_old;
        gw_side_close(side);
        gw_route_close(side->route, side, side);
        free(side);
    }
}

void gw_ends_reap(gw_t *gw, bool all)
{
    for (gw_end_t **p = &gw->ends, *end; (end = *p);) {
        old_sides_reap(end, all);
        if (!all && (!end->dead || end->old || (end->side && !side_is_quiet(end->side)) || atomic_load(&end->n_held))) {
            p = &end->next;
            continue;
        }
        *p = end->next;
        gw_migrate_forget(end, MADI_CLOSE_LINK, "");
        old_sides_reap(end, true);
        end_unwatch(end);
        gw_end_uncharge(end);
        gw_end_leave_refused(end);
        if (end->side) {
            gw_side_close(end->side);
            gw_route_close(end->route, end->side, end->side);
        }
        free(end->side);
        free(end->window.ring);
        gw_cipher_free(end->cipher);
        free(end->sealed);
        free(end->early);
        free(end);
    }
}

void gw_end_close(gw_end_t *end, mad_status_t status, const char *text)
{
    gw_side_t *side = end->side;
    bool closed = end->closed;
    end->closed = true;
    gw_end_uncharge(end);
    gw_migrate_forget(end, MADI_CLOSE_LINK, text); /* the other endpoint may already use the standby path */
    gw_window_drop(end, MAD_ERR_PEER);
    if (end->link)
        ((gw_link_t *)end->link)->end = NULL;
    end->link = NULL;
    gw_end_leave_refused(end);
    if (closed)
        return;
    end_unwatch(end);
    if (side && side->hop && end->started)
        gw_side_drop(side);
    if (side && side->hop && !side->hop->down)
        gw_side_send_close(side, MADI_CLOSE_LINK, status, text);
    else
        end->gone = true; /* a later search for this endpoint finds that it does not exist */
    gw_end_finish(end);
}

void gw_end_closed(gw_end_t *end, mad_status_t status, const char *text)
{
    madi_link_t *link = end->link;
    if (end->gone)
        return;
    end->gone = true;
    if (link && end->started)
        madi_link_down(link, status, text);
    else if (link && !end->rx_seq) /* the bytes of the handshake did not arrive, so the core is given the reason */
        madi_hello_give_up(link, status, text);
    /* Otherwise the handshake's bytes contain the reason, and the core reads them before it finds the end of its socket. */
    gw_end_close(end, MAD_ERR_PEER, "");
    gw_end_finish(end);
}

/* ---- Opened by the other endpoint ------------------------------------------------------------------------------- */

static gw_end_t *end_find(gw_t *gw, uint64_t stream)
{
    for (gw_end_t *end = gw->ends; end; end = end->next)
        if (end->stream == stream && !end->closed)
            return end;
    return NULL;
}

static void end_accept(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open)
{
    int fd = -1;
    gw_side_t *side;
    gw_end_t *end;
    if (!madi_charge(hop->gate, MADI_CHARGE_HANDSHAKES, 1)) {
        madi_ledger_refused(hop->gate, MADI_CHARGE_HANDSHAKES);
        gw_refuse(hop, hdr, MADI_CLOSE_WAY, MAD_ERR_PEER, "too many streams from this peer are not connected yet");
        return;
    }
    end = gw_end_new(hop->gw, false, &fd);
    if (end)
        end->charged = hop;
    else
        madi_uncharge(hop->gate, MADI_CHARGE_HANDSHAKES, 1);
    side = end ? gw_side_new(end) : NULL;
    if (!side || !gw_side_open(side, hop, &hdr->aux)) {
        free(side);
        if (end) {
            gw_end_uncharge(end);
            madi_fd_close(fd);
            end->closed = end->gone = true;
            gw_end_finish(end);
        }
        gw_refuse(hop, hdr, MADI_CLOSE_LINK, MAD_ERR_NOMEM, "no memory or descriptors for a virtual link");
        return;
    }
    end->side = side;
    end->stream = open->stream;
    end->turn = side->turn = open->turn;
    end->rx_seq = 1; /* number 0 was OPEN */
    side->tx_limit = open->limit;
    gw_credit_unlimited(side);
    if (open->turn)
        gw_end_ack(end, false); /* the answer to an earlier OPEN did not arrive, and the opener waits for an answer */
    madi_hello_accept(&hop->gw->base, fd);
}

void gw_end_open(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open)
{
    gw_end_t *end = end_find(hop->gw, open->stream);
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    bool tries = kind == MADI_FORWARD_TRY;
    if (!end && !open->ack && !tries) {
        end_accept(hop, hdr, open);
    } else if (!end) {
        gw_refuse(hop, hdr, MADI_CLOSE_LINK, MAD_ERR_PEER, "the peer has ended this connection");
    } else if (open->turn <= end->turn || open->turn <= end->turn_received) {
        gw_refuse(hop, hdr, MADI_CLOSE_WAY, MAD_ERR_BUSY, "the other end has opened another path");
    } else if (!gw_open_proved(end, kind, open)) {
        gw_refuse(hop, hdr, MADI_CLOSE_WAY, MAD_ERR_AUTH, "only its two ends can resume this stream");
    } else {
        end->turn_received = open->turn;
        if (tries)
            gw_migrate_tried(end, hop, hdr->aux, open);
        else
            gw_migrate_opened(end, hop, hdr->aux, open);
    }
}

/* ---- Numbers ---------------------------------------------------------------------------------------------------- */

void gw_end_header(gw_end_t *end, gw_frag_t *frag, unsigned kind, uint32_t seq, size_t len, bool asks)
{
    madi_wire_forward_t forward = {.ack = end->rx_seq, .ask = gw_window_wants_ack(end, len) || asks};
    bool opener = end->side && end->side->opener;
    frag->hdr = (madi_wire_hdr_t){.type = MADI_WIRE_FORWARD,
                                  .flags = (uint8_t)(kind | (opener ? MADI_FORWARD_OPENER : 0)),
                                  .length = (uint32_t)(sizeof forward + gw_protected_len(end, kind, len)),
                                  .seq = seq,
                                  .aux = end->side ? end->side->label : 0};
    memcpy(frag->body, &forward, sizeof forward);
}

void gw_end_ack_by(gw_end_t *end, gw_side_t *side, bool ask)
{
    madi_wire_forward_t forward = {.ack = end->rx_seq, .ask = ask};
    uint32_t len = (uint32_t)(sizeof forward + gw_protected_len(end, MADI_FORWARD_ACK, 0));
    gw_frag_t *frag;
    if (!side || !side->hop || side->hop->down || gw_side_crowded(side) || !(frag = gw_frag_new(end->gw, len)))
        return; /* the other endpoint will request an acknowledgement again */
    frag->hdr.flags = (uint8_t)(MADI_FORWARD_ACK | (side->opener ? MADI_FORWARD_OPENER : 0));
    frag->hdr.aux = side->label;
    memcpy(frag->body, &forward, sizeof forward);
    if (end->encrypts)
        gw_protect_ack(side, frag);
    gw_side_put(side, frag);
}

void gw_end_ack(gw_end_t *end, bool ask)
{
    gw_end_ack_by(end, end->side, ask);
}

static bool end_acked(gw_end_t *end, uint32_t ack)
{
    if (MADI_LIKELY(gw_window_ack_arrived(end, ack)))
        return true;
    gw_end_closed(end, MAD_ERR_PROTOCOL, "more was acknowledged than sent");
    return false;
}

void gw_end_acked(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_end_t *end = side->end;
    madi_wire_forward_t forward;
    memcpy(&forward, body, sizeof forward);
    if (end->closed || (side != end->side && side != end->standby) || !gw_ack_proved(side, hdr, body))
        return;
    if (side == end->standby) {
        gw_migrate_acked(end, forward.ack);
        return;
    }
    if (end->resuming)
        gw_path_resume(end, forward.ack);
    else
        end_acked(end, forward.ack);
    if (forward.ask && !end->closed)
        gw_end_ack(end, false);
}

/* True if this fragment is the next in order.  The fragment counts as received once it is complete. */
static bool fragment_is_next(gw_end_t *end, const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward)
{
    if (end->resuming) /* no fragment comes on the new path before the other endpoint's answer */
        return false;
    if (!end_acked(end, forward->ack))
        return false;
    if (MADI_LIKELY(hdr->seq == end->rx_seq))
        return true;
    if ((int32_t)(hdr->seq - end->rx_seq) > 0)
        gw_end_closed(end, MAD_ERR_PROTOCOL, "fragments are missing or out of order");
    return false; /* the fragment is a duplicate, or the stream has ended */
}

static void end_try_up(gw_end_t *end)
{
    if (end->started && end->ready && end->link)
        madi_link_up(end->link);
}

/* Handle READY: the other endpoint has the keys too.  READY may arrive before this endpoint's handshake is over, and is
 * kept until then.  At most one is kept, because the other endpoint sends nothing else before it has this endpoint's
 * READY. */
static void ready_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_end_t *end = side->end;
    madi_wire_forward_t forward;
    memcpy(&forward, body, sizeof forward);
    if (end->resuming || end->ready || (int32_t)(hdr->seq - end->rx_seq) < 0)
        return; /* a duplicate, or a fragment that will be sent again */
    if (!end->started && hdr->length == sizeof end->early->body &&
        (end->early || (end->early = malloc(sizeof *end->early)))) {
        end->early->hdr = *hdr;
        end->early->turn = side->turn;
        memcpy(end->early->body, body, sizeof end->early->body);
        return;
    }
    if (!end->started || hdr->seq != end->rx_seq || !gw_ready_proved(side, hdr, body)) {
        gw_forged(side, "the end of the handshake does not come from the peer");
        return;
    }
    gw_window_settle(end, forward.ack);
    end->rx_seq++;
    end->ready = true;
    end_try_up(end);
    if (forward.ask && !end->closed)
        gw_end_ack(end, false);
}

static void handshake_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_end_t *end = side->end;
    madi_wire_forward_t forward;
    size_t len = hdr->length - sizeof forward;
    memcpy(&forward, body, sizeof forward);
    if (end->encrypts) { /* this endpoint has keys, so a fragment without a proof is worthless */
        if (!end->resuming && (int32_t)(hdr->seq - end->rx_seq) >= 0)
            gw_forged(side, "a part of the handshake arrived after its end");
        return;
    }
    if (!fragment_is_next(end, hdr, &forward))
        return;
    end->rx_seq++;
    if (end->watch.fd >= 0 &&
        send(end->watch.fd, (const char *)body + sizeof forward, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
        gw_end_close(end, MAD_ERR_PEER, "the handshake failed");
    if (forward.ask && !end->closed)
        gw_end_ack(end, false);
}

void gw_end_control_arrived(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    if (side->end->closed || side != side->end->side)
        return;
    if ((hdr->flags & MADI_FORWARD_KIND) == MADI_FORWARD_READY)
        ready_arrived(side, hdr, body);
    else
        handshake_arrived(side, hdr, body);
}

/* Set the route once both the path and the peer are known. */
void gw_end_route(gw_end_t *end)
{
    gw_t *gw = end->gw;
    if (end->link && end->side && end->side->hop)
        end->route = gw_route_open(gw, end->link->gate->lane, gw->host, gw_host_of_peer(gw, end->side->hop->gate->peer),
                                   gw_host_of_peer(gw, end->link->gate->peer), false);
}

bool gw_end_start(gw_end_t *end, madi_link_t *link, int fd)
{
    gw_early_t *early = end->early;
    handshake_carry(end);
    madi_fd_close(fd);
    if (!gw_protect_start(end, link))
        return false;
    end->link = link;
    end->started = true;
    gw_end_uncharge(end);
    gw_end_route(end);
    end_unwatch(end);
    end_send_control(end, MADI_FORWARD_READY, NULL, 0);
    end->early = NULL;
    if (early && end->side && early->turn == end->side->turn)
        ready_arrived(end->side, &early->hdr, early->body);
    free(early);
    end_try_up(end);
    return true;
}

/* ---- Incoming packets ------------------------------------------------------------------------------------------- */

void gw_end_received(gw_end_t *end, bool asks)
{
    end->rx_seq++;
    if (asks && !end->closed)
        gw_end_ack(end, false);
}

void gw_end_half_received(gw_end_t *end)
{
    madi_link_t *link = end->link;
    end->partial = false;
    if (link)
        madi_rx_done(link, &end->partial_hdr, &end->partial_rx);
    gw_end_received(end, end->partial_asks);
}

/* True if a body from this carrier (the link that delivered it) may be lent to the core.  Lent bodies go back to
 * the link that they came over, and only one link may have loans at a time.  While there are loans, threads that
 * return them read link->carrier without a lock; so link->carrier must not be written then, not even with the same
 * value. */
static bool end_may_lend(gw_link_t *link, madi_link_t *carrier)
{
    if (link->carrier == carrier)
        return true;
    if (atomic_load_explicit(&link->base.loans, memory_order_acquire)) /* pairs with the release in virtual_slot_put */
        return false;
    link->carrier = carrier;
    return true;
}

static madi_place_t end_lend(gw_hop_t *hop, gw_link_t *link, const madi_wire_hdr_t *inner, madi_rx_t *rx)
{
    madi_link_t *carrier = hop->gate->link;
    bool may = end_may_lend(link, carrier);
    madi_foreign_t body = madi_foreign_skip(rx->loan, MADI_FORWARD_HEAD);
    madi_rx_t in = {.loan = may ? body : (madi_foreign_t){0}};
    madi_place_t place;
    if (may)
        atomic_fetch_add_explicit(&carrier->loans, 1, memory_order_relaxed); /* first: the core may return the loan early */
    place = madi_rx_begin(&link->base, inner, &in);
    if (place == MADI_PLACE_KEEP)
        return place;
    if (may)
        atomic_fetch_sub_explicit(&carrier->loans, 1, memory_order_relaxed);
    if (place == MADI_PLACE_COPY) {
        madi_foreign_copy_any(in.base, body, inner->length);
        madi_rx_done(&link->base, inner, &in);
    }
    return MADI_PLACE_DROP;
}

/* Receive a packet to its destination, which is already known or is determined now.  The driver writes the part that has
 * not arrived yet. */
static madi_place_t end_receive(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *inner, madi_rx_t *rx, bool all,
                                bool asks)
{
    gw_end_t *end = side->end;
    if (!end->partial) {
        end->partial_rx = (madi_rx_t){0};
        if (madi_rx_begin(end->link, inner, &end->partial_rx) != MADI_PLACE_COPY) {
            gw_end_received(end, asks);
            return MADI_PLACE_DROP;
        }
        end->partial = true;
        end->partial_hdr = *inner;
    }
    end->partial_asks = asks;
    if (all) {
        madi_foreign_copy_any(end->partial_rx.base, madi_foreign_skip(rx->head, MADI_FORWARD_HEAD), inner->length);
        gw_end_half_received(end);
        return MADI_PLACE_DROP;
    }
    hop->in = GW_IN_END;
    hop->in_side = side;
    gw_alive_watch(end->gw); /* no other packet may use that destination until it is known whether the rest arrives */
    rx->base = end->partial_rx.base;
    rx->skip = MADI_FORWARD_HEAD;
    return MADI_PLACE_COPY;
}

bool gw_end_holds(const gw_end_t *end, const madi_wire_hdr_t *inner, size_t length)
{
    return inner->length == length && inner->type != MADI_WIRE_FORWARD &&
           (inner->type == MADI_WIRE_DATA || inner->length <= GW_FRAGMENT) &&
           (!end->partial || !memcmp(inner, &end->partial_hdr, sizeof *inner));
}

/* True if the fragment contains a packet that is valid now.  The packet's header is stored in *inner. */
static bool fragment_holds_packet(const gw_end_t *end, const madi_wire_hdr_t *hdr, madi_foreign_t head,
                                  madi_wire_hdr_t *inner)
{
    if (hdr->length < MADI_FORWARD_HEAD || !end->ready || !end->started)
        return false;
    madi_foreign_copy(inner, madi_foreign_skip(head, sizeof(madi_wire_forward_t)), sizeof *inner);
    return gw_end_holds(end, inner, hdr->length - MADI_FORWARD_HEAD);
}

madi_place_t gw_end_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_end_t *end = side->end;
    gw_link_t *link = (gw_link_t *)end->link;
    bool all = rx->here == hdr->length;
    madi_wire_forward_t forward;
    madi_wire_hdr_t inner;
    madi_place_t place;

    if (end->encrypts)
        return gw_sealed_packet(hop, side, hdr, rx);
    madi_foreign_copy(&forward, rx->head, sizeof forward);
    if (end->closed || !link || side != end->side || !fragment_is_next(end, hdr, &forward))
        return MADI_PLACE_DROP;
    if (!fragment_holds_packet(end, hdr, rx->head, &inner)) {
        gw_end_closed(end, MAD_ERR_PROTOCOL, "a fragment that holds no packet");
        return MADI_PLACE_DROP;
    }
    if (end->partial)
        return end_receive(hop, side, &inner, rx, all, forward.ask);
    if (all && inner.length <= MADI_SHORT_MAX) {
        madi_rx_short(&link->base, &inner, madi_foreign_skip(rx->head, MADI_FORWARD_HEAD));
        gw_end_received(end, forward.ask);
        return MADI_PLACE_DROP;
    }
    if (madi_foreign_is_set(rx->loan)) {
        place = end_lend(hop, link, &inner, rx);
        gw_end_received(end, forward.ask);
        return place;
    }
    return end_receive(hop, side, &inner, rx, all, forward.ask);
}

void gw_end_packet_done(gw_hop_t *hop)
{
    gw_end_t *end = hop->in_side->end;
    if (end->encrypts && !gw_sealed_done(hop->in_side))
        return;
    gw_end_half_received(end);
    if (end->standby_take && !end->closed)
        gw_migrate_take(end);
}
