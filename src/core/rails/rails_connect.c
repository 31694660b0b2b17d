/* SPDX-License-Identifier: BSD-3-Clause */
/* Further rails: how they are agreed with the peer, connected, joined, and tried again.  A gate of its own, which the
 * program does not see, connects each further rail; when the link is up, it moves to the gate that has the rails.  Under
 * session->lock. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/random.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/search.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/rails/rails.h"

#include <string.h>

#define RELEASE_NS 20000000 /* ns between two attempts to release a gate that has connected a rail */

/* ---- Which networks form rails ---------------------------------------------------------------------------------- */

/* True if two adapters may share a wire: they are of one driver and one network, or of one device (tcp and eth on eth0, or
 * eth0 and eth0/6).  An RDMA device may have several ports, whose adapters differ by name (mlx5_0:1, mlx5_0:2). */
static bool share_wire(const madi_adapter_t *a, const madi_adapter_t *b)
{
    size_t len = strcspn(a->name, "/");
    if (a->driver == b->driver && !strcmp(a->network, b->network))
        return true;
    if (!a->device[0] || strcmp(a->device, b->device) != 0)
        return false;
    return a->driver != b->driver || (len == strcspn(b->name, "/") && !memcmp(a->name, b->name, len));
}

/* True if a network may be a rail in addition to that of the first link: it leads to other hosts, its protection is not
 * weaker, and its bandwidth is not very different. */
static bool goes_with(const madi_adapter_t *first, const madi_adapter_t *a)
{
    double x = first->caps.bandwidth_MBs, y = a->caps.bandwidth_MBs, ratio = (double)madi_knob_int(MADI_KNOB_RAILS_RATIO);
    return a->opened && !a->caps.self && !a->caps.host && a->security >= first->security && x <= y * ratio &&
           y <= x * ratio && !share_wire(first, a);
}

static bool leads_to(mad_session_t *s, mad_peer_t peer, madi_adapter_t *a)
{
    char reason[MADI_REASON_MAX];
    madi_address_entry_t e;
    return madi_peer_path_find(s, madi_peer_address(s, peer), 0, a, &e, reason);
}

static bool is_in_use(const madi_rails_t *w, const madi_adapter_t *a)
{
    for (const rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if (r->link && share_wire(r->adapter, a))
            return true;
    return false;
}

static int rails_number(const madi_rails_t *w)
{
    int n = 0;
    for (const rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        n += r->link != NULL;
    return n;
}

bool madi_rails_admits(const madi_gate_t *gate, const madi_adapter_t *a)
{
    const madi_rails_t *w = gate->rail_of->rails;
    return w && !is_in_use(w, a) && (a == w->base_adapter || goes_with(w->base_adapter, a));
}

/* True if a network is left that could become one more rail. */
static bool is_one_left(madi_rails_t *w)
{
    mad_session_t *s = w->base.gate->session;
    for (int i = 0; i < s->n_adapters; i++) {
        madi_adapter_t *a = s->adapters[i];
        if (!is_in_use(w, a) && (a == w->base_adapter || goes_with(w->base_adapter, a)) &&
            leads_to(s, w->base.gate->peer, a))
            return true;
    }
    return false;
}

/* True if the peer is on this host, that is, if a network within the host reaches it.  Between such processes memory limits
 * the bandwidth, so rails do not help. */
static bool is_on_this_host(mad_session_t *s, mad_peer_t peer)
{
    for (int i = 0; i < s->n_adapters; i++)
        if (s->adapters[i]->opened && s->adapters[i]->caps.host && leads_to(s, peer, s->adapters[i]))
            return true;
    return false;
}

/* ---- Agreed ----------------------------------------------------------------------------------------------------- */

uint32_t madi_rails_offer(madi_gate_t *gate, const madi_adapter_t *adapter)
{
    mad_session_t *s = gate->session;
    uint32_t number = 0;
    bool any = false;
    if (gate->rail_of)
        return gate->rail_of->rails ? gate->rail_of->rails->number | MADI_RAILS_JOIN : MADI_RAILS_JOIN;
    if (adapter->caps.self || adapter->caps.host || is_on_this_host(s, gate->peer))
        return 0;
    for (int i = 0; i < s->n_adapters && !any; i++)
        any = goes_with(adapter, s->adapters[i]) && leads_to(s, gate->peer, s->adapters[i]);
    while (any && !number) {
        if (!madi_random(&number, sizeof number))
            return 0;
        number &= ~MADI_RAILS_JOIN;
    }
    return number;
}

uint32_t madi_rails_agree(madi_gate_t *gate, const madi_adapter_t *adapter, uint32_t offered)
{
    (void)gate;
    return adapter->caps.host || adapter->caps.self ? 0 : offered & ~MADI_RAILS_JOIN;
}

/* ---- Connected ---------------------------------------------------------------------------------------------------- */

void madi_rails_dial_soon(madi_rails_t *w, int64_t at)
{
    mad_session_t *s = w->base.gate->session;
    if (!w->dials || w->dial_at <= at)
        return;
    w->dial_at = at;
    madi_rails_due(s, at);
    marceli_accept_entry_call_at(&s->accept_entry, at); /* also while the program computes */
}

/* Make a gate that connects a further rail of another gate; NULL if out of memory. */
static madi_gate_t *gate_new(madi_gate_t *of)
{
    madi_gate_t *gate = madi_gate_new(of->session, of->peer, 0);
    if (!gate)
        return NULL;
    gate->rail_of = of;
    madi_gate_set_quiet(gate);
    return gate;
}

static void rails_dial(madi_rails_t *w)
{
    madi_gate_t *gate = w->base.gate;
    w->dial_at = INT64_MAX;
    if (w->dialing || w->ends || gate->bye_received || rails_number(w) >= madi_knob_int(MADI_KNOB_RAILS) ||
        !madi_rails_place(w) || !is_one_left(w))
        return;
    w->dialing = gate_new(gate);
    if (w->dialing)
        madi_gate_connect(w->dialing);
}

madi_gate_t *madi_rails_accept(madi_gate_t *gate, const madi_adapter_t *adapter, uint32_t number)
{
    madi_rails_t *w = gate ? gate->rails : NULL;
    if (!w || w->dials || w->number != number || adapter->security < w->adapter.security || !madi_rails_place(w))
        return NULL;
    return gate_new(gate);
}

rail_t *madi_rails_place(madi_rails_t *w)
{
    for (rail_t *r = w->rail; r < w->rail + MADI_RAILS_MOST; r++)
        if (r->state == RAIL_NONE)
            return r;
    return NULL;
}

void madi_rail_start(rail_t *r, madi_link_t *link)
{
    *r = (rail_t){.state = RAIL_JOINS, .link = link, .adapter = link->adapter, .out_tail = &r->out};
    r->bandwidth = link->adapter->caps.bandwidth_MBs;
    r->heard_at = madi_now();
}

/* ---- Joined ----------------------------------------------------------------------------------------------------- */

/* Take a gate that has connected a rail out of use; tick releases it later. */
static void gate_end(madi_gate_t *gate)
{
    madi_lock(&gate->tx_lock);
    gate->link = NULL;
    atomic_store_explicit(&gate->state, MADI_GATE_DOWN, memory_order_release); /* pairs with gate_usable */
    madi_unlock(&gate->tx_lock);
    gate->rail_of = gate;
    madi_hello_abort_all(gate);
    madi_search_free(gate);
    madi_rails_due(gate->session, madi_deadline(RELEASE_NS));
}

void madi_rails_join(madi_link_t *link)
{
    madi_gate_t *by = link->gate, *gate = by->rail_of;
    madi_rails_t *w = gate->rails;
    rail_t *r = w && gate != by ? madi_rails_place(w) : NULL;
    if (!r) {
        madi_gate_down(by, MAD_ERR_CLOSED, "the peer's other links are closed");
        return;
    }
    atomic_store_explicit(&link->state, MADI_LINK_UP, memory_order_relaxed);
    madi_log(MADI_LOG_INFO, link->adapter->driver->name, "peer %d: %s (%s) is a further rail", gate->peer,
             link->adapter->name, link->adapter->network);
    gate_end(by);
    madi_lock(&gate->tx_lock);
    madi_rail_start(r, link);
    link->gate = gate;
    link->outer = &w->base;
    r->join_due = w->dials;
    r->id = w->dials ? w->next_id++ : 0;
    if (w->dials)
        madi_rail_pump(w, r);
    madi_unlock(&gate->tx_lock);
    if (w->dialing == by)
        w->dialing = NULL;
    w->dial_pause = MADI_RAILS_AGAIN;
    madi_rails_dial_soon(w, madi_now());
    madi_gate_work(gate);
}

void madi_rails_failed(madi_gate_t *by)
{
    madi_gate_t *gate = by->rail_of;
    madi_rails_t *w = gate != by ? gate->rails : NULL;
    madi_rails_due(by->session, madi_deadline(RELEASE_NS));
    if (!w || w->dialing != by)
        return;
    w->dialing = NULL;
    madi_rails_dial_soon(w, madi_deadline(w->dial_pause));
    w->dial_pause = 2 * w->dial_pause < MADI_RAILS_AGAIN_MOST ? 2 * w->dial_pause : MADI_RAILS_AGAIN_MOST;
}

void madi_rails_abandon(madi_rails_t *w)
{
    madi_gate_t *gate = w->base.gate;
    w->dialing = NULL;
    for (madi_gate_t *by = gate->session->gates; by; by = by->next) {
        if (by->rail_of != gate)
            continue;
        by->rail_of = by;
        madi_gate_down(by, MAD_ERR_CLOSED, "the peer's link is closed");
    }
}

/* ---- In time ---------------------------------------------------------------------------------------------------- */

/* Do the work that is due for the rails of a gate, or for a gate that has connected a rail.  Return the time of the next
 * check. */
static int64_t gate_tick(madi_gate_t *gate, int64_t now)
{
    madi_rails_t *w = gate->rails;
    int64_t next = INT64_MAX;
    if (gate->rail_of && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN)
        return madi_gate_release(gate) ? INT64_MAX : now + RELEASE_NS;
    if (!w)
        return INT64_MAX;
    if (w->tx_on)
        next = madi_rails_stalled(w, now);
    if (w->closed)
        return INT64_MAX;
    if (w->dial_at <= now)
        rails_dial(w);
    return w->dial_at < next ? w->dial_at : next;
}

void madi_rails_tick(mad_session_t *s, int64_t now)
{
    if (now < atomic_load_explicit(&s->rails_at, memory_order_relaxed))
        return;
    atomic_store_explicit(&s->rails_at, INT64_MAX, memory_order_relaxed);
    for (madi_gate_t *gate = s->gates, *next; gate; gate = next) {
        next = gate->next;
        madi_rails_due(s, gate_tick(gate, now));
    }
}
