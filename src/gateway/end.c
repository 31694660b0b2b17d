/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of streams.  The handshake of the core works on a stream socket: each end gives it one of a pair, and carries
 * what is written there to the other end, so both prove the job's key to each other through all gateways.  When it is over
 * at both ends (READY), packets flow. */
#include "gateway/gateway.h"
#include "base/knob.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_ONCE 4096 /* bytes of the handshake in one fragment */

/* ---- Life ------------------------------------------------------------------------------------------------------ */

static void unwatch(gw_end_t *end)
{
    if (end->watch.fd < 0)
        return;
    madi_watch_del(end->gw->base.session, &end->watch);
    close(end->watch.fd);
    end->watch.fd = -1;
}

/* Carry what the handshake has written; true: its end of the pair is still open. */
static bool carry(gw_end_t *end)
{
    char bytes[AT_ONCE];
    ssize_t n;
    while ((n = recv(end->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        gw_side_say(&end->side, MADI_FORWARD_HELLO, 0, bytes, (size_t)n, NULL, 0);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void handshake_ready(madi_watch_t *watch, uint32_t events)
{
    gw_end_t *end = MADI_CONTAINER(watch, gw_end_t, watch);
    (void)events;
    if (!end->closed && !carry(end))
        gw_end_close(end, MAD_ERR_PEER, "the handshake failed");
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
    end->gw = gw;
    end->active = active;
    end->side.end = end;
    end->watch = (madi_watch_t){pair[0], handshake_ready};
    end->their_fd = *their_fd = pair[1];
    if (madi_watch_add(gw->base.session, &end->watch, EPOLLIN)) {
        close(pair[0]);
        close(pair[1]);
        free(end);
        return NULL;
    }
    end->next = gw->ends;
    gw->ends = end;
    return end;
}

static void leave_refused(gw_end_t *end)
{
    madi_gate_t *gate = end->side.hop ? end->side.hop->gate : NULL;
    if (!gate)
        return;
    madi_lock(&gate->tx_lock);
    for (gw_end_t **p = &end->side.hop->refused; end->refused && *p; p = &(*p)->next_refused)
        if (*p == end) {
            *p = end->next_refused;
            break;
        }
    end->refused = false;
    madi_unlock(&gate->tx_lock);
}

/* Both have closed, or the way is gone: nothing more happens to it. */
static void finish(gw_end_t *end)
{
    if (!end->closed || !end->gone || end->dead)
        return;
    end->dead = true;
    atomic_store_explicit(&end->gw->unsettled, 1, memory_order_relaxed);
}

void gw_ends_reap(gw_t *gw, bool all)
{
    for (gw_end_t **p = &gw->ends, *end; (end = *p);) {
        bool waits = end->side.queue && end->side.hop && !end->side.hop->down;
        if (!all && (!end->dead || waits || atomic_load_explicit(&end->side.in_flight, memory_order_relaxed))) {
            p = &end->next;
            continue;
        }
        *p = end->next;
        unwatch(end);
        leave_refused(end);
        gw_side_close(&end->side);
        gw_route_close(end->route, &end->side, &end->side);
        free(end);
    }
}

void gw_end_close(gw_end_t *end, mad_status_t status, const char *text)
{
    if (end->link)
        ((gw_link_t *)end->link)->end = NULL;
    end->link = NULL;
    leave_refused(end);
    if (end->closed)
        return;
    end->closed = true;
    unwatch(end);
    if (end->side.hop && end->started)
        gw_side_drop(&end->side);
    if (end->side.hop && !end->side.hop->down)
        gw_side_say_close(&end->side, status, text);
    finish(end);
}

void gw_end_closed(gw_end_t *end, mad_status_t status, const char *text)
{
    madi_link_t *link = end->link;
    if (end->gone)
        return;
    end->gone = true;
    if (link && end->started)
        madi_link_down(link, status, text);
    else if (link && link->gate->link == link && !end->rx_seq) /* the handshake's: it closes the link */
        madi_hello_give_up(link->gate, status, text);
    /* Else what has come of the handshake says why; it finds the end of its socket behind that. */
    gw_end_close(end, MAD_ERR_PEER, "");
    finish(end);
}

/* ---- The handshake ------------------------------------------------------------------------------------------------ */

void gw_end_came(gw_hop_t *hop, const madi_wire_hdr_t *hdr, uint64_t limit)
{
    int fd = -1;
    gw_end_t *end = gw_end_new(hop->gw, false, &fd);
    if (!end || !gw_side_open(&end->side, hop, &hdr->aux)) {
        if (end) {
            close(fd);
            end->closed = end->gone = true;
            finish(end);
        }
        gw_refuse(hop, hdr, MAD_ERR_NOMEM, "no memory or descriptors for a virtual link");
        return;
    }
    end->rx_seq = 1; /* that was OPEN */
    end->side.tx_limit = limit;
    gw_credit_unlimited(&end->side);
    madi_hello_accept(&hop->gw->base, fd);
}

static bool in_order(gw_end_t *end, const madi_wire_hdr_t *hdr)
{
    if (hdr->seq == end->rx_seq) {
        end->rx_seq++;
        return true;
    }
    gw_end_closed(end, MAD_ERR_PROTOCOL, "fragments are missing or out of order");
    return false;
}

static void up(gw_end_t *end)
{
    if (end->started && end->ready && end->link)
        madi_link_up(end->link);
}

void gw_end_told(gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body)
{
    gw_end_t *end = side->end;
    size_t len = hdr->length - sizeof(madi_wire_forward_t);
    if (end->closed || !in_order(end, hdr))
        return;
    if ((hdr->flags & MADI_FORWARD_KIND) == MADI_FORWARD_READY) {
        end->ready = true;
        up(end);
    } else if (end->watch.fd >= 0 && send(end->watch.fd, body, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len) {
        gw_end_close(end, MAD_ERR_PEER, "the handshake failed");
    }
}

static gw_route_t *route_to(const gw_end_t *end)
{
    gw_t *gw = end->gw;
    const madi_peer_t *peers = gw->base.session->peers;
    return gw_route_open(gw, gw->host, gw_host_of(gw, peers[end->side.hop->gate->peer].address, NULL),
                         gw_host_of(gw, peers[end->link->gate->peer].address, NULL), false);
}

void gw_end_start(gw_end_t *end, madi_link_t *link, int fd)
{
    end->link = link;
    end->started = true;
    end->route = route_to(end);
    carry(end);
    close(fd);
    unwatch(end);
    gw_side_say(&end->side, MADI_FORWARD_READY, 0, NULL, 0, NULL, 0);
    up(end);
}

/* ---- Packets in ------------------------------------------------------------------------------------------------ */

static madi_place_t lend(gw_hop_t *hop, gw_link_t *link, const madi_wire_hdr_t *inner, madi_rx_t *rx)
{
    madi_link_t *carrier = hop->gate->link;
    madi_rx_t in = {.loan = (char *)rx->loan + MADI_FORWARD_HEAD};
    madi_place_t place;
    link->carrier = carrier;
    atomic_fetch_add_explicit(&carrier->loans, 1, memory_order_relaxed); /* before it may be given back */
    place = madi_rx_begin(&link->base, inner, &in);
    if (place == MADI_PLACE_KEEP)
        return place;
    atomic_fetch_sub_explicit(&carrier->loans, 1, memory_order_relaxed);
    if (place == MADI_PLACE_COPY) {
        madi_copy(in.base, (char *)rx->loan + MADI_FORWARD_HEAD, inner->length);
        madi_rx_done(&link->base, inner, &in);
    }
    return MADI_PLACE_DROP;
}

madi_place_t gw_end_packet(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_end_t *end = side->end;
    gw_link_t *link = (gw_link_t *)end->link;
    const char *bytes = (const char *)rx->head + MADI_FORWARD_HEAD;
    bool all = rx->here == hdr->length;
    madi_wire_hdr_t inner;
    madi_place_t place;

    if (end->closed || !link || !in_order(end, hdr))
        return MADI_PLACE_DROP;
    memcpy(&inner, (const char *)rx->head + sizeof(madi_wire_forward_t), sizeof inner);
    if (!end->ready || !end->started || inner.length != hdr->length - MADI_FORWARD_HEAD || inner.type == MADI_WIRE_FORWARD ||
        (inner.type != MADI_WIRE_DATA && inner.length > GW_FRAGMENT_LEAST)) {
        gw_end_closed(end, MAD_ERR_PROTOCOL, "a fragment that holds no packet");
        return MADI_PLACE_DROP;
    }
    if (all && inner.length <= MADI_SHORT_MAX) {
        madi_rx_short(&link->base, &inner, bytes);
        return MADI_PLACE_DROP;
    }
    if (rx->loan)
        return lend(hop, link, &inner, rx);
    hop->in_rx = (madi_rx_t){0};
    place = madi_rx_begin(&link->base, &inner, &hop->in_rx);
    if (place == MADI_PLACE_COPY && all) {
        madi_copy(hop->in_rx.base, bytes, inner.length);
        madi_rx_done(&link->base, &inner, &hop->in_rx);
    } else if (place == MADI_PLACE_COPY) {
        hop->in = GW_IN_END;
        hop->in_side = side;
        hop->in_hdr = inner;
        rx->base = hop->in_rx.base;
        rx->skip = MADI_FORWARD_HEAD;
        return MADI_PLACE_COPY;
    }
    return MADI_PLACE_DROP;
}

void gw_end_packet_done(gw_hop_t *hop)
{
    gw_end_t *end = hop->in_side->end;
    if (end->link)
        madi_rx_done(end->link, &hop->in_hdr, &hop->in_rx);
}
