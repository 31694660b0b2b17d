/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that pass through: opened towards the next process on the way, and their fragments sent on as they came. */
#include "gateway/gateway.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

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
    hop->gw->refused++;
    madi_log(MADI_LOG_INFO, "virtual", "a stream is refused: %s", text);
    madi_gate_ctrl(hop->gate, &out, &body);
}

static int peer_host(const madi_gate_t *gate)
{
    return gw_host_of(gw_of_session(gate->session), madi_peer_address(gate->session, gate->peer), NULL);
}

static gw_transit_t *transit_new(gw_t *gw)
{
    gw_transit_t *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->gw = gw;
    t->side[0].transit = t->side[1].transit = t;
    if (!gw_credit_open(&t->side[0])) {
        free(t);
        return NULL;
    }
    if (!gw_credit_open(&t->side[1])) {
        gw_credit_close(&t->side[0]);
        free(t);
        return NULL;
    }
    t->next = gw->transits;
    gw->transits = t;
    gw->n_transits++;
    gw->opened++;
    return t;
}

/* Number of gateways that may follow after this one.  A peer that names more than a way can have would let gateways hand its
 * stream to each other for as long. */
static uint16_t followers(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    if (hdr->channel <= GW_HOPS)
        return (uint16_t)(hdr->channel - 1);
    if (!hop->over_told)
        madi_log(MADI_LOG_WARN, "virtual",
                 "peer %d opens a stream on which %u gateways may follow: %d follow at most (said once of each peer; an error of "
                 "the peer's, or an attack)",
                 hop->gate->peer, (unsigned)hdr->channel, GW_HOPS);
    hop->over_told = true;
    return GW_HOPS - 1;
}

static void pass_on(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const madi_wire_open_t *open, const unsigned char *address,
                    size_t len)
{
    gw_t *gw = hop->gw;
    gw_avoid_t lost = {.lost = open->turn > 0}; /* who has lost a way needs another at once */
    char reason[MADI_REASON_MAX] = "", text[GW_TEXT + 1];
    madi_gate_t *gate = NULL;
    mad_status_t status = hdr->channel ? MAD_OK : MAD_ERR_UNREACHABLE;
    gw_transit_t *t = NULL;
    gw_hop_t *next;
    madi_wire_open_t on = *open;
    bool direct = false;

    if (!gw->forwards || gw->draining)
        status = MAD_ERR_UNREACHABLE;
    /* If that is only back, who was lost is called again: else two that each have lost the next send streams to each other,
     * and nobody would ever find out that the lost ones are there. */
    if (!status && (!lost.lost || gw_next_gate(gw, hop->gate->lane, address, &lost, &gate, &direct, reason) ||
                    gate == hop->gate)) {
        reason[0] = 0;
        status = gw_next_gate(gw, hop->gate->lane, address, NULL, &gate, &direct, reason);
    } else if (status) {
        snprintf(reason, sizeof reason, "%s",
                 !gw->forwards  ? "this host does not forward"
                 : gw->draining ? "this gateway is about to end, it takes no new streams"
                                : "the way is too long");
    }
    if (!status && !(t = transit_new(gw))) {
        status = MAD_ERR_NOMEM;
        snprintf(reason, sizeof reason, "no room for one more stream; see MAD_FORWARD_BUDGET");
    }
    next = t ? gw_hop_get(gw, gate) : NULL;
    if (status || !next || next == hop || !gw_side_open(&t->side[0], hop, &hdr->aux) ||
        !gw_side_open(&t->side[1], next, NULL)) {
        snprintf(text, sizeof text, "%s: %.100s", madi_map_name(gw->map, gw->host),
                 reason[0] ? reason : next == hop ? "the way leads back" : mad_status_text(status));
        if (t) {
            t->closed[0] = t->closed[1] = true;
            gw->closing++;
            gw_later(gw);
        }
        gw_refuse(hop, hdr, status && direct ? MADI_CLOSE_GONE : MADI_CLOSE_WAY,
                  status         ? status
                  : next == hop ? MAD_ERR_PEER /* others, that would be nearer, are lost */
                                : MAD_ERR_UNREACHABLE,
                  text);
        return;
    }
    t->direct = direct;
    t->side[0].tx_limit = open->limit;
    t->side[1].tx_limit = GW_FIRST;
    gw_credit_first(&t->side[0]);
    on.limit = t->side[1].rx_limit;
    t->route = gw_route_open(gw, gw_lane_of(gw, hop->gate->lane), peer_host(hop->gate), peer_host(next->gate),
                             gw_host_of(gw, address, NULL), true);
    gw_side_say(&t->side[1], hdr->flags & MADI_FORWARD_KIND, followers(hop, hdr), &on, sizeof on, address, len);
}

void gw_open_came(gw_hop_t *hop, const madi_wire_hdr_t *hdr, const unsigned char *body)
{
    size_t before = sizeof(madi_wire_forward_t) + sizeof(madi_wire_open_t), len;
    const unsigned char *address = body + before;
    madi_wire_open_t open;
    if (hdr->length <= before || madi_address_check(address, hdr->length - before, &len) || len != hdr->length - before ||
        !gw_label_new(hop, hdr)) {
        madi_link_down(hop->gate->link, MAD_ERR_PROTOCOL, "a stream that nobody can open");
        return;
    }
    memcpy(&open, body + sizeof(madi_wire_forward_t), sizeof open);
    if (!memcmp(madi_address_uid(address), hop->gw->base.session->uid, 16))
        gw_end_open(hop, hdr, &open);
    else
        pass_on(hop, hdr, &open, address, len);
}

/* ---- Fragments --------------------------------------------------------------------------------------------------- */

static uint8_t flags_on(const gw_side_t *out, const madi_wire_hdr_t *hdr)
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
    on.flags = flags_on(out, hdr);
    madi_lock(&hop->gate->tx_lock);
    link = hop->gate->link;
    if (!out->queue && !hop->active && !hop->gate->ctrl && gw_side_may(out, hdr, cost) &&
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
    gw->fragments++;
    gw->bytes += hdr->length;
    if (gw_costs(hdr)) {
        gw_credit_back(from, cost);
        gw_credit_tell(gw);
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
                            "fragments of this length cannot go on: the hosts' topology files differ");
        gw_credit_tell(gw);
        return;
    }
    frag->hdr.flags = flags_on(out, &frag->hdr);
    frag->hdr.aux = out->label;
    gw->fragments++;
    gw->bytes += frag->hdr.length;
    gw_side_put(out, frag);
}

/* ---- The end ------------------------------------------------------------------------------------------------------ */

static void closed(gw_transit_t *t, int i, const madi_wire_close_t *c, const char *text)
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
    closed(from->transit, from == &from->transit->side[1], c, text);
}

void gw_transit_lost(gw_side_t *side, const char *text)
{
    gw_transit_t *t = side->transit;
    char why[GW_TEXT + 1];
    snprintf(why, sizeof why, "the gateway %s: %.120s", madi_map_name(t->gw->map, t->gw->host), text);
    bool never = side == &t->side[1] && t->direct && gw_nobody_there(side->hop->gate);
    madi_wire_close_t c = {.status = MAD_ERR_PEER, .what = never ? MADI_CLOSE_GONE : MADI_CLOSE_WAY};
    gw_side_close(side);
    closed(t, side == &t->side[1], &c, why);
}

void gw_transit_fail(gw_transit_t *t, mad_status_t status, const char *text)
{
    for (int i = 0; i < 2; i++)
        if (t->side[i].hop && !t->side[i].hop->down)
            gw_side_say_close(&t->side[i], MADI_CLOSE_LINK, status, text);
}

int gw_transits_reap(gw_t *gw, bool all)
{
    int n = 0;
    for (gw_transit_t **p = &gw->transits, *t; (gw->closing || all) && (t = *p);) {
        bool busy = !t->closed[0] || !t->closed[1];
        for (int i = 0; i < 2; i++)
            busy |= t->side[i].tells || atomic_load_explicit(&t->side[i].in_flight, memory_order_relaxed) ||
                    (t->side[i].hop && !t->side[i].hop->down && t->side[i].queue);
        if (busy && !all) {
            p = &t->next;
            continue;
        }
        *p = t->next;
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
