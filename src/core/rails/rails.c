/* SPDX-License-Identifier: BSD-3-Clause */
/* The rails' link: the link that the core uses, made over the first link of a gate, and closed with the gate. */
#include "core/rails/rails.h"
#include "base/clock.h"
#include "base/knob.h"
#include "core/connect/gate.h"
#include "core/link/link.h"
#include "core/object/session.h"
#include "core/rails/session.h"

#include <stdlib.h>
#include <string.h>

/* ---- Made ----------------------------------------------------------------------------------------------------- */

/* Give the rails' link the capabilities of its first rail, within the limits of all adapters that may become further
 * rails. */
static void rails_caps_set(madi_rails_t *w)
{
    madi_caps_t *caps = &w->adapter.caps;
    w->chunk_max = MADI_RAILS_PIECE + sizeof(madi_wire_hdr_t);
    const mad_session_t *s = w->adapter.session;
    for (int i = 0; i < s->n_adapters; i++) {
        const madi_caps_t *other = &s->adapters[i]->caps;
        if (!s->adapters[i]->opened || other->self || other->host)
            continue;
        caps->packet_max = other->packet_max < caps->packet_max ? other->packet_max : caps->packet_max;
        w->chunk_max = other->chunk_max < w->chunk_max ? other->chunk_max : w->chunk_max;
        caps->gather_max = other->gather_max < caps->gather_max ? other->gather_max : caps->gather_max;
    }
    caps->many = true;
    caps->chunk_min = 0;
    caps->direct_min = caps->answer_min = 0;
    caps->learned = false;
}

static madi_link_t *rails_wrap(madi_link_t *first)
{
    madi_rails_t *w;
    madi_gate_t *gate = first->gate;
    if (posix_memalign((void **)&w, MADI_LINE, sizeof *w))
        return NULL;
    memset(w, 0, sizeof *w);
    w->adapter = *first->adapter;
    w->base.driver = &madi_rails_driver;
    w->base.adapter = &w->adapter;
    w->base.gate = gate;
    memcpy(w->base.secret, first->secret, sizeof w->base.secret);
    w->number = gate->rails_number & ~MADI_RAILS_JOIN;
    w->dials = gate->rails_number & MADI_RAILS_JOIN;
    w->next_id = 1;
    w->dial_at = INT64_MAX;
    w->dial_pause = MADI_RAILS_AGAIN;
    rails_caps_set(w);
    madi_rail_start(&w->rail[0], first);
    w->rail[0].state = RAIL_UP;
    w->first = &w->rail[0];
    w->lender = first;
    w->base_adapter = w->last_adapter = first->adapter;
    atomic_store_explicit(&w->base.state, MADI_LINK_UP, memory_order_relaxed);
    first->outer = &w->base;
    gate->rails = w;
    return &w->base;
}

/* ---- Closed --------------------------------------------------------------------------------------------------- */

/* Take all records of a rail out of its list.  Those that no driver holds are added to *done, the others to w->held.
 * Under gate->tx_lock. */
static void records_take(madi_rails_t *w, rail_t *r, rails_out_t **done)
{
    rails_out_t *out, **to;
    while ((out = r->out)) {
        r->out = out->next;
        to = out->taken ? &w->held : done;
        out->next = *to;
        *to = out;
    }
    r->out_tail = &r->out;
    r->unsent = NULL;
}

/* Send END by each rail, so that the peer does not mistake the end of the first rail for a loss. */
static void rails_end(madi_rails_t *w)
{
    madi_lock(&w->base.gate->tx_lock);
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST && w->tx_on && w->rx_on; r++)
        if (r->state == RAIL_UP && atomic_load_explicit(&r->link->state, memory_order_relaxed) == MADI_LINK_UP)
            madi_rail_control(r, MADI_RAIL_END, r->id, 0);
    madi_unlock(&w->base.gate->tx_lock);
}

static void rails_link_close(madi_link_t *link)
{
    madi_rails_t *w = (madi_rails_t *)link;
    madi_gate_t *gate = link->gate;
    rails_out_t *done = NULL;
    w->closed = true;
    rails_end(w);
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        if (r->link)
            madi_link_bury(r->link);
        r->link = NULL;
    }
    madi_lock(&gate->tx_lock);
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        if (r->state != RAIL_NONE)
            records_take(w, r, &done);
        r->state = RAIL_NONE;
    }
    w->first = NULL;
    gate->rails = NULL;
    madi_unlock(&gate->tx_lock);
    madi_rails_abandon(w);
    madi_rails_complete(done, MAD_ERR_PEER);
}

static void rails_link_fini(madi_link_t *link)
{
    madi_rails_t *w = (madi_rails_t *)link;
    for (rails_out_t *out = w->held, *next; out; out = next) {
        next = out->next;
        out->rails = NULL; /* the driver completes the packet later, and its record is freed then */
    }
}

/* ---- Other operations of the link ----------------------------------------------------------------------------- */

/* Request that the peer acknowledges all packets of a rail, unless a request is pending already. */
static void acknowledgement_ask(rail_t *r)
{
    if (!r->asked_at && madi_rail_control(r, MADI_RAIL_ASK, r->id, 0))
        r->asked_at = madi_now();
}

static bool rails_drained(madi_link_t *link)
{
    madi_rails_t *w = (madi_rails_t *)link;
    bool all = true;
    madi_lock(&link->gate->tx_lock);
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        if (r->state == RAIL_UP && r->out)
            acknowledgement_ask(r);
        all = all && !r->out;
    }
    madi_unlock(&link->gate->tx_lock);
    for (const rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST && all; r++)
        if (r->link && r->link->driver->live.drained && !r->link->driver->live.drained(r->link))
            all = false;
    return all;
}

static void rails_acknowledge(madi_link_t *link)
{
    madi_rails_t *w = (madi_rails_t *)link;
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++) {
        if (r->state != RAIL_UP)
            continue;
        madi_lock(&link->gate->tx_lock);
        if (w->rx_on)
            madi_rail_report(r);
        madi_unlock(&link->gate->tx_lock);
        if (r->link->driver->live.acknowledge)
            r->link->driver->live.acknowledge(r->link);
    }
}

static void rails_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    madi_link_t *lender = ((madi_rails_t *)link)->lender;
    lender->driver->fast.slot_put(lender, loan);
    atomic_fetch_sub_explicit(&lender->loans, 1, memory_order_release); /* pairs with madi_links_reap */
}

/* Send the packets that wait on the rails: control packets, and packets of rails that broke. */
static void rails_pump(madi_gate_t *gate)
{
    madi_rails_t *w = gate->rails;
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if (r->state == RAIL_UP || r->state == RAIL_JOINS)
            madi_rail_pump(w, r);
}

static madi_adapter_t *rails_adapter(const madi_gate_t *gate)
{
    const madi_rails_t *w = gate->rails;
    return w->first ? w->first->adapter : w->last_adapter;
}

const madi_driver_t madi_rails_driver = {
    .name = "rails",
    .link_size = sizeof(madi_rails_t),
    .upcalls = &madi_rails_upcalls,
    .send = madi_rails_send,
    .link_close = rails_link_close,
    .link_fini = rails_link_fini,
    .fast = {.send_short = madi_rails_send_short, .slot_put = rails_slot_put},
    .live = {.drained = rails_drained, .acknowledge = rails_acknowledge},
};

static const madi_rails_ops_t rails_ops = {
    .offer = madi_rails_offer,
    .agree = madi_rails_agree,
    .accept = madi_rails_accept,
    .admits = madi_rails_admits,
    .wrap = rails_wrap,
    .join = madi_rails_join,
    .failed = madi_rails_failed,
    .pump = rails_pump,
    .tick = madi_rails_tick,
    .adapter = rails_adapter,
    .explain = madi_rails_explain,
    .write = madi_rails_write,
};

void madi_rails_session_start(mad_session_t *s)
{
    atomic_store_explicit(&s->rails_at, INT64_MAX, memory_order_relaxed);
    madi_lock(&s->lock); /* locked, because another session's progress thread may already serve this session */
    if (!s->forward && madi_knob_int(MADI_KNOB_RAILS) > 1)
        s->rails = &rails_ops;
    madi_unlock(&s->lock);
}
