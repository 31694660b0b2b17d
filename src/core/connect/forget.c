/* SPDX-License-Identifier: BSD-3-Clause */
/* Release of peers, so that a process keeps memory for live peers only.
 *
 * A lost peer that the program has not added and that is no rank, for instance a client that has ended, is released once
 * nothing refers to it: no message that is open or not received yet, no request, no stream.  mad_peer_forget releases any
 * other peer.  The number of a released peer is never given again: calls with it are refused.  The gate and the
 * connections of a released peer are reused for other peers, but only after a while (RESTING in peer.c), since threads
 * may still be leaving them. */
#include "base/clock.h"
#include "base/knob.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/inspect/query.h"
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/link/notify.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/recv/receive.h"
#include "core/security/secret.h"
#include "core/send/send.h"
#include "core/wire/address.h"
#include "core/wire/wire.h"

#include <stdlib.h>

static int gate_state(const madi_gate_t *gate)
{
    return atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed);
}

/* True if something refers to the gate besides its connections. */
static bool gate_is_referred(madi_gate_t *gate)
{
    bool sends;
    for (const madi_link_t *l = gate->session->dead_links; l; l = l->next_dead)
        if (l->gate == gate)
            return true;
    madi_lock(&gate->tx_lock);
    sends = madi_ctrl_waits(gate) || !madi_rdv_none(gate);
    madi_unlock(&gate->tx_lock);
    return sends || gate->link || gate->connect->hello || !madi_rdv_recv_none(gate) || gate->partial_rx ||
           gate->connect->sharers || madi_gate_has_work(gate) || (gate->forward && !gate->session->forward->idle(gate));
}

static void gate_retire(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    for (madi_gate_t **p = &s->gates; *p; p = &(*p)->next)
        if (*p == gate) {
            *p = gate->next;
            break;
        }
    madi_stats_keep(s, gate);
    if (gate->forward)
        s->forward->free(gate);
    madi_peer_paths_free(gate);
    madi_charge_orphan(gate, MADI_CHARGE_PEERS, gate->ledger.held[MADI_CHARGE_PEERS]); /* its announcements stay */
    free(gate->by_remote);
    gate->by_remote = NULL;
    gate->n_remote = 0;
    madi_recv_gate_shrink(gate);
    madi_lock(&gate->tx_lock);
    madi_send_gate_shrink(gate);
    madi_unlock(&gate->tx_lock);
    madi_gate_rest(gate);
}

bool madi_gate_release(madi_gate_t *gate)
{
    if (gate_state(gate) != MADI_GATE_DOWN || gate_is_referred(gate))
        return false;
    gate_retire(gate);
    return true;
}

/* Return the peer's gate on that lane; NULL if none, or if the gate belongs to another number too. */
static madi_gate_t *peer_own_gate(mad_session_t *s, const madi_peer_t *p, int lane)
{
    madi_gate_t *gate = madi_peer_gate_find(s, p->number, lane);
    return gate && gate->peer == p->number ? gate : NULL;
}

static bool peer_gates_are_down(mad_session_t *s, const madi_peer_t *p)
{
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (gate && (gate_state(gate) != MADI_GATE_DOWN || gate_is_referred(gate)))
            return false;
    }
    return true;
}

/* Free a peer.  Return false if one of its gates is not down, or if something refers to it. */
static bool peer_release(mad_session_t *s, madi_peer_t *p)
{
    if (!peer_gates_are_down(s, p))
        return false;
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (gate && !madi_conns_retire_gate(gate))
            return false;
    }
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = madi_peer_gate_find(s, p->number, lane);
        if (gate && gate->peer == p->number)
            gate_retire(gate);
        else if (gate)
            gate->connect->sharers--;
    }
    if (p->serves)
        s->forward->forget(s, p->number);
    if (s->peer_released)
        s->peer_released(s, p->number);
    madi_peer_drop(s, p);
    return true;
}

/* Lost gateways, and lost peers that have forwarded streams, are kept for processes that wait for them.  The first
 * message to a host may be sent after its gateway has died, and then waits for the next gateway.  The number of kept
 * peers that have connected by themselves is bounded, because any process may connect again and again as a forwarder. */
#define SERVED_MOST 64

static bool peer_serves(const madi_peer_t *p)
{
    return p->serves || (p->address && madi_address_role(p->address) == MADI_ROLE_GATEWAY);
}

static bool peer_is_claimed_server(const madi_peer_t *p)
{
    return p->claimed && peer_serves(p);
}

static int claimed_servers_lost(mad_session_t *s)
{
    int n = 0;
    for (const madi_gate_t *gate = s->gates; gate; gate = gate->next) {
        const madi_peer_t *p = gate_state(gate) == MADI_GATE_DOWN && !gate->lane ? madi_peer_at(s, gate->peer) : NULL;
        n += p && peer_is_claimed_server(p);
    }
    return n;
}

/* True if a lost peer stays in the table of peers. */
static bool peer_stays(const mad_session_t *s, const madi_peer_t *p, int served)
{
    return p->kept || p->number < s->size || (peer_serves(p) && !(peer_is_claimed_server(p) && served > SERVED_MOST));
}

void madi_peers_forget_lost(mad_session_t *s, int64_t now)
{
    int served;
    bool later = false;
    if (MADI_LIKELY(!s->connect->forget_at || now < s->connect->forget_at))
        return;
    served = s->forward ? claimed_servers_lost(s) : 0;
    madi_links_reap(s);
    for (madi_gate_t *gate = s->gates, *next; gate; gate = next) {
        madi_peer_t *p = madi_peer_at(s, gate->peer);
        next = gate->next;
        if (gate->rail_of) /* rails.h releases it */
            continue;
        while (next && next->peer == gate->peer) /* skip the other gates of this peer, which are released with it */
            next = next->next;
        if (gate_state(gate) != MADI_GATE_DOWN || !p || peer_stays(s, p, served))
            continue;
        served -= peer_is_claimed_server(p);
        if (now - gate->connect->deadline < MADI_FORGET_NS || !peer_release(s, p))
            later = true;
        else if (next && next->peer < 0)
            next = s->gates; /* start again, since `next` was another gate of the released peer */
    }
    s->connect->forget_at = later ? now + MADI_FORGET_NS : 0;
}

/* ---- By the program ------------------------------------------------------------------------------------------------ */

typedef struct peer_drain {
    mad_session_t *session;
    mad_peer_t peer;
} peer_drain_t;

/* Called under session->lock. */
static bool peer_in_use(mad_session_t *s, const madi_peer_t *p)
{
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (!gate)
            continue;
        if (!madi_rdv_recv_none(gate) || gate->connect->sharers || (gate->forward && !s->forward->idle(gate)))
            return true;
        for (madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate)
            if (madi_conn_in_use(conn))
                return true;
    }
    return false;
}

static bool peer_has_drained(void *arg)
{
    const peer_drain_t *l = arg;
    mad_session_t *s = l->session;
    const madi_peer_t *p;
    bool all = true;
    madi_lock(&s->lock);
    p = madi_peer_at(s, l->peer);
    for (int lane = 0; p && lane < madi_lanes(s) && all; lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (gate && gate_state(gate) == MADI_GATE_UP && !gate->bye_received)
            all = !madi_ctrl_waits(gate) &&
                  (!gate->link->driver->live.drained || gate->link->driver->live.drained(gate->link));
    }
    madi_unlock(&s->lock);
    return all;
}

static void peer_send_bye(mad_session_t *s, const madi_peer_t *p)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_BYE};
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (gate && gate_state(gate) == MADI_GATE_UP)
            madi_gate_ctrl(gate, &hdr, NULL);
    }
}

/* Take a peer's gates down, and release the peer; if something still refers to it, later checks release it. */
static void peer_leave(mad_session_t *s, madi_peer_t *p)
{
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = peer_own_gate(s, p, lane);
        if (!gate)
            continue;
        gate->connect->quiet = true;
        madi_gate_down(gate, MAD_ERR_CLOSED, "the program forgets it");
    }
    madi_links_reap(s);
    p->kept = false;
    if (!peer_release(s, p) && !s->connect->forget_at)
        s->connect->forget_at = madi_deadline(MADI_FORGET_NS);
}

static mad_status_t peer_may_forget(mad_session_t *s, mad_peer_t peer, madi_peer_t **p)
{
    *p = madi_peer_at(s, peer);
    if (!*p)
        return peer >= 0 && peer < s->connect->next_peer ? MAD_ERR_PEER : MAD_ERR_INVAL;
    if (peer < s->size)
        return MAD_ERR_INVAL;
    return (*p)->serves || peer_in_use(s, *p) ? MAD_ERR_BUSY : MAD_OK;
}

mad_status_t mad_peer_forget(mad_session_t *s, mad_peer_t peer)
{
    peer_drain_t l = {s, peer};
    madi_peer_t *p;
    mad_status_t status = madi_session_usable(s);
    if (status)
        return status;
    madi_lock(&s->lock);
    status = peer_may_forget(s, peer, &p);
    if (!status)
        peer_send_bye(s, p);
    madi_unlock(&s->lock);
    if (status)
        return status;
    for (int64_t end = madi_deadline(madi_knob_int(MADI_KNOB_EXIT_TIMEOUT)), now; (now = madi_now()) < end;) {
        int64_t soon = now + 1000000; /* check again soon, because an acknowledgement wakes no thread */
        if (madi_watch_for(s, peer_has_drained, &l, soon < end ? soon : end) == MAD_OK)
            break;
    }
    madi_lock(&s->lock);
    p = madi_peer_at(s, peer);
    if (p && peer_in_use(s, p))
        status = MAD_ERR_BUSY;
    else if (p)
        peer_leave(s, p);
    madi_unlock(&s->lock);
    return status;
}
