/* SPDX-License-Identifier: BSD-3-Clause */
/* The next process on the path to a destination: the destination itself, or a process on a host that forwards. */
#include "gateway/gateway.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define HOSTS_MOST 16            /* maximum number of hosts excluded from a path */
#define AGAIN INT64_C(200000000) /* ns until a lost process may be dialled again */

/* A process that forwards; listed by host. */
typedef struct process {
    mad_peer_t peer;
    bool daemon; /* true if the process only forwards; preferred, since ranks also compute */
} process_t;

struct gw_place {
    process_t *process;
    uint32_t n, cap;
    uint32_t turn; /* index of the process that gets the next stream, since processes take turns */
};

static bool virtual_entry_find(gw_t *gw, const unsigned char *address, madi_address_entry_t *e)
{
    for (size_t at = 0; madi_address_next(address, &at, e);)
        if (!strcmp(e->driver, madi_driver_virtual.name) && !strcmp(e->network, gw->base.network))
            return true;
    return false;
}

int gw_host_of(gw_t *gw, const unsigned char *address, unsigned *flags)
{
    madi_address_entry_t e;
    return virtual_entry_find(gw, address, &e) ? gw_host_read(gw, e.bytes, e.len, flags) : -1;
}

static gw_mark_t peer_mark(gw_t *gw, mad_peer_t peer)
{
    const unsigned char *address = madi_peer_address(gw->base.session, peer);
    madi_address_entry_t e;
    return virtual_entry_find(gw, address, &e) ? gw_mark_read(e.bytes, e.len) : (gw_mark_t){0};
}

int gw_host_of_peer(gw_t *gw, mad_peer_t peer)
{
    return gw_host_of(gw, madi_peer_address(gw->base.session, peer), NULL);
}

unsigned gw_flags_of(gw_t *gw, const unsigned char *address)
{
    unsigned flags = 0;
    return gw_host_of(gw, address, &flags) < 0 ? 0 : flags;
}

/* ---- Forwarding processes --------------------------------------------------------------------------------------- */

static mad_status_t next_place_add(gw_t *gw, int host, mad_peer_t peer, bool daemon)
{
    gw_place_t *at = &gw->places[host];
    gw_mark_t mark = peer_mark(gw, peer), before;
    madi_peer_at(gw->base.session, peer)->serves = true;
    for (uint32_t i = 0; mark.since && i < at->n; i++) {
        before = peer_mark(gw, at->process[i].peer);
        if (!before.since || before.number != mark.number)
            continue;
        if (before.since <= mark.since) /* the marks are equal if the peer was lost and is back with a new number */
            at->process[i].peer = peer;
        return MAD_OK;
    }
    if (at->n == at->cap) {
        uint32_t cap = at->cap ? 2 * at->cap : 4;
        process_t *p = realloc(at->process, cap * sizeof *p);
        if (!p)
            return MAD_ERR_NOMEM;
        at->process = p;
        at->cap = cap;
    }
    at->process[at->n++] = (process_t){peer, daemon};
    return MAD_OK;
}

/* Add the peers that are new since the last call to the lists of their hosts.  Under the session's lock. */
static mad_status_t places_update(gw_t *gw)
{
    mad_session_t *s = gw->base.session;
    mad_peer_t me;
    mad_status_t status = madi_peer_add(s, s->address, s->address_len, &me); /* from here on all ranks are peers too */
    if (!status && !gw->places && !(gw->places = calloc((size_t)madi_map_hosts(gw->map), sizeof *gw->places)))
        status = MAD_ERR_NOMEM;
    for (; !status && gw->n_placed < (uint32_t)madi_peers_end(s); gw->n_placed += !status) {
        mad_peer_t p = (mad_peer_t)gw->n_placed;
        unsigned flags = 0;
        int host;
        if (!madi_peer_at(s, p))
            continue; /* the peer was forgotten meanwhile */
        if (madi_peer_at(s, p)->wanted)
            continue; /* gw_place_connected handles connected peers */
        if (!madi_peer_address(s, p) && (status = madi_peer_fetch(s, p)))
            break;
        host = gw_host_of(gw, madi_peer_address(s, p), &flags);
        if (p != me && host >= 0 && flags & GW_FORWARDS)
            status = next_place_add(gw, host, p, flags & GW_DAEMON);
    }
    return status;
}

/* Handle a connected peer: if it forwards, streams may use it from now on. */
void gw_place_connected(gw_t *gw, mad_peer_t peer)
{
    madi_peer_t *p = madi_peer_at(gw->base.session, peer);
    unsigned flags = 0;
    int host = p->wanted ? gw_host_of(gw, p->address, &flags) : -1;
    p->wanted = false;
    if (host >= 0 && flags & GW_FORWARDS && gw->places && (uint32_t)peer < gw->n_placed)
        next_place_add(gw, host, peer, flags & GW_DAEMON);
}

void gw_place_forget(mad_session_t *s, mad_peer_t peer)
{
    gw_t *gw = gw_of_session(s);
    for (int host = 0; gw->places && host < madi_map_hosts(gw->map); host++) {
        gw_place_t *at = &gw->places[host];
        for (uint32_t i = 0; i < at->n; i++)
            if (at->process[i].peer == peer)
                at->process[i--] = at->process[--at->n];
    }
}

void gw_places_free(gw_t *gw)
{
    for (int host = 0; gw->places && host < madi_map_hosts(gw->map); host++)
        free(gw->places[host].process);
    free(gw->places);
    gw->places = NULL;
}

/* Look up the processes on other gateway hosts at the start.  A gateway must know the processes on the next
 * gateway hosts before other processes use it.  Other processes need these for their first virtual link.  In jobs of up
 * to AT_ONCE ranks, all processes fetch all addresses now.  Later they would all wait for each other and for the
 * launcher. */
#define AT_ONCE 2000
mad_status_t gw_started(mad_session_t *s)
{
    gw_t *gw = gw_of_session(s);
    mad_status_t status = gw_learn_named(s);
    if (!status && s->boot)
        status = gw_learn_gateways(s);
    madi_lock(&s->lock);
    if (!status && s->boot && (gw->forwards || s->size <= AT_ONCE))
        status = places_update(gw);
    gw->n_known = (uint32_t)madi_peers_end(s);
    madi_unlock(&s->lock);
    return status;
}

static bool peer_avoided(const gw_avoid_t *avoid, mad_peer_t peer)
{
    for (int i = 0; i < avoid->n; i++)
        if (avoid->peer[i] == peer)
            return true;
    return false;
}

/* Return the gate by which streams of this lane reach the peer; NULL if there is none. */
static madi_gate_t *gate_of(gw_t *gw, int lane, mad_peer_t peer)
{
    mad_session_t *s = gw->base.session;
    return madi_peer_gate_find(s, peer, gw_lane_to(gw, lane, madi_peer_address(s, peer)));
}

/* True if the connection to the peer is lost, or if the peer has requested that streams take other paths. */
static bool next_hop_lost(gw_t *gw, int lane, mad_peer_t peer)
{
    madi_gate_t *gate = gate_of(gw, lane, peer);
    const gw_hop_t *hop = gate ? gate->forward : NULL;
    return (gate && atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN) || (hop && hop->moves);
}

/* True if a lost peer may be dialled again, now under its new number *peer. */
static bool peer_dial_again(gw_t *gw, int lane, mad_peer_t *peer)
{
    mad_session_t *s = gw->base.session;
    const madi_gate_t *gate = gate_of(gw, lane, *peer);
    mad_peer_t again;
    if (!gate || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_DOWN || gate->bye_received ||
        madi_now() - madi_gate_deadline(gate) < AGAIN || madi_peer_renumber(s, *peer, gate->lane, true, &again))
        return false;
    *peer = again;
    return true;
}

/* Argument of the search: the lane, and the hosts to avoid. */
typedef struct wish {
    gw_t *gw;
    int lane;
    const gw_avoid_t *avoid;
} wish_t;

/* True if a live daemon is on this host. */
static bool host_has_daemon(void *arg, int host)
{
    const wish_t *w = arg;
    const gw_place_t *at = &w->gw->places[host];
    for (uint32_t i = 0; i < at->n; i++)
        if (at->process[i].daemon && !peer_avoided(w->avoid, at->process[i].peer) &&
            !next_hop_lost(w->gw, w->lane, at->process[i].peer))
            return true;
    return false;
}

/* Choose a live process on the host: daemons first, and in turn if there are several.  If none is known to be alive, a
 * lost one may be dialled again.  MAD_ERR_PEER: there is none at the moment. */
static mad_status_t process_choose(gw_t *gw, int lane, int host, const gw_avoid_t *avoid, mad_peer_t *peer, char *reason)
{
    gw_place_t *at = &gw->places[host];
    bool daemon = host_has_daemon(&(wish_t){gw, lane, avoid}, host), dead = false;
    for (uint32_t i = 0; i < 2 * at->n; i++) {
        const process_t *process = &at->process[at->turn++ % at->n];
        mad_peer_t p = process->peer;
        dead |= next_hop_lost(gw, lane, p);
        if (peer_avoided(avoid, p) || (daemon && !process->daemon) ||
            (i < at->n ? next_hop_lost(gw, lane, p) : avoid->lost || !peer_dial_again(gw, lane, &p)))
            continue;
        *peer = p;
        return MAD_OK;
    }
    snprintf(reason, MADI_REASON_MAX, "the gateway %s has no live process", madi_map_name(gw->map, host));
    return dead || (!at->n && gw->awaits) ? MAD_ERR_PEER : MAD_ERR_UNREACHABLE;
}

/* ---- The next process ------------------------------------------------------------------------------------------- */

bool gw_reached_directly(gw_t *gw, int lane, const unsigned char *address)
{
    mad_session_t *s = gw->base.session;
    madi_address_entry_t e;
    char reason[MADI_REASON_MAX];
    for (int i = 0; i < s->n_adapters; i++)
        if (s->adapters[i] != &gw->base && madi_peer_path_find(s, address, lane, s->adapters[i], &e, reason))
            return true;
    return false;
}

/* Return a number that selects one of several equal paths.  The number advances by one per connection, and starts
 * differently in each process. */
static uint64_t path_turn(gw_t *gw)
{
    uint32_t first;
    memcpy(&first, gw->base.session->uid, sizeof first);
    return (uint64_t)first + gw->turn++;
}

/* Return the gate to a peer, if fragments can travel over it. */
static mad_status_t next_gate_open(gw_t *gw, int lane, mad_peer_t peer, madi_gate_t **out, char *reason)
{
    madi_gate_t *gate;
    char why[MADI_WHY_MAX];
    mad_session_t *s = gw->base.session;
    mad_status_t status = madi_peer_gate(s, peer, gw_lane_to(gw, lane, madi_peer_address(s, peer)), &gate);
    if (status)
        return status;
    if (!gw_dial_allowed(gw, gate, reason))
        return MAD_ERR_PEER;
    madi_gate_connect(gate);
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN) {
        madi_gate_why(gate, why);
        snprintf(reason, MADI_REASON_MAX, "the next process on the path is lost: %.150s", why);
        return MAD_ERR_PEER;
    }
    if (gate->link && gate->link->driver == &madi_driver_virtual) {
        snprintf(reason, MADI_REASON_MAX, "the next process on the path is itself behind gateways");
        return MAD_ERR_UNREACHABLE;
    }
    *out = gate;
    return MAD_OK;
}

/* Add a peer for an unknown process whose address came from the hop gw->asker. */
static mad_status_t destination_new(gw_t *gw, const unsigned char *address, mad_peer_t *peer, char *reason)
{
    mad_status_t status = MAD_ERR_UNREACHABLE;
    if (gw_dial_address_allowed(gw->asker, address))
        status = madi_peer_learn(gw->asker->gate, address, madi_address_len(address), peer);
    if (!status)
        madi_peer_at(gw->base.session, *peer)->wanted = true;
    if (status == MAD_ERR_BUSY) {
        madi_ledger_refused(gw->asker->gate, MADI_CHARGE_PEERS);
        status = MAD_ERR_PEER;
    }
    if (status)
        snprintf(reason, MADI_REASON_MAX, "%s",
                 status == MAD_ERR_UNREACHABLE ? "the address of the requested process is on no network of this gateway"
                                               : "too many processes are known from this peer");
    return status;
}

static mad_status_t destination_gate_open(gw_t *gw, int lane, const unsigned char *address, madi_gate_t **gate, bool *direct,
                                          char *reason)
{
    mad_peer_t peer = madi_peer_find(gw->base.session, address);
    mad_status_t status = MAD_OK;
    if (peer < 0 && gw->asker)
        status = destination_new(gw, address, &peer, reason);
    else if (peer < 0)
        status = madi_peer_add(gw->base.session, address, madi_address_len(address), &peer);
    bool called = !status && (!next_hop_lost(gw, lane, peer) || peer_dial_again(gw, lane, &peer));
    if (!status)
        status = next_gate_open(gw, lane, peer, gate, reason);
    if (status == MAD_ERR_PEER && called)
        called = gate_of(gw, lane, peer) && gw_nobody_there(gate_of(gw, lane, peer));
    if (direct)
        *direct = called;
    return status;
}

mad_status_t gw_next_gate(gw_t *gw, int lane, const unsigned char *address, const gw_avoid_t *avoid, madi_gate_t **gate,
                          bool *direct, char *reason)
{
    int without[HOSTS_MOST], host, to;
    gw_avoid_t all = {.n = 0};
    wish_t wish = {gw, lane, &all};
    madi_map_choice_t choice = {.better = host_has_daemon, .arg = &wish, .without = without};
    mad_status_t status, none = MAD_ERR_UNREACHABLE;
    lane = wish.lane = gw_lane_of(gw, lane);
    if (gw_reached_directly(gw, lane, address))
        return destination_gate_open(gw, lane, address, gate, direct, reason);
    status = places_update(gw);
    if (status)
        return status;
    choice.number = path_turn(gw);
    if (avoid)
        all = *avoid;
    for (to = gw_host_of(gw, address, NULL); to >= 0 && choice.n < HOSTS_MOST;) {
        char why[MADI_REASON_MAX] = "";
        mad_peer_t peer = -1;
        host = madi_map_next(gw->map, lane, to, &choice, why);
        if (host >= 0)
            status = process_choose(gw, lane, host, &all, &peer, why);
        else
            status = MAD_ERR_UNREACHABLE;
        if (!status && (status = next_gate_open(gw, lane, peer, gate, why)) == MAD_OK)
            return MAD_OK;
        if (!choice.n && !all.n)
            snprintf(reason, MADI_REASON_MAX, "%s", why); /* the reason why the best path was not possible */
        if ((status != MAD_ERR_UNREACHABLE && status != MAD_ERR_PEER) || host < 0)
            return choice.n || all.n ? none : status;
        none = status == MAD_ERR_PEER ? status : none;
        if (peer >= 0 && all.n < (int)MADI_COUNT(all.peer))
            all.peer[all.n++] = peer;
        else
            without[choice.n++] = host;
    }
    return none;
}
