/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that arrive by rails: counted, and passed to the core as packets of the rails' link.  Under session->lock. */
#include "base/clock.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/rails/rails.h"

#include <string.h>

#define REPORT_PACKETS 64        /* number of packets after which ACK reports the count */
#define REPORT_BYTES (64 * 1024) /* bytes, likewise */

static madi_rails_t *rails_of(const madi_link_t *inner)
{
    return (madi_rails_t *)inner->outer;
}

static rail_t *rail_of(madi_rails_t *w, const madi_link_t *inner)
{
    rail_t *r = w->rail;
    while (r->link != inner)
        if (++r == w->rail + MADI_RAILS_MOST)
            return NULL;
    return r;
}

/* ---- Counts --------------------------------------------------------------------------------------------------- */

/* Count a packet that has arrived whole.  Handling the packet may have closed the rails. */
static void packet_count(madi_rails_t *w, rail_t *r, const madi_wire_hdr_t *hdr)
{
    bool soon = hdr->type == MADI_WIRE_DATA || (hdr->type == MADI_WIRE_MSG && hdr->flags & MADI_WIRE_CONT);
    r->partial = false;
    r->piece = 0;
    if (!w->rx_on && !r->id) /* before BEGIN, packets of the first rail are not counted */
        return;
    r->n_received++;
    r->unreported += hdr->length;
    r->heard_at = madi_now();
    if (hdr->type == MADI_WIRE_DATA)
        r->bytes_in += hdr->length;
    if (w->closed || r->state != RAIL_UP)
        return;
    if (!soon && r->n_received - r->n_reported < REPORT_PACKETS && r->unreported < REPORT_BYTES)
        return;
    madi_lock(&w->base.gate->tx_lock);
    madi_rail_report(r);
    if (r->ack_due)
        madi_gate_work(w->base.gate);
    madi_unlock(&w->base.gate->tx_lock);
}

/* ---- Control packets of rails --------------------------------------------------------------------------------- */

static void rails_breach(madi_rails_t *w, const char *text)
{
    madi_link_down(&w->base, MAD_ERR_PROTOCOL, text);
}

/* Handle BEGIN: the peer counts its packets from here on.  Answer with BEGIN, and start connecting further rails. */
static void begin_arrived(madi_rails_t *w, rail_t *r)
{
    if (w->rx_on) {
        rails_breach(w, "rails begin twice");
        return;
    }
    w->rx_on = true;
    r->heard_at = madi_now();
    madi_lock(&w->base.gate->tx_lock);
    if (!w->tx_on) {
        r->begin_due = true;
        madi_rail_pump(w, r);
    }
    madi_unlock(&w->base.gate->tx_lock);
    if (w->dials)
        madi_rails_dial_soon(w, madi_now());
}

/* Handle JOIN, with the number of the rail.  Close the rail if the peer has already given it up. */
static void join_arrived(madi_rails_t *w, rail_t *r, uint32_t id)
{
    if (r->state != RAIL_JOINS || w->dials || !id) {
        rails_breach(w, "a rail joins twice");
        return;
    }
    if (madi_rail_is_settled(w, id)) {
        madi_rail_broke(w, r, MAD_ERR_CANCELLED, "the peer has given it up");
        return;
    }
    madi_lock(&w->base.gate->tx_lock);
    r->id = id;
    r->state = RAIL_UP;
    madi_unlock(&w->base.gate->tx_lock);
    r->heard_at = madi_now();
    madi_gate_work(w->base.gate);
}

static void ack_arrived(madi_rails_t *w, rail_t *r, uint32_t count)
{
    rails_out_t *done = NULL;
    bool good;
    madi_lock(&w->base.gate->tx_lock);
    good = madi_rail_acknowledged(w, r, count, &done);
    r->asked_at = 0;
    madi_unlock(&w->base.gate->tx_lock);
    madi_rails_complete(done, MAD_OK);
    if (!good)
        rails_breach(w, "an acknowledgement of packets that were not sent");
    else
        madi_gate_work(w->base.gate);
}

static void control_arrived(madi_rails_t *w, rail_t *r, const madi_wire_hdr_t *hdr)
{
    if (!w->rx_on && hdr->flags != MADI_RAIL_BEGIN && r == w->rail) {
        rails_breach(w, "a packet of rails that have not begun");
        return;
    }
    r->heard_at = madi_now();
    switch (hdr->flags) {
    case MADI_RAIL_BEGIN: begin_arrived(w, r); break;
    case MADI_RAIL_JOIN: join_arrived(w, r, hdr->aux); break;
    case MADI_RAIL_ACK: ack_arrived(w, r, hdr->seq); break;
    case MADI_RAIL_ASK:
        madi_lock(&w->base.gate->tx_lock);
        madi_rail_report(r);
        madi_rail_pump(w, r);
        madi_unlock(&w->base.gate->tx_lock);
        break;
    case MADI_RAIL_END: r->ends = true; break;
    case MADI_RAIL_LOST:
        packet_count(w, r, hdr);
        madi_rail_settle(w, hdr->aux, hdr->seq);
        break;
    default: rails_breach(w, "a packet of rails of unknown kind"); break;
    }
}

/* ---- Packets of the core --------------------------------------------------------------------------------------- */

/* True if a packet may arrive by this rail now; otherwise end the rails.  Packets other than pieces arrive one after the
 * other even if they use different rails, because the peer changes the rail only when all of them have arrived. */
static bool packet_admit(madi_rails_t *w, const rail_t *r, const madi_wire_hdr_t *hdr)
{
    if (r->state != RAIL_UP) {
        rails_breach(w, "a packet of a rail that has not joined");
        return false;
    }
    for (const rail_t *other = w->rail; other < w->rail + MADI_RAILS_MOST; other++)
        if (other != r && other->partial && hdr->type != MADI_WIRE_DATA) {
            rails_breach(w, "a packet by one rail within that of another one");
            return false;
        }
    return true;
}

/* ---- Upcalls of the rails' drivers ----------------------------------------------------------------------------- */

static madi_place_t rail_rx_begin(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_rails_t *w = rails_of(inner);
    rail_t *r = rail_of(w, inner);
    bool lends = inner == w->lender && madi_foreign_is_set(rx->loan);
    madi_place_t place;
    if (!r || w->closed)
        return MADI_PLACE_DROP;
    if (hdr->type == MADI_WIRE_RAIL) {
        if (!hdr->length)
            return MADI_PLACE_COPY; /* no destination is set, because the body is empty */
        rails_breach(w, "a packet of rails with a body");
        return MADI_PLACE_DROP;
    }
    if (!packet_admit(w, r, hdr))
        return MADI_PLACE_DROP;
    if (lends) /* the loan is counted first, because the core may return it during the call */
        atomic_fetch_add_explicit(&inner->loans, 1, memory_order_relaxed);
    else
        rx->loan = (madi_foreign_t){0};
    place = madi_rx_begin(&w->base, hdr, rx);
    if (lends && place != MADI_PLACE_KEEP)
        atomic_fetch_sub_explicit(&inner->loans, 1, memory_order_relaxed);
    if (place == MADI_PLACE_COPY && hdr->type == MADI_WIRE_DATA) {
        r->piece = hdr->aux;
        r->piece_len = hdr->length;
    } else if (place == MADI_PLACE_COPY)
        r->partial = true;
    else if (place != MADI_PLACE_LATER)
        packet_count(w, r, hdr);
    return place;
}

static void rail_rx_done(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    madi_rails_t *w = rails_of(inner);
    rail_t *r = rail_of(w, inner);
    if (!r || w->closed)
        return;
    if (hdr->type == MADI_WIRE_RAIL) {
        control_arrived(w, r, hdr);
        return;
    }
    madi_rx_done(&w->base, hdr, rx);
    packet_count(w, r, hdr);
}

static void rail_rx_short(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    madi_rails_t *w = rails_of(inner);
    rail_t *r = rail_of(w, inner);
    if (!r || w->closed)
        return;
    if (hdr->type == MADI_WIRE_RAIL) {
        if (hdr->length)
            rails_breach(w, "a packet of rails with a body");
        else
            control_arrived(w, r, hdr);
        return;
    }
    if (!packet_admit(w, r, hdr))
        return;
    madi_rx_short(&w->base, hdr, body);
    packet_count(w, r, hdr);
}

static void rail_link_up(madi_link_t *inner)
{
    (void)inner; /* nothing to do, because a link is up before it becomes a rail */
}

static void rail_link_down(madi_link_t *inner, mad_status_t status, const char *text)
{
    madi_rails_t *w = rails_of(inner);
    rail_t *r = rail_of(w, inner);
    if (r && !w->closed)
        madi_rail_broke(w, r, status, text);
}

static void rail_link_writable(madi_link_t *inner)
{
    madi_link_writable(inner->outer);
}

const madi_upcalls_t madi_rails_upcalls = {
    .rx_begin = rail_rx_begin,
    .rx_done = rail_rx_done,
    .rx_short = rail_rx_short,
    .link_up = rail_link_up,
    .link_down = rail_link_down,
    .link_writable = rail_link_writable,
};
