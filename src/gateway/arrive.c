/* SPDX-License-Identifier: BSD-3-Clause */
/* Incoming fragments of one gate: fragments to be passed on, packets for this process, and control fragments about
 * streams. */
#include "gateway/gateway.h"
#include "base/log.h"

/* bytes: longest control fragment handled on the stack; only fragments with addresses or handshake bytes are longer */
#define FEW 256

#include <stdio.h>

static void fragment_reject(gw_hop_t *hop, const char *text)
{
    madi_link_down(hop->gate->link, MAD_ERR_PROTOCOL, text);
}

static void malformed_reject(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    char text[GW_TEXT];
    snprintf(text, sizeof text,
             "a fragment of kind %u with %u bytes: the kind does not exist, or the length is invalid (\"Fragments\" in "
             "doc/wire.md)",
             hdr->flags & MADI_FORWARD_KIND, hdr->length);
    fragment_reject(hop, text);
}

/* Handle the end of the stream at the other endpoint.  Earlier bytes of its handshake may have been lost with a former
 * path, for instance the bytes that report that its own connection attempt prevails. */
static void end_peer_closed(gw_end_t *end, mad_status_t status, const char *text)
{
    if (end->active && !end->started && end->turn && end->link)
        madi_hello_unsure(end->link);
    gw_end_closed(end, status, text);
}

/* Handle CLOSE of a whole stream.  A gateway cannot end an encrypted stream: a CLOSE without the other endpoint's proof
 * only ends this path. */
static void link_close_arrived(gw_side_t *side, const madi_wire_close_t *c, const char *text)
{
    char why[GW_TEXT + 1];
    if (gw_close_proved(side, c, text)) {
        end_peer_closed(side->end, (mad_status_t)c->status, text);
        return;
    }
    snprintf(why, sizeof why, "a gateway reports, without the peer's proof: %.110s", text);
    madi_log(side->end->unproved_logged ? MADI_LOG_DEBUG : MADI_LOG_WARN, "virtual",
             "%s: the connection continues by another path", why);
    side->end->unproved_logged = true;
    gw_path_lost(side, MADI_CLOSE_GONE, MAD_ERR_PEER, why);
}

static void close_arrived(gw_side_t *side, madi_wire_close_t *c, const char *text)
{
    if (c->what > MADI_CLOSE_GONE)
        c->what = MADI_CLOSE_LINK;
    if (c->status == MAD_OK || c->status > MAD_ERR_BUSY)
        c->status = MAD_ERR_PROTOCOL;
    if (side->transit)
        gw_transit_closed(side, c, text);
    else if (c->what != MADI_CLOSE_LINK || side == side->end->standby)
        gw_path_lost(side, c->what, (mad_status_t)c->status, text);
    else if (!side->old)
        link_close_arrived(side, c, text);
}

/* Handle MOVE: the gateway beyond this hop, or a later one, requests that streams take other paths. */
static void move_arrived(gw_side_t *side, uint16_t passed)
{
    if (!passed)
        side->hop->moves = true;
    if (side->end)
        gw_migrate_requested(side);
    else if (gw_transit_other(side)->hop && passed < GW_HOPS && gw_transit_moves(side))
        gw_side_send_control(gw_transit_other(side), MADI_FORWARD_MOVE, (uint16_t)(passed + 1), NULL, 0, NULL, 0);
}

static bool kind_opens(unsigned kind)
{
    return kind == MADI_FORWARD_OPEN || kind == MADI_FORWARD_TRY;
}

/* Handle a control fragment, which lies completely in private memory. */
static void control_handle(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, const unsigned char *body)
{
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    const unsigned char *rest = body + sizeof(madi_wire_forward_t);
    size_t len = hdr->length - sizeof(madi_wire_forward_t);
    madi_wire_forward_t forward;
    madi_wire_credit_t credit;
    madi_wire_close_t c;
    char text[GW_TEXT + 1];

    if (kind_opens(kind)) {
        gw_open_arrived(hop, hdr, body);
    } else if (kind == MADI_FORWARD_PING) {
        memcpy(&forward, body, sizeof forward);
        gw_hop_ping(hop, side, hdr, &forward);
    } else if (kind == MADI_FORWARD_KNOW) {
        gw_gossip_arrived(hop, rest, len);
    } else if (!side) {
        return; /* the stream was closed here: its CLOSE is on the way */
    } else if (kind == MADI_FORWARD_CREDIT && len == sizeof credit) {
        memcpy(&credit, rest, sizeof credit);
        gw_credit_arrived(side, credit.limit);
    } else if (kind == MADI_FORWARD_CLOSE && len >= sizeof c && len <= sizeof c + GW_TEXT) {
        memcpy(&c, rest, sizeof c);
        madi_escape(text, sizeof text, (const char *)rest + sizeof c, len - sizeof c);
        close_arrived(side, &c, text);
    } else if (side->end && (kind == MADI_FORWARD_HELLO || kind == MADI_FORWARD_READY)) {
        gw_end_control_arrived(side, hdr, body);
    } else if (side->end && kind == MADI_FORWARD_ACK) {
        gw_end_acked(side, hdr, body);
    } else if (kind == MADI_FORWARD_MOVE) {
        move_arrived(side, hdr->channel);
    } else {
        fragment_reject(hop, "a fragment of unknown form");
    }
}

/* Handle a control fragment in memory which the peer may change: copy the fragment before reading it. */
static madi_place_t control_copy_and_handle(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    unsigned char few[FEW];
    gw_frag_t *frag = NULL;
    if (hdr->length > sizeof few && !(frag = gw_frag_new(hop->gw, hdr->length))) {
        madi_link_down(hop->gate->link, MAD_ERR_NOMEM, "no memory for a fragment");
        return MADI_PLACE_DROP;
    }
    madi_foreign_copy(frag ? frag->body : few, body, hdr->length);
    control_handle(hop, side, hdr, frag ? frag->body : few);
    if (frag)
        gw_frag_free(hop->gw, frag);
    return MADI_PLACE_DROP;
}

/* True for fragments that pass through unchanged. */
static bool fragment_passes(const gw_side_t *side, const madi_wire_hdr_t *hdr)
{
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    return side && side->transit &&
           (kind == MADI_FORWARD_PACKET || kind == MADI_FORWARD_HELLO || kind == MADI_FORWARD_READY ||
            kind == MADI_FORWARD_ACK);
}

static madi_place_t fragment_keep_whole(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_frag_t *frag = gw_frag_new(hop->gw, hdr->length);
    if (!frag) {
        madi_link_down(hop->gate->link, MAD_ERR_NOMEM, "no memory for a fragment");
        return MADI_PLACE_DROP;
    }
    hop->in = GW_IN_WHOLE;
    hop->in_side = side;
    hop->in_frag = frag;
    rx->base = frag->body;
    return MADI_PLACE_COPY;
}

/* Receive a fragment that has to be passed on, into memory of this process or as a loan. */
static madi_place_t transit_begin(gw_hop_t *hop, gw_side_t *side, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_frag_t *frag;
    bool lent = madi_foreign_is_set(rx->loan);
    if (gw_costs(hdr) && !gw_credit_take(side, gw_cost(hdr->length))) {
        fragment_reject(hop, "more fragments than credits");
        return MADI_PLACE_DROP;
    }
    if (rx->here == hdr->length && gw_transit_now(side, hdr, rx->head))
        return MADI_PLACE_DROP;
    frag = gw_frag_new(hop->gw, lent ? 0 : hdr->length);
    if (!frag) {
        madi_link_down(hop->gate->link, MAD_ERR_NOMEM, "no memory for a fragment");
        return MADI_PLACE_DROP;
    }
    frag->hdr = *hdr;
    if (lent) {
        hop->gw->held += gw_cost(hdr->length) - frag->cost;
        frag->cost = gw_cost(hdr->length);
        frag->lender = hop->gate->link;
        frag->loan = rx->loan;
        frag->vec[0].iov_len = sizeof frag->hdr;
        frag->vec[1] = (struct iovec){madi_foreign_pass_on(rx->loan), hdr->length};
        frag->n = 2;
        atomic_fetch_add_explicit(&frag->lender->loans, 1, memory_order_relaxed);
        gw_transit_fragment(side, frag);
        return MADI_PLACE_KEEP;
    }
    if (rx->here == hdr->length) { /* the fragment is complete in the driver's memory, so one copy suffices */
        madi_foreign_copy(frag->body, rx->head, hdr->length);
        GW_COUNT(hop->gw, copies, 1);
        gw_transit_fragment(side, frag);
        return MADI_PLACE_DROP;
    }
    hop->in = GW_IN_TRANSIT;
    hop->in_side = side;
    hop->in_frag = frag;
    rx->base = frag->body;
    return MADI_PLACE_COPY;
}

static madi_place_t fragment_begin(gw_hop_t *hop, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_side_t *side;
    unsigned kind = hdr->flags & MADI_FORWARD_KIND;
    if (!gw_form_good(hdr)) {
        malformed_reject(hop, hdr);
        return MADI_PLACE_DROP;
    }
    hop->asked = 0;
    side = gw_side_find(hop, hdr);
    if (side && gw_costs(hdr))
        gw_side_arrived(side, hdr);
    if (fragment_passes(side, hdr))
        return transit_begin(hop, side, hdr, rx);
    if (!side && !kind_opens(kind) && kind != MADI_FORWARD_PING && kind != MADI_FORWARD_KNOW)
        return MADI_PLACE_DROP;
    if (kind == MADI_FORWARD_PACKET && rx->here >= gw_packet_header(side, hdr))
        return gw_end_packet(hop, side, hdr, rx);
    if (kind != MADI_FORWARD_PACKET && rx->here == hdr->length)
        return control_copy_and_handle(hop, side, hdr, rx->head);
    return fragment_keep_whole(hop, side, hdr, rx);
}

/* Trace an arrival; end 0 means now.  A fragment that lay complete in the driver's memory arrived instantly. */
static MADI_COLD void arrived_trace(gw_hop_t *hop, const madi_wire_hdr_t *hdr, int64_t end)
{
    const gw_side_t *side = gw_side_find(hop, hdr);
    if (side && gw_costs(hdr))
        gw_trace(MADI_TRACE_FRAGMENT_IN, hop->in_began, end, side, hdr->length);
}

madi_place_t gw_rx_begin(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_hop_t *hop = gw_hop_get(gw_of_session(link->gate->session), link->gate);
    madi_place_t place;
    if (!hop) {
        madi_link_down(link, MAD_ERR_NOMEM, "no memory for a hop");
        return MADI_PLACE_DROP;
    }
    hop->in_began = madi_trace_now();
    place = fragment_begin(hop, hdr, rx);
    if (MADI_UNLIKELY(madi_tracing) && place != MADI_PLACE_COPY)
        arrived_trace(hop, hdr, hop->in_began);
    return place;
}

void gw_rx_done(madi_link_t *link, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    gw_hop_t *hop = link->gate->forward;
    gw_t *gw = hop->gw;
    enum gw_in in = hop->in;
    gw_frag_t *frag = hop->in_frag;
    gw_side_t *side = hop->in_side;
    madi_rx_t whole_rx = {0};
    (void)rx;
    if (MADI_UNLIKELY(madi_tracing))
        arrived_trace(hop, hdr, 0);
    hop->in = GW_IN_NONE;
    hop->in_frag = NULL;
    if (in == GW_IN_END) {
        if (side)
            gw_end_packet_done(hop);
    } else if (in == GW_IN_TRANSIT && !side) {
        gw_frag_free(gw, frag); /* its stream has ended meanwhile */
    } else if (in == GW_IN_TRANSIT) {
        gw_transit_fragment(side, frag);
    } else if (in == GW_IN_WHOLE) {
        whole_rx.head = madi_foreign_of(frag->body);
        whole_rx.here = hdr->length;
        if ((hdr->flags & MADI_FORWARD_KIND) != MADI_FORWARD_PACKET)
            control_handle(hop, side, hdr, frag->body);
        else if (side && side->end)
            gw_end_packet(hop, side, hdr, &whole_rx);
        gw_frag_free(gw, frag);
    }
}
