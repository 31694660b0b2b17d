/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers: addresses, and gates for those that were spoken to. */
#include "core/core.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t uid_hash(const unsigned char *uid)
{
    uint32_t h;
    memcpy(&h, uid, sizeof h); /* uids are random */
    return h;
}

static void index_put(mad_session_t *s, mad_peer_t peer)
{
    uint32_t i = uid_hash(madi_address_uid(s->peers[peer].address)) & (s->cap_index - 1);
    while (s->peer_index[i])
        i = (i + 1) & (s->cap_index - 1);
    s->peer_index[i] = (uint32_t)peer + 1;
    s->n_index++;
}

static mad_status_t index_grow(mad_session_t *s)
{
    uint32_t cap = s->cap_index ? s->cap_index * 2 : 64;
    uint32_t *p;
    if ((s->n_index + 1) * 4 < s->cap_index * 3)
        return MAD_OK;
    p = calloc(cap, sizeof *p);
    if (!p)
        return MAD_ERR_NOMEM;
    free(s->peer_index);
    s->peer_index = p;
    s->cap_index = cap;
    s->n_index = 0;
    for (uint32_t i = s->n_peers; i-- > 0;) /* of several with one identity the last is found */
        if (s->peers[i].address)
            index_put(s, (mad_peer_t)i);
    return MAD_OK;
}

static mad_peer_t find(mad_session_t *s, const unsigned char *uid)
{
    if (!s->cap_index)
        return -1;
    for (uint32_t i = uid_hash(uid) & (s->cap_index - 1); s->peer_index[i]; i = (i + 1) & (s->cap_index - 1)) {
        mad_peer_t peer = (mad_peer_t)s->peer_index[i] - 1;
        if (!memcmp(madi_address_uid(s->peers[peer].address), uid, 16))
            return peer;
    }
    return -1;
}

static mad_status_t set_address(mad_session_t *s, mad_peer_t peer, const unsigned char *address, size_t len)
{
    if (index_grow(s))
        return MAD_ERR_NOMEM;
    s->peers[peer].address = malloc(len);
    if (!s->peers[peer].address)
        return MAD_ERR_NOMEM;
    memcpy(s->peers[peer].address, address, len);
    index_put(s, peer);
    return MAD_OK;
}

static mad_status_t room(mad_session_t *s)
{
    uint32_t cap = s->cap_peers ? s->cap_peers + s->cap_peers / 2 + 16 : 16;
    madi_peer_t *p;
    if (s->n_peers < s->cap_peers)
        return MAD_OK;
    if (cap < (uint32_t)s->size + 1)
        cap = (uint32_t)s->size + 1;
    p = realloc(s->peers, cap * sizeof *p);
    if (!p)
        return MAD_ERR_NOMEM;
    s->peers = p;
    s->cap_peers = cap;
    return MAD_OK;
}

/* Before the first real address: entries for the ranks. */
static mad_status_t ranks(mad_session_t *s)
{
    while (s->n_peers < (uint32_t)s->size) {
        if (room(s))
            return MAD_ERR_NOMEM;
        s->peers[s->n_peers++] = (madi_peer_t){NULL, NULL};
    }
    if (!s->peers[s->rank].address)
        return set_address(s, s->rank, s->address, s->address_len);
    return MAD_OK;
}

mad_status_t madi_peer_add(mad_session_t *s, const unsigned char *address, size_t len, mad_peer_t *peer)
{
    mad_status_t status = ranks(s);
    mad_peer_t p;
    int rank;
    if (status)
        return status;
    p = find(s, madi_address_uid(address));
    rank = madi_address_rank(address, s->job);
    if (p < 0 && s->boot && rank >= 0 && rank < s->size && !s->peers[rank].address) {
        p = rank;
        if (set_address(s, p, address, len))
            return MAD_ERR_NOMEM;
    } else if (p < 0) {
        if (room(s))
            return MAD_ERR_NOMEM;
        p = (mad_peer_t)s->n_peers;
        s->peers[p] = (madi_peer_t){NULL, NULL};
        if (set_address(s, p, address, len))
            return MAD_ERR_NOMEM;
        s->n_peers++;
    }
    *peer = p;
    return MAD_OK;
}

/* ---- Gates --------------------------------------------------------------------------------------------------------- */

int madi_lanes(mad_session_t *s)
{
    return s->forward ? s->forward->lanes(s) : 1;
}

bool madi_lane_carries(mad_session_t *s, int lane)
{
    return lane && s->forward->carries(s, lane);
}

madi_gate_t *madi_peer_gate_find(const mad_session_t *s, mad_peer_t peer, int lane)
{
    const madi_lane_t *l = lane && s->lanes ? &s->lanes[lane - 1] : NULL;
    if (!lane)
        return s->peers[peer].gate;
    return l && (uint32_t)peer < l->n ? l->gate[peer] : NULL;
}

/* Where its gate on that lane stands, or is to stand; NULL: no memory. */
static madi_gate_t **gate_at(mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_lane_t *l;
    madi_gate_t **grown;
    if (!lane)
        return &s->peers[peer].gate;
    if (!s->lanes && !(s->lanes = calloc((size_t)madi_lanes(s), sizeof *s->lanes)))
        return NULL;
    l = &s->lanes[lane - 1];
    if ((uint32_t)peer >= l->n) {
        grown = realloc(l->gate, s->cap_peers * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + l->n, 0, (s->cap_peers - l->n) * sizeof *grown);
        l->gate = grown;
        l->n = s->cap_peers;
    }
    return &l->gate[peer];
}

static bool is_down(const madi_gate_t *gate)
{
    return gate && atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_DOWN;
}

/* lane -1: on any on which there are messages */
static bool is_lost(mad_session_t *s, mad_peer_t peer, int lane)
{
    if (lane >= 0)
        return is_down(madi_peer_gate_find(s, peer, lane));
    for (int i = 0; i < madi_lanes(s); i++)
        if (!madi_lane_carries(s, i) && is_down(madi_peer_gate_find(s, peer, i)))
            return true;
    return false;
}

/* Lanes on which it is not lost are the same for both numbers. */
static mad_status_t gates_share(mad_session_t *s, mad_peer_t from, mad_peer_t to)
{
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = madi_peer_gate_find(s, from, lane), **at;
        if (!gate || is_down(gate))
            continue;
        if (!(at = gate_at(s, to, lane)))
            return MAD_ERR_NOMEM;
        *at = gate;
    }
    return MAD_OK;
}

/* The index then finds the new number. */
mad_status_t madi_peer_again(mad_session_t *s, mad_peer_t lost, int lane, bool quiet, mad_peer_t *peer)
{
    const unsigned char *address = s->peers[lost].address;
    size_t len = madi_address_len(address);
    unsigned char *copy = malloc(len);
    madi_gate_t *gate;
    mad_status_t status = copy ? room(s) : MAD_ERR_NOMEM;
    if (!status && find(s, madi_address_uid(address)) != lost)
        status = MAD_ERR_INVAL;
    if (status) {
        free(copy);
        return status;
    }
    memcpy(copy, address, len);
    for (uint32_t i = uid_hash(madi_address_uid(copy)) & (s->cap_index - 1);; i = (i + 1) & (s->cap_index - 1))
        if (s->peer_index[i] == (uint32_t)lost + 1) {
            s->peer_index[i] = s->n_peers + 1;
            break;
        }
    s->peers[s->n_peers] = (madi_peer_t){NULL, copy};
    *peer = (mad_peer_t)s->n_peers++;
    status = gates_share(s, lost, *peer);
    if (!status)
        status = madi_peer_gate(s, *peer, lane, &gate);
    if (!status)
        gate->quiet = quiet;
    return status;
}

mad_status_t madi_peer_add_anew(mad_session_t *s, const unsigned char *address, size_t len, int lane, mad_peer_t *peer)
{
    mad_peer_t p;
    mad_status_t status = madi_peer_add(s, address, len, &p);
    if (!status && is_lost(s, p, lane))
        status = madi_peer_again(s, p, lane < 0 ? 0 : lane, false, &p);
    if (!status)
        *peer = p;
    return status;
}

static mad_status_t fetch_one(mad_session_t *s, mad_peer_t peer)
{
    unsigned char bytes[MADI_ADDRESS_MAX];
    size_t n, len;
    mad_status_t status = madi_exchange_get(s->boot, peer, bytes, &n);
    if (status)
        return status;
    if (madi_address_check(bytes, n, &len) != MAD_OK || madi_address_rank(bytes, s->job) != peer) {
        madi_log(MADI_LOG_ERROR, "core",
                 "what the launcher gave as the address of rank %d is %s: start with another launcher (madrun, mpiexec)",
                 peer, madi_address_check(bytes, n, &len) ? "not an address" : "the address of another process");
        return MAD_ERR_BOOT;
    }
    return set_address(s, peer, bytes, len);
}

/* Who asks for many gets them many at a time: a launcher far away answers one by one as slowly as it is far. */
mad_status_t madi_peer_fetch(mad_session_t *s, mad_peer_t peer)
{
    int rank[MADI_BOOT_AHEAD], n = 0;
    mad_status_t status;
    for (mad_peer_t p = peer; p < s->size && n <= s->fetched && n < (s->boot->ops->ahead ? MADI_BOOT_AHEAD : 1); p++)
        if (!s->peers[p].address)
            rank[n++] = p;
    if (n > 1)
        s->boot->ops->ahead(s->boot, "mad-addr", rank, n);
    status = fetch_one(s, peer);
    for (int i = 1; i < n && !status && fetch_one(s, rank[i]) == MAD_OK; i++)
        ;
    s->fetched += n;
    return status;
}

static madi_gate_t *gate_new(mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_gate_t *g = calloc(1, sizeof *g);
    if (g)
        g->sends = madi_handles_new();
    if (!g || !g->sends) {
        free(g);
        return NULL;
    }
    g->session = s;
    g->peer = peer;
    g->lane = lane;
    g->ctrl_tail = &g->ctrl;
    g->granted_tail = &g->granted;
    if (lane)
        snprintf(g->why, sizeof g->why, "channel %s", s->forward->lane_name(s, lane));
    g->next = s->gates;
    s->gates = g;
    return g;
}

mad_status_t madi_peer_gate(mad_session_t *s, mad_peer_t peer, int lane, madi_gate_t **out)
{
    mad_status_t status = ranks(s);
    madi_gate_t **at;
    if (status)
        return status;
    if (peer < 0 || (uint32_t)peer >= s->n_peers)
        return MAD_ERR_INVAL;
    if (!s->peers[peer].address && (status = madi_peer_fetch(s, peer)))
        return status;
    if (!memcmp(madi_address_uid(s->peers[peer].address), s->uid, sizeof s->uid))
        lane = 0; /* this process itself: no network is needed */
    at = gate_at(s, peer, lane);
    if (at && !*at)
        *at = gate_new(s, peer, lane);
    if (!at || !*at)
        return MAD_ERR_NOMEM;
    *out = *at;
    return MAD_OK;
}

mad_status_t mad_peer_add(mad_session_t *session, const void *address, size_t len, mad_peer_t *peer)
{
    size_t used;
    mad_status_t status = madi_session_usable(session);
    if (!status)
        status = madi_address_check(address, len, &used);
    if (status)
        return status;
    madi_lock(&session->lock);
    status = madi_peer_add_anew(session, address, used, -1, peer);
    madi_unlock(&session->lock);
    return status;
}

mad_status_t mad_address(mad_session_t *session, const void **address, size_t *len)
{
    *address = session->address;
    *len = session->address_len;
    return MAD_OK;
}
