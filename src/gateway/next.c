/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is next on the way to a process: that process itself, or one on a host that forwards. */
#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>

/* The processes of the program that forward, by host. */
struct gw_place {
    mad_peer_t *process;
    uint32_t n, cap;
    uint32_t turn; /* of several each is taken in turn, so that they share the load */
};

static bool entry_of(gw_t *gw, const unsigned char *address, madi_address_entry_t *e)
{
    for (int i = 0; i < madi_address_count(address); i++)
        if (!madi_address_entry(address, i, e) && !strcmp(e->driver, madi_driver_virtual.name) &&
            !strcmp(e->network, gw->base.network))
            return true;
    return false;
}

int gw_host_of(gw_t *gw, const unsigned char *address, bool *forwards)
{
    madi_address_entry_t e;
    return entry_of(gw, address, &e) ? gw_host_read(gw, e.bytes, e.len, forwards) : -1;
}

static gw_mark_t mark_of(gw_t *gw, mad_peer_t peer)
{
    const unsigned char *address = gw->base.session->peers[peer].address;
    madi_address_entry_t e;
    return entry_of(gw, address, &e) ? gw_mark_read(e.bytes, e.len) : (gw_mark_t){0};
}

/* ---- Which processes forward --------------------------------------------------------------------------------------- */

static mad_status_t place_add(gw_t *gw, int host, mad_peer_t peer)
{
    gw_place_t *at = &gw->places[host];
    gw_mark_t mark = mark_of(gw, peer), before;
    for (uint32_t i = 0; mark.since && i < at->n; i++) {
        before = mark_of(gw, at->process[i]);
        if (!before.since || before.number != mark.number)
            continue;
        if (before.since < mark.since)
            at->process[i] = peer;
        return MAD_OK;
    }
    if (at->n == at->cap) {
        uint32_t cap = at->cap ? 2 * at->cap : 4;
        mad_peer_t *p = realloc(at->process, cap * sizeof *p);
        if (!p)
            return MAD_ERR_NOMEM;
        at->process = p;
        at->cap = cap;
    }
    at->process[at->n++] = peer;
    return MAD_OK;
}

/* Peers that have come since the last time are put in their places.  Under the session's lock. */
static mad_status_t look_at_peers(gw_t *gw)
{
    mad_session_t *s = gw->base.session;
    mad_peer_t me;
    mad_status_t status = madi_peer_add(s, s->address, s->address_len, &me); /* now the ranks are among the peers */
    if (!status && !gw->places && !(gw->places = calloc((size_t)madi_map_hosts(gw->map), sizeof *gw->places)))
        status = MAD_ERR_NOMEM;
    for (; !status && gw->n_placed < s->n_peers; gw->n_placed += !status) {
        mad_peer_t p = (mad_peer_t)gw->n_placed;
        bool forwards = false;
        int host;
        if (!s->peers[p].address && (status = madi_peer_fetch(s, p)))
            break;
        host = gw_host_of(gw, s->peers[p].address, &forwards);
        if (p != me && host >= 0 && forwards)
            status = place_add(gw, host, p);
    }
    return status;
}

void gw_places_free(gw_t *gw)
{
    for (int host = 0; gw->places && host < madi_map_hosts(gw->map); host++)
        free(gw->places[host].process);
    free(gw->places);
    gw->places = NULL;
}

/* A gateway has to know the processes on the next gateways when others ask it to.  Who is none needs them for its first
 * virtual link; of not too many it asks now, all at once: later the others wait for it, and it for the launcher. */
#define AT_ONCE 2000
mad_status_t gw_started(mad_session_t *s)
{
    gw_t *gw = gw_of_session(s);
    mad_status_t status;
    if (!s->boot)
        return MAD_OK;
    status = gw_learn_gateways(s);
    if (status || (!gw->forwards && s->size > AT_ONCE))
        return status;
    madi_lock(&s->lock);
    status = look_at_peers(gw);
    madi_unlock(&s->lock);
    return status;
}

/* A process of that host which lives; the next in turn. */
static mad_status_t process_on(gw_t *gw, int host, mad_peer_t *peer, char *reason)
{
    mad_session_t *s = gw->base.session;
    mad_status_t status = look_at_peers(gw);
    gw_place_t *at;
    if (status)
        return status;
    at = &gw->places[host];
    for (uint32_t i = 0; i < at->n; i++) {
        mad_peer_t p = at->process[at->turn++ % at->n];
        const madi_gate_t *gate = s->peers[p].gate;
        if (!gate || atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_DOWN) {
            *peer = p;
            return MAD_OK;
        }
    }
    snprintf(reason, MADI_REASON_MAX, "the gateway %s has no process that lives", madi_map_name(gw->map, host));
    return MAD_ERR_UNREACHABLE;
}

/* ---- The next process ---------------------------------------------------------------------------------------------- */

bool gw_reached_directly(gw_t *gw, const unsigned char *address)
{
    mad_session_t *s = gw->base.session;
    madi_address_entry_t e;
    char reason[MADI_REASON_MAX];
    for (int i = 0; i < s->n_adapters; i++)
        if (s->adapters[i] != &gw->base && madi_way_find(s, address, s->adapters[i], &e, reason))
            return true;
    return false;
}

/* Equal ways are taken in turn, connection by connection; each process begins somewhere else. */
static uint64_t turn(gw_t *gw)
{
    uint32_t first;
    memcpy(&first, gw->base.session->uid, sizeof first);
    return (uint64_t)first + gw->turn++;
}

mad_status_t gw_next_gate(gw_t *gw, const unsigned char *address, madi_gate_t **gate, char *reason)
{
    mad_session_t *s = gw->base.session;
    mad_peer_t peer = -1;
    mad_status_t status = MAD_OK;
    int host, state;
    if (gw_reached_directly(gw, address)) {
        status = madi_peer_add(s, address, madi_address_len(address), &peer);
    } else {
        host = gw_host_of(gw, address, NULL);
        host = host < 0 ? -1 : madi_map_next(gw->map, host, turn(gw), reason);
        if (host < 0)
            return MAD_ERR_UNREACHABLE;
        status = process_on(gw, host, &peer, reason);
    }
    if (!status)
        status = madi_peer_gate(s, peer, gate);
    if (status)
        return status;
    madi_gate_connect(*gate);
    state = atomic_load_explicit(&(*gate)->state, memory_order_relaxed);
    if (state == MADI_GATE_DOWN) {
        snprintf(reason, MADI_REASON_MAX, "the next process on the way is lost: %.150s", (*gate)->why);
        return MAD_ERR_UNREACHABLE;
    }
    if ((*gate)->link && (*gate)->link->driver == &madi_driver_virtual) {
        snprintf(reason, MADI_REASON_MAX, "the next process on the way is itself behind gateways");
        return MAD_ERR_UNREACHABLE;
    }
    return MAD_OK;
}
