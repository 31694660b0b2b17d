/* SPDX-License-Identifier: BSD-3-Clause */
/* A gate that carries fragments: the streams on it, and outgoing fragments, which are queued by stream and sent
 * in turn.  Incoming fragments are in arrive.c. */
#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>

#define POOL 64 /* maximum number of free fragments of full size that are kept */

static gw_hop_t *hop_of(const madi_gate_t *gate)
{
    return gate->forward;
}

/* ---- Hops and their streams ------------------------------------------------------------------------------------- */

gw_hop_t *gw_hop_get(gw_t *gw, madi_gate_t *gate)
{
    gw_hop_t *hop = gate->forward;
    unsigned flags;
    if (hop)
        return hop;
    hop = calloc(1, sizeof *hop);
    if (!hop)
        return NULL;
    hop->gate = gate;
    hop->gw = gw;
    hop->active_tail = &hop->active;
    flags = gw_flags_of(gw, madi_peer_address(gw->base.session, gate->peer));
    hop->forwards = flags & GW_FORWARDS;
    hop->answers = flags & GW_ANSWERS;
    hop->network = madi_gate_adapter(gate) ? gw_network(gate) : NULL;
    hop->next = gw->hops;
    gw->hops = hop;
    madi_lock(&gate->tx_lock);
    gate->forward = hop;
    madi_unlock(&gate->tx_lock);
    return hop;
}

bool gw_side_open(gw_side_t *side, gw_hop_t *hop, const uint32_t *label)
{
    if (hop->down || (label && !madi_charge(hop->gate, MADI_CHARGE_STREAMS, 1)))
        return false;
    side->label = label ? *label : hop->n_labels[1];
    side->opener = !label;
    if (!gw_label_put(hop, side)) {
        if (label)
            madi_uncharge(hop->gate, MADI_CHARGE_STREAMS, 1);
        return false;
    }
    side->hop = hop;
    side->queue_tail = &side->queue;
    side->tx_limit = UINT64_MAX;
    return true;
}

static void side_deactivate(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    for (gw_side_t **p = &hop->active; *p; p = &(*p)->next_active)
        if (*p == side) {
            *p = side->next_active;
            if (!*p)
                hop->active_tail = p;
            break;
        }
    side->active = false;
}

void gw_side_drop(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    gw_frag_t *list, *frag;
    madi_lock(&hop->gate->tx_lock);
    list = side->queue;
    side->queue = NULL;
    side->queue_tail = &side->queue;
    side->queued = 0;
    side->queued_bytes = 0;
    if (side->active)
        side_deactivate(side);
    gw_side_goes(side);
    madi_unlock(&hop->gate->tx_lock);
    while ((frag = list)) {
        list = frag->next;
        side->in_flight++;
        gw_frag_done(&frag->op, MAD_ERR_PEER);
    }
}

void gw_side_close(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    if (!hop)
        return;
    gw_label_drop(hop, side);
    if (!side->opener)
        madi_uncharge(hop->gate, MADI_CHARGE_STREAMS, 1);
    if (hop->in_side == side)
        hop->in_side = NULL; /* discard the rest of the fragment being received */
    gw_side_drop(side);
    side->hop = NULL;
}

/* ---- Fragments -------------------------------------------------------------------------------------------------- */

/* Create a fragment.  Memory of long fragments is pooled.  Shorter ones are not pooled, because a pooled buffer is larger
 * than the amount that is charged for them. */
gw_frag_t *gw_frag_new(gw_t *gw, uint32_t len)
{
    size_t room = gw->fragment + MADI_FORWARD_HEAD;
    bool full = len > GW_FRAGMENT_LEAST && len > room - room / 8 && len <= room;
    gw_frag_t *frag = full && gw->pool ? gw->pool : malloc(sizeof *frag + (full ? room : len));
    if (!frag)
        return NULL;
    if (frag == gw->pool) {
        gw->pool = frag->next;
        gw->n_pool--;
    }
    memset(frag, 0, sizeof *frag);
    frag->op.done = gw_frag_done;
    frag->pooled = full;
    frag->cost = gw_cost(len);
    frag->hdr.type = MADI_WIRE_FORWARD;
    frag->hdr.length = len;
    frag->n = 1;
    frag->vec[0] = (struct iovec){&frag->hdr, sizeof frag->hdr + len};
    gw->held += frag->cost;
    if (gw->held > gw->held_most)
        gw->held_most = gw->held;
    if (++gw->n_held > gw->n_held_most)
        gw->n_held_most = gw->n_held;
    return frag;
}

void gw_frag_free(gw_t *gw, gw_frag_t *frag)
{
    gw->held -= frag->cost;
    gw->n_held--;
    if (frag->lender) {
        frag->lender->driver->fast.slot_put(frag->lender, frag->loan);
        atomic_fetch_sub_explicit(&frag->lender->loans, 1, memory_order_release); /* pairs with madi_links_reap */
    }
    if (!frag->pooled || gw->n_pool == POOL ||
        gw->held + (gw->n_pool + 1) * (int64_t)(gw->fragment + MADI_FORWARD_HEAD) > gw->budget_all) {
        free(frag);
        return;
    }
    frag->next = gw->pool;
    gw->pool = frag;
    gw->n_pool++;
}

/* Account for a fragment that has left, or that never will.  Under the session's lock. */
static void frag_release(gw_frag_t *frag)
{
    gw_side_t *side = frag->side;
    gw_t *gw = side->end ? side->end->gw : side->transit->gw;
    uint32_t cost = gw_costs(&frag->hdr) ? frag->cost : 0;
    gw_frag_free(gw, frag);
    if (side->transit && cost)
        gw_credit_back(gw_transit_other(side), cost);
    if (side->transit ? gw->closing != 0 : side->old || side->end->dead)
        gw_later(gw);
    side->in_flight--;
}

/* Like frag_release, but for a fragment in the program's memory, which no driver reads any more.  No tx_lock. */
static void user_frag_release(gw_frag_t *frag)
{
    gw_held_t *held = frag->held;
    if (frag->side->old || frag->side->end->dead)
        gw_later(frag->side->end->gw);
    frag->side->in_flight--;
    free(frag);
    gw_held_left(held);
}

/* Complete a fragment: the driver no longer needs it, or it was removed from a queue.  Under the session's lock, no
 * tx_lock. */
void gw_frag_done(madi_op_t *op, mad_status_t status)
{
    gw_frag_t *frag = (gw_frag_t *)op;
    gw_side_t *side = frag->side;
    gw_hop_t *hop = side->hop;
    gw_t *gw = side->end ? side->end->gw : side->transit->gw;
    if (MADI_UNLIKELY(madi_tracing) && frag->taken)
        gw_trace(MADI_TRACE_FRAGMENT_OUT, frag->began, 0, side, frag->hdr.length);
    if (hop && frag->taken)
        atomic_fetch_sub_explicit(&hop->in_flight, 1, memory_order_relaxed);
    if (hop)
        madi_gate_work(hop->gate);
    (void)status; /* gw_path_lost handles the failure of a hop */
    if (frag->held)
        user_frag_release(frag);
    else
        frag_release(frag);
    gw_credit_send_due(gw);
}

/* ---- Outgoing --------------------------------------------------------------------------------------------------- */

bool gw_side_may_send(const gw_side_t *side, const madi_wire_hdr_t *hdr, uint32_t cost)
{
    return !gw_costs(hdr) || side->tx_limit - side->tx_used >= cost;
}

void gw_side_activate(gw_side_t *side)
{
    gw_hop_t *hop = side->hop;
    gw_frag_t *frag = side->queue;
    if (side->active || !frag)
        return;
    if (!gw_side_may_send(side, &frag->hdr, frag->cost)) {
        gw_side_stalls(side);
        return;
    }
    gw_side_goes(side);
    side->active = true;
    side->next_active = NULL;
    *hop->active_tail = side;
    hop->active_tail = &side->next_active;
}

void gw_side_enqueue(gw_side_t *side, gw_frag_t *frag)
{
    frag->side = side;
    frag->next = NULL;
    *side->queue_tail = frag;
    side->queue_tail = &frag->next;
    gw_side_queued(side, frag);
    frag->queued_at = madi_trace_now();
    gw_side_activate(side);
}

/* Trace a fragment that was given to the driver.  The driver may have freed the fragment already, so its values are
 * passed. */
static MADI_COLD void frag_trace(const gw_side_t *side, uint32_t length, int64_t queued_at, int64_t began, madi_sent_t sent)
{
    if (sent == MADI_AGAIN)
        return;
    if (queued_at)
        gw_trace(MADI_TRACE_FRAGMENT_HELD, queued_at, 0, side, length);
    if (sent == MADI_SENT)
        gw_trace(MADI_TRACE_FRAGMENT_OUT, began, 0, side, length);
}

static madi_sent_t frag_send(gw_hop_t *hop, gw_frag_t *frag)
{
    const gw_side_t *side = frag->side;
    int64_t queued_at = frag->queued_at, began = madi_trace_now();
    uint32_t length = frag->hdr.length;
    madi_link_t *link = hop->gate->link;
    size_t total = sizeof frag->hdr + frag->hdr.length;
    madi_sent_t sent;
    frag->began = began;
    frag->taken = true; /* `taken` is set before another thread may complete the fragment */
    atomic_fetch_add_explicit(&hop->in_flight, 1, memory_order_relaxed);
    sent = link->driver->send(link, frag->more ? frag->more : frag->vec, frag->n, total, &frag->op);
    if (sent != MADI_TAKEN) {
        frag->taken = false;
        atomic_fetch_sub_explicit(&hop->in_flight, 1, memory_order_relaxed);
    }
    if (MADI_UNLIKELY(madi_tracing))
        frag_trace(side, length, queued_at, began, sent);
    return sent;
}

/* Send the first fragment of the first active side; false if the link is full.  A sent fragment is added to the list
 * *done. */
static bool first_frag_pump(gw_hop_t *hop, gw_frag_t **done)
{
    gw_side_t *side = hop->active;
    gw_frag_t *frag = side->queue;
    bool costly = gw_costs(&frag->hdr);
    madi_sent_t sent;
    side->in_flight++;
    sent = frag_send(hop, frag);
    if (sent == MADI_AGAIN) {
        side->in_flight--;
        return false;
    }
    if (costly)
        gw_side_sent(side, &frag->hdr, frag->cost);
    hop->active = side->next_active;
    if (!hop->active)
        hop->active_tail = &hop->active;
    side->active = false;
    side->queue = frag->next;
    side->queued--;
    side->queued_bytes -= frag->hdr.length;
    if (!side->queue)
        side->queue_tail = &side->queue;
    gw_side_activate(side); /* behind the other sides */
    if (sent == MADI_SENT) {
        frag->next = *done;
        *done = frag;
    }
    return true;
}

void gw_hop_pump(gw_hop_t *hop)
{
    gw_frag_t *done = NULL, *frag;
    gw_end_t *end;
    bool full = false;
    if (atomic_load_explicit(&hop->gate->state, memory_order_relaxed) != MADI_GATE_UP || madi_ctrl_waits(hop->gate))
        return;
    while (hop->active && !full)
        full = !first_frag_pump(hop, &done);
    if (full && !atomic_load_explicit(&hop->in_flight, memory_order_relaxed)) {
        madi_gate_work(hop->gate);
    } else if (!full) {
        while ((end = hop->refused)) {
            hop->refused = end->next_refused;
            end->refused = false;
            if (end->link)
                madi_link_writable(end->link);
        }
    }
    while ((frag = done)) {
        done = frag->next;
        if (frag->held) { /* such a fragment is completed later, because its completion takes another tx_lock */
            frag->next = hop->gw->sent;
            hop->gw->sent = frag;
            atomic_store_explicit(&hop->gw->unsettled, 1, memory_order_relaxed);
        } else {
            frag_release(frag);
        }
    }
}

madi_sent_t gw_side_send_user(gw_side_t *side, gw_frag_t *frag)
{
    gw_hop_t *hop = side->hop;
    madi_sent_t sent = MADI_AGAIN;
    madi_wire_hdr_t hdr = frag->hdr; /* a copy, because frag may be freed below */
    uint32_t cost = frag->cost;
    frag->side = side;
    side->in_flight++;
    if (!side->queue && !hop->active && !madi_ctrl_waits(hop->gate) && gw_side_may_send(side, &frag->hdr, frag->cost))
        sent = frag_send(hop, frag);
    if (sent != MADI_AGAIN)
        gw_side_sent(side, &hdr, cost);
    if (sent != MADI_TAKEN)
        side->in_flight--;
    if (sent != MADI_AGAIN)
        return sent;
    gw_side_enqueue(side, frag);
    if (side->active)
        madi_gate_work(hop->gate);
    return MADI_TAKEN;
}

static void hop_pump(madi_gate_t *gate)
{
    gw_hop_pump(hop_of(gate));
}

/* fragments: length of a side's queue from which on acknowledgements are left out, because the peer requests them without
 * reading */
#define CROWDED 256

bool gw_side_crowded(gw_side_t *side)
{
    bool crowded;
    madi_lock(&side->hop->gate->tx_lock);
    crowded = side->queued >= CROWDED;
    madi_unlock(&side->hop->gate->tx_lock);
    return crowded;
}

void gw_side_put(gw_side_t *side, gw_frag_t *frag)
{
    gw_hop_t *hop = side->hop;
    gw_t *gw = hop->gw;
    madi_lock(&hop->gate->tx_lock);
    gw_side_enqueue(side, frag);
    gw_hop_pump(hop);
    madi_unlock(&hop->gate->tx_lock);
    gw_settle(gw);
}

void gw_side_send_control(gw_side_t *side, unsigned kind, uint16_t channel, const void *body, size_t len, const void *more,
                          size_t more_len)
{
    gw_t *gw = side->hop->gw;
    gw_frag_t *frag = gw_frag_new(gw, (uint32_t)(sizeof(madi_wire_forward_t) + len + more_len));
    unsigned char *at;
    if (!frag)
        return; /* the other processes notice by deadlines, or by the end of this process */
    memset(frag->body, 0, sizeof(madi_wire_forward_t));
    at = frag->body + sizeof(madi_wire_forward_t);
    if (len)
        memcpy(at, body, len);
    if (more_len)
        memcpy(at + len, more, more_len);
    frag->hdr.flags = (uint8_t)(kind | (side->opener ? MADI_FORWARD_OPENER : 0));
    frag->hdr.channel = channel;
    frag->hdr.aux = side->label;
    gw_side_put(side, frag);
}

void gw_side_pass_close(gw_side_t *side, const madi_wire_close_t *c, const char *text)
{
    gw_side_send_control(side, MADI_FORWARD_CLOSE, 0, c, sizeof *c, text, strnlen(text, GW_TEXT));
}

void gw_side_send_close(gw_side_t *side, enum madi_close_what what, mad_status_t status, const char *text)
{
    madi_wire_close_t c = {.status = status, .what = what};
    if (side->end)
        gw_protect_close(side, &c, text);
    gw_side_pass_close(side, &c, text);
}

/* ---- The end of a hop ------------------------------------------------------------------------------------------- */

/* Release charges to the peer of this hop that would outlive the hop. */
static void uncharge_all(gw_hop_t *hop)
{
    gw_dials_hop_down(hop);
    for (gw_end_t *end = hop->gw->ends; end; end = end->next)
        if (end->charged == hop)
            gw_end_uncharge(end);
}

static void hop_down(madi_gate_t *gate, const char *text)
{
    gw_hop_t *hop = hop_of(gate);
    gw_side_t *side;
    char why[GW_TEXT];
    if (hop->down)
        return;
    hop->down = true;
    uncharge_all(hop);
    snprintf(why, sizeof why, "%s", text);
    if (hop->in_frag)
        gw_frag_free(hop->gw, hop->in_frag);
    hop->in = GW_IN_NONE;
    hop->in_frag = NULL;
    while ((side = gw_sides_next(hop))) {
        if (side->end)
            gw_path_lost(side, MADI_CLOSE_WAY, MAD_ERR_PEER, why);
        else
            gw_transit_lost(side, why);
    }
}

static bool hop_idle(const madi_gate_t *gate)
{
    const gw_hop_t *hop = hop_of(gate);
    return !hop->n_sides[0] && !hop->n_sides[1] && !hop->active && !hop->refused &&
           !atomic_load_explicit(&hop->in_flight, memory_order_relaxed);
}

static void hop_free(madi_gate_t *gate)
{
    gw_hop_t *hop = hop_of(gate);
    gw_t *gw = hop->gw;
    uncharge_all(hop);
    for (gw_hop_t **p = &gw->hops; *p; p = &(*p)->next)
        if (*p == hop) {
            *p = hop->next;
            break;
        }
    gw_labels_free(hop);
    gate->forward = NULL;
    free(hop);
}

static void gateway_leave(mad_session_t *session)
{
    gw_drain(gw_of_session(session));
}

static bool gateway_busy(mad_session_t *session)
{
    return gw_of_session(session)->n_transits > 0;
}

static bool hop_drained(madi_gate_t *gate)
{
    gw_hop_t *hop = hop_of(gate);
    bool empty;
    madi_lock(&gate->tx_lock);
    empty = !hop->active;
    madi_unlock(&gate->tx_lock);
    return empty;
}

const madi_forward_t gw_forward = {.started = gw_started,
                                   .lane = gw_lane,
                                   .lane_name = gw_lane_name,
                                   .lanes = gw_lanes,
                                   .carries = gw_lane_carries,
                                   .agrees = gw_agrees,
                                   .reachable = gw_lane_reachable,
                                   .place = gw_lane_network,
                                   .network = gw_network,
                                   .carried = gw_carried,
                                   .security = gw_security,
                                   .up = gw_gossip_gate_up,
                                   .forget = gw_place_forget,
                                   .rx_begin = gw_rx_begin,
                                   .rx_done = gw_rx_done,
                                   .pump = hop_pump,
                                   .down = hop_down,
                                   .free = hop_free,
                                   .idle = hop_idle,
                                   .leave = gateway_leave,
                                   .busy = gateway_busy,
                                   .drained = hop_drained,
                                   .route = gw_route_text,
                                   .encrypts = gw_link_encrypts,
                                   .write = gw_report,
                                   .write_routes = gw_report_routes,
                                   .traffic = gw_traffic};
