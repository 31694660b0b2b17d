/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that pass through this process: they are opened towards the next process on the path, and their fragments are
 * passed on unchanged. */
#include "gateway/gateway.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Opening ---------------------------------------------------------------------------------------------------- */

void gw_refuse(gw_hop_t *hop, const madi_wire_hdr_t *hdr, enum madi_close_what what, mad_status_t status, const char *text)
{
    struct {
        madi_wire_forward_t forward;
        madi_wire_close_t close;
        char text[GW_TEXT];
    } body = {.close = {.status = status, .what = what}};
    madi_wire_hdr_t out = {.type = MADI_WIRE_FORWARD, .flags = MADI_FORWARD_CLOSE, .aux = hdr->aux};
    size_t len = strnlen(text, GW_TEXT);
    memcpy(body.text, text, len);
    out.length = (uint32_t)(offsetof(__typeof__(body), text) + len);
    GW_COUNT(hop->gw, streams_refused, 1);
    if (madi_ledger_line(hop->gw->base.session, MADI_LOG_INFO))
        madi_log(MADI_LOG_INFO, "virtual", "a stream is refused: %s", text);
    madi_gate_ctrl(hop->gate, &out, &body);
}

static int peer_host(const madi_gate_t *gate)
{
    return gw_host_of(gw_of_session(gate->session), madi_peer_address(gate->session, gate->peer), NULL);
}

/* Make a transit.  address_len: length of the destination's address, which the outgoing OPEN repeats. */
static gw_transit_t *transit_new(gw_t *gw, size_t address_len)
{
    gw_transit_t *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->gw = gw;
    t->side[0].transit = t->side[1].transit = t;
    if (!gw_credit_open(&t->side[0], 0)) {
        free(t);
        return NULL;
    }
    if (!gw_credit_open(&t->side[1], sizeof(madi_wire_forward_t) + sizeof(madi_wire_open_t) + address_len)) {
        gw_credit_close(&t->side[0]);
        free(t);
        return NULL;
    }
    t->next = gw->transits;
    gw->transits = t;
    gw->n_transits++;
    GW_COUNT(gw, streams_opened, 1);
    return t;
}

/* Return the number of gateways that may follow this one.  The number of these gateways is limited, because a peer that
 * requests more could make gateways pass its stream around for long. */
static uint16_t gateways_allowed(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    if (hdr->channel <= GW_HOPS)
        return (uint16_t)(hdr->channel - 1);
    if (!hop->over_logged)
        madi_log(MADI_LOG_WARN, "virtual",
                 "peer %d opens a stream on which %u gateways may follow: %d follow at most (logged once per peer; the peer "
                 "has an error, or attacks)",
                 hop->gate->peer, (unsigned)hdr->channel, GW_HOPS);
    hop->over_logged = true;
    return GW_HOPS - 1;
}

/* Choose the gate by which a stream continues.  On failure reason says why. */
static mad_status_t next_gate_choose(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open,
                                     const unsigned char *address, madi_gate_t **gate, bool *direct, char *reason)
{
    gw_t *gw = hop->gw;
    gw_avoid_t lost = {.lost = open->turn > 0}; /* a stream that has lost its path needs another one immediately */
    mad_status_t status;
    if (!gw->forwards || gw->draining || !hdr->channel) {
        snprintf(reason, MADI_REASON_MAX, "%s",
                 !hdr->channel   ? "the path is too long"
                 : !gw->forwards ? "this host does not forward"
                                 : "this gateway is about to end, it takes no new streams");
        return MAD_ERR_UNREACHABLE;
    }
    gw->asker = hop;
    gw->asker_claims = false;
    /* If the only other path leads back, lost processes are dialled again.  Otherwise two gateways that have both lost
     * the next one would pass streams to each other, and never find out that the next gateway has come back. */
    status = lost.lost ? gw_next_gate(gw, hop->gate->lane, address, &lost, gate, direct, reason) : MAD_ERR_UNREACHABLE;
    if (status || *gate == hop->gate) {
        reason[0] = 0;
        status = gw_next_gate(gw, hop->gate->lane, address, NULL, gate, direct, reason);
    }
    gw->asker = NULL;
    return status;
}

/* Refuse a stream that cannot continue.  t: the stream as far as it was opened; NULL if it was not opened. */
static void stream_refuse(gw_hop_t *hop, const madi_wire_hdr_t *hdr, gw_transit_t *t, mad_status_t status, bool gone,
                          const char *reason)
{
    gw_t *gw = hop->gw;
    char text[GW_TEXT + 1];
    snprintf(text, sizeof text, "%s: %.100s", madi_map_name(gw->map, gw->host), reason);
    if (t) {
        t->closed[0] = t->closed[1] = true;
        gw->closing++;
        gw_later(gw);
    }
    gw_refuse(hop, hdr, gone ? MADI_CLOSE_GONE : MADI_CLOSE_WAY, status, text);
}

static void open_forward(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open,
                         const unsigned char *address, size_t len)
{
    gw_t *gw = hop->gw;
    char reason[MADI_REASON_MAX] = "";
    madi_gate_t *gate = NULL;
    madi_wire_open_t on = *open;
    bool direct = false;
    mad_status_t status = next_gate_choose(hop, hdr, open, address, &gate, &direct, reason);
    gw_dial_t *dial = gw->asker_claims ? gw_dial_new(hop, hdr->aux, direct) : NULL;
    gw_transit_t *t;
    gw_hop_t *next;

    gw->asker_claims = false;
    if (status && dial) {
        gw_dial_failed(dial);
        return;
    }
    if (status) {
        stream_refuse(hop, hdr, NULL, status, direct, reason[0] ? reason : mad_status_text(status));
        return;
    }
    t = transit_new(gw, len);
    if (!t) {
        stream_refuse(hop, hdr, NULL, MAD_ERR_NOMEM, false, "no room for one more stream; see MAD_FORWARD_BUDGET");
        return;
    }
    next = gw_hop_get(gw, gate);
    if (!next || next == hop || !gw_side_open(&t->side[0], hop, &hdr->aux) || !gw_side_open(&t->side[1], next, NULL)) {
        stream_refuse(hop, hdr, t, next == hop ? MAD_ERR_PEER /* the nearer processes are lost */ : MAD_ERR_UNREACHABLE,
                      false, next == hop ? "the path leads back" : mad_status_text(MAD_OK));
        return;
    }
    if (dial && atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        gw_dial_follow(dial, t);
    t->direct = direct;
    t->side[0].tx_limit = open->limit;
    t->side[1].tx_limit = GW_FIRST;
    gw_credit_first(&t->side[0]);
    on.limit = t->side[1].rx_limit;
    t->route = gw_route_open(gw, gw_lane_of(gw, hop->gate->lane), peer_host(hop->gate), peer_host(next->gate),
                             gw_host_of(gw, address, NULL), true);
    gw_side_send_control(&t->side[1], hdr->flags & MADI_FORWARD_KIND, gateways_allowed(hop, hdr), &on, sizeof on, address,
                         len);
}

/* True if the peer may open one more stream through this process. */
static bool peer_may_open(gw_hop_t *hop)
{
    bool may = madi_charge(hop->gate, MADI_CHARGE_STREAMS, 1);
    if (may)
        madi_uncharge(hop->gate, MADI_CHARGE_STREAMS, 1); /* gw_side_open charges it */
    else
        madi_ledger_refused(hop->gate, MADI_CHARGE_STREAMS);
    return may;
}

void gw_open_arrived(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const unsigned char *body)
{
    size_t before = sizeof(madi_wire_forward_t) + sizeof(madi_wire_open_t), len;
    const unsigned char *address = body + before;
    madi_wire_open_t open;
    if (hdr->length <= before || madi_address_check(address, hdr->length - before, &len) || len != hdr->length - before ||
        !gw_label_new(hop, hdr)) {
        madi_link_down(hop->gate->link, MAD_ERR_PROTOCOL, "a malformed OPEN of a stream");
        return;
    }
    memcpy(&open, body + sizeof(madi_wire_forward_t), sizeof open);
    if (!peer_may_open(hop))
        gw_refuse(hop, hdr, MADI_CLOSE_WAY, MAD_ERR_NOMEM, "too many streams are open from this peer");
    else if (!memcmp(madi_address_uid(address), hop->gw->base.session->uid, 16))
        gw_end_open(hop, hdr, &open);
    else
        open_forward(hop, hdr, &open, address, len);
}

/* ---- Fragments -------------------------------------------------------------------------------------------------- */

static uint8_t outgoing_flags(const gw_side_t *out, const madi_wire_hdr_t *hdr)
{
    return (uint8_t)((hdr->flags & MADI_FORWARD_KIND) | (out->opener ? MADI_FORWARD_OPENER : 0));
}

bool gw_transit_now(gw_side_t *from, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    gw_side_t *out = gw_transit_other(from);
    gw_hop_t *hop = out->hop;
    gw_t *gw = from->transit->gw;
    uint32_t cost = gw_cost(hdr->length);
    madi_wire_hdr_t on = *hdr;
    struct iovec vec[2] = {{&on, sizeof on}, {madi_foreign_pass_on(body), hdr->length}};
    madi_link_t *link;
    bool sent = false;
    int64_t began = madi_trace_now();

    if (!hop)
        return false;
    on.aux = out->label;
    on.flags = outgoing_flags(out, hdr);
    madi_lock(&hop->gate->tx_lock);
    link = hop->gate->link;
    if (!out->queue && !hop->active && !madi_ctrl_waits(hop->gate) && gw_side_may_send(out, hdr, cost) &&
        atomic_load_explicit(&hop->gate->state, memory_order_relaxed) == MADI_GATE_UP &&
        sizeof on + hdr->length <= link->adapter->caps.packet_max)
        sent = link->driver->send(link, vec, 2, sizeof on + hdr->length, NULL) == MADI_SENT;
    if (MADI_UNLIKELY(madi_tracing) && sent)
        gw_trace(MADI_TRACE_FRAGMENT_OUT, began, 0, out, hdr->length);
    if (sent && gw_costs(hdr))
        gw_side_sent(out, hdr, cost);
    madi_unlock(&hop->gate->tx_lock);
    if (!sent)
        return false;
    GW_COUNT(gw, fragments, 1);
    GW_COUNT(gw, bytes, hdr->length);
    if (gw_costs(hdr)) {
        gw_credit_back(from, cost);
        gw_credit_send_due(gw);
    }
    return true;
}

void gw_transit_fragment(gw_side_t *from, gw_frag_t *frag)
{
    gw_side_t *out = gw_transit_other(from);
    gw_t *gw = from->transit->gw;
    gw_hop_t *hop = out->hop;
    uint32_t cost = frag->cost;
    madi_link_t *link = hop ? hop->gate->link : NULL;
    if (!hop || hop->down ||
        (link && atomic_load_explicit(&link->state, memory_order_relaxed) == MADI_LINK_UP &&
         sizeof frag->hdr + frag->hdr.length > link->adapter->caps.chunk_max)) {
        bool costly = gw_costs(&frag->hdr);
        gw_frag_free(gw, frag);
        if (costly)
            gw_credit_back(from, cost);
        if (hop && !hop->down)
            gw_transit_fail(from->transit, MAD_ERR_UNSUPPORTED,
                            "fragments of this length cannot be forwarded: the hosts' topology files differ");
        gw_credit_send_due(gw);
        return;
    }
    frag->hdr.flags = outgoing_flags(out, &frag->hdr);
    frag->hdr.aux = out->label;
    GW_COUNT(gw, fragments, 1);
    GW_COUNT(gw, bytes, frag->hdr.length);
    gw_side_put(out, frag);
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

static void transit_closed(gw_transit_t *t, int i, const madi_wire_close_t *c, const char *text)
{
    gw_side_t *other = &t->side[!i];
    if (t->closed[i])
        return;
    t->closed[i] = true;
    if (other->hop && !other->hop->down)
        gw_side_pass_close(other, c, text);
    else if (!t->closed[!i])
        t->closed[!i] = true;
    if (t->closed[!i]) {
        t->gw->closing++;
        gw_later(t->gw);
    }
}

void gw_transit_closed(gw_side_t *from, const madi_wire_close_t *c, const char *text)
{
    transit_closed(from->transit, from == &from->transit->side[1], c, text);
}

/* End a stream whose dial has failed, without a report.  The opener of the stream is refused later (gw_dial_failed). */
static void transit_silence(gw_transit_t *t)
{
    gw_dial_t *dial = t->dial;
    bool over = t->closed[0] && t->closed[1];
    gw_dial_leave(t);
    if (t->side[0].hop && !t->closed[0])
        gw_dial_failed(dial);
    gw_side_close(&t->side[0]);
    t->closed[0] = t->closed[1] = true;
    if (!over)
        t->gw->closing++;
    gw_later(t->gw);
}

void gw_transit_lost(gw_side_t *side, const char *text)
{
    gw_transit_t *t = side->transit;
    char why[GW_TEXT + 1];
    snprintf(why, sizeof why, "the gateway %s: %.120s", madi_map_name(t->gw->map, t->gw->host), text);
    bool never = side == &t->side[1] && t->direct && gw_nobody_there(side->hop->gate);
    madi_wire_close_t c = {.status = MAD_ERR_PEER, .what = never ? MADI_CLOSE_GONE : MADI_CLOSE_WAY};
    gw_side_close(side);
    if (side == &t->side[1] && t->dial) {
        transit_silence(t);
        return;
    }
    transit_closed(t, side == &t->side[1], &c, why);
}

void gw_transit_fail(gw_transit_t *t, mad_status_t status, const char *text)
{
    for (int i = 0; i < 2; i++)
        if (t->side[i].hop && !t->side[i].hop->down)
            gw_side_send_close(&t->side[i], MADI_CLOSE_LINK, status, text);
}

int gw_transits_reap(gw_t *gw, bool all)
{
    int n = 0;
    for (gw_transit_t **p = &gw->transits, *t; (gw->closing || all) && (t = *p);) {
        bool busy = !t->closed[0] || !t->closed[1];
        for (int i = 0; i < 2; i++)
            busy |= t->side[i].credit_due || atomic_load_explicit(&t->side[i].in_flight, memory_order_relaxed) ||
                    (t->side[i].hop && !t->side[i].hop->down && t->side[i].queue);
        if (busy && !all) {
            p = &t->next;
            continue;
        }
        *p = t->next;
        gw_dial_leave(t);
        for (int i = 0; i < 2; i++) {
            gw_side_close(&t->side[i]);
            gw_credit_close(&t->side[i]);
        }
        gw_route_close(t->route, &t->side[1], &t->side[0]);
        gw->closing -= gw->closing > 0;
        gw->n_transits--;
        free(t);
        n++;
    }
    return n;
}
