/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers: their addresses, and the gates of those with which communication has begun. */
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/link/ledger.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/wire/address.h"
#include "core/wire/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t uid_hash(const unsigned char *uid)
{
    uint32_t h;
    memcpy(&h, uid, sizeof h); /* the identity is random, so its first bytes serve as the hash */
    return h;
}

/* ---- Numbers: each is given once, to the end of the session ------------------------------------------------------- */

/* Return the entry of a number: its low bits are the index.  A number is given only if its entry is free.  So it
 * suffices that a quarter of the table is free, however many numbers were given. */
static madi_peer_t *place_of(const mad_session_t *s, mad_peer_t peer)
{
    return &s->connect->peers[(uint32_t)peer & (s->connect->cap_peers - 1)];
}

madi_peer_t *madi_peer_at(const mad_session_t *s, mad_peer_t peer)
{
    madi_peer_t *p = s->connect->cap_peers && peer >= 0 ? place_of(s, peer) : NULL;
    return p && p->number == peer ? p : NULL;
}

const unsigned char *madi_peer_address(const mad_session_t *s, mad_peer_t peer)
{
    const madi_peer_t *p = madi_peer_at(s, peer);
    return p ? p->address : NULL;
}

static mad_status_t table_grow(mad_session_t *s, uint32_t cap)
{
    madi_peer_t *old = s->connect->peers, *p = malloc(cap * sizeof *p);
    uint32_t was = s->connect->cap_peers;
    if (!p)
        return MAD_ERR_NOMEM;
    for (uint32_t i = 0; i < cap; i++)
        p[i] = (madi_peer_t){.number = -1};
    s->connect->peers = p;
    s->connect->cap_peers = cap;
    for (uint32_t i = 0; i < was; i++)
        if (old[i].number >= 0)
            *place_of(s, old[i].number) = old[i];
    free(old);
    return MAD_OK;
}

static mad_status_t table_reserve(mad_session_t *s)
{
    uint32_t cap = s->connect->cap_peers ? s->connect->cap_peers : 16,
             least = (s->connect->n_peers > (uint32_t)s->size ? s->connect->n_peers : (uint32_t)s->size) + 1;
    while (cap / 4 * 3 < least)
        cap *= 2;
    return cap == s->connect->cap_peers ? MAD_OK : table_grow(s, cap);
}

/* Make a peer without an address, with a number of its own; NULL if out of memory, or if no number is left. */
static madi_peer_t *peer_new(mad_session_t *s)
{
    if (table_reserve(s))
        return NULL;
    while (s->connect->next_peer < INT32_MAX && place_of(s, s->connect->next_peer)->number >= 0)
        s->connect->next_peer++;
    if (s->connect->next_peer == INT32_MAX)
        return NULL;
    *place_of(s, s->connect->next_peer) = (madi_peer_t){.number = s->connect->next_peer};
    s->connect->n_peers++;
    return place_of(s, s->connect->next_peer++);
}

/* Reference to the gate of the peer that has announced another peer; stored behind the announced peer's address. */
typedef struct announcer {
    mad_peer_t peer;
    int lane;
} announcer_t;

static int64_t announced_cost(const madi_peer_t *p)
{
    return (int64_t)(sizeof *p + sizeof(announcer_t) + madi_address_len(p->address));
}

/* Return the gate of the peer that has announced p; NULL if that gate was released. */
static madi_gate_t *announcer_gate(const mad_session_t *s, const madi_peer_t *p)
{
    announcer_t announcer;
    memcpy(&announcer, p->address + madi_address_len(p->address), sizeof announcer);
    return madi_peer_gate_find(s, announcer.peer, announcer.lane);
}

static void announcer_uncharge(mad_session_t *s, const madi_peer_t *p)
{
    madi_gate_t *gate = announcer_gate(s, p);
    if (gate)
        madi_uncharge(gate, MADI_CHARGE_PEERS, announced_cost(p));
    else
        madi_uncharge_orphan(s, MADI_CHARGE_PEERS, announced_cost(p));
}

static void announced_end(mad_session_t *s, madi_peer_t *p)
{
    if (p->announced)
        announcer_uncharge(s, p);
    p->announced = false;
}

static void peer_free(mad_session_t *s, madi_peer_t *p)
{
    announced_end(s, p);
    free(p->address);
    free(p->lanes);
    *p = (madi_peer_t){.number = -1};
    s->connect->n_peers--;
}

/* ---- The index by identity ------------------------------------------------------------------------------------------- */

static uint32_t peer_hash(const mad_session_t *s, mad_peer_t peer)
{
    return uid_hash(madi_address_uid(madi_peer_address(s, peer))) & (s->connect->cap_index - 1);
}

static void index_put(mad_session_t *s, mad_peer_t peer)
{
    uint32_t i = peer_hash(s, peer);
    while (s->connect->peer_index[i])
        i = (i + 1) & (s->connect->cap_index - 1);
    s->connect->peer_index[i] = (uint32_t)peer + 1;
    s->connect->n_index++;
}

static mad_status_t index_grow(mad_session_t *s)
{
    uint32_t cap = s->connect->cap_index ? s->connect->cap_index * 2 : 64, was = s->connect->cap_index,
             *old = s->connect->peer_index, *p;
    if ((s->connect->n_index + 1) * 4 < s->connect->cap_index * 3)
        return MAD_OK;
    p = calloc(cap, sizeof *p);
    if (!p)
        return MAD_ERR_NOMEM;
    s->connect->peer_index = p;
    s->connect->cap_index = cap;
    s->connect->n_index = 0;
    for (uint32_t i = 0; i < was; i++)
        if (old[i])
            index_put(s, (mad_peer_t)old[i] - 1);
    free(old);
    return MAD_OK;
}

/* Return the position of a peer in the index.  cap_index if the index has a newer number for the same identity. */
static uint32_t index_at(const mad_session_t *s, mad_peer_t peer)
{
    for (uint32_t i = peer_hash(s, peer); s->connect->peer_index[i]; i = (i + 1) & (s->connect->cap_index - 1))
        if (s->connect->peer_index[i] == (uint32_t)peer + 1)
            return i;
    return s->connect->cap_index;
}

/* Remove a peer from the index.  Entries behind it that a search would no longer find across the gap move up. */
static void index_del(mad_session_t *s, mad_peer_t peer)
{
    uint32_t gap = index_at(s, peer), mask = s->connect->cap_index - 1;
    if (gap == s->connect->cap_index)
        return;
    for (uint32_t i = (gap + 1) & mask; s->connect->peer_index[i]; i = (i + 1) & mask)
        if (((i - peer_hash(s, (mad_peer_t)s->connect->peer_index[i] - 1)) & mask) >= ((i - gap) & mask)) {
            s->connect->peer_index[gap] = s->connect->peer_index[i];
            gap = i;
        }
    s->connect->peer_index[gap] = 0;
    s->connect->n_index--;
}

static mad_peer_t index_find(mad_session_t *s, const unsigned char *uid)
{
    if (!s->connect->cap_index)
        return -1;
    for (uint32_t i = uid_hash(uid) & (s->connect->cap_index - 1); s->connect->peer_index[i];
         i = (i + 1) & (s->connect->cap_index - 1)) {
        mad_peer_t peer = (mad_peer_t)s->connect->peer_index[i] - 1;
        if (!memcmp(madi_address_uid(madi_peer_address(s, peer)), uid, 16))
            return peer;
    }
    return -1;
}

static mad_status_t peer_set_address(mad_session_t *s, madi_peer_t *p, const unsigned char *address, size_t len)
{
    if (index_grow(s))
        return MAD_ERR_NOMEM;
    p->address = malloc(len + sizeof(announcer_t));
    if (!p->address)
        return MAD_ERR_NOMEM;
    memcpy(p->address, address, len);
    index_put(s, p->number);
    return MAD_OK;
}

/* ---- Adding
 * ------------------------------------------------------------------------------------------------------------ */

/* Make the entries of the ranks, before any other peer. */
static mad_status_t ranks_add(mad_session_t *s)
{
    madi_peer_t *own;
    while (s->connect->next_peer < s->size)
        if (!peer_new(s))
            return MAD_ERR_NOMEM;
    own = madi_peer_at(s, s->rank);
    return own->address ? MAD_OK : peer_set_address(s, own, s->address, s->address_len);
}

static bool peer_has_address(const mad_session_t *s, mad_peer_t peer, const unsigned char *address, size_t len)
{
    const unsigned char *known = madi_peer_address(s, peer);
    return known && madi_address_len(known) == len && !memcmp(known, address, len);
}

/* Add a peer, or find it by its identity.  claimed: the address is known from a peer only, and not confirmed yet. */
static mad_status_t peer_add(mad_session_t *s, const unsigned char *address, size_t len, bool claimed, mad_peer_t *peer)
{
    mad_status_t status = ranks_add(s);
    mad_peer_t p;
    int rank;
    if (status)
        return status;
    p = index_find(s, madi_address_uid(address));
    if (p >= 0 && !claimed && peer_has_address(s, p, address, len))
        madi_peer_at(s, p)->claimed = false;
    rank = madi_address_rank(address, s->job);
    if (p < 0 && s->boot && rank >= 0 && rank < s->size && !madi_peer_address(s, rank)) {
        p = rank;
        if (peer_set_address(s, madi_peer_at(s, p), address, len))
            return MAD_ERR_NOMEM;
        madi_peer_at(s, p)->claimed = claimed;
    } else if (p < 0) {
        madi_peer_t *made = peer_new(s);
        if (!made)
            return MAD_ERR_NOMEM;
        if (peer_set_address(s, made, address, len)) {
            peer_free(s, made);
            return MAD_ERR_NOMEM;
        }
        made->claimed = claimed;
        p = made->number;
    }
    *peer = p;
    return MAD_OK;
}

mad_status_t madi_peer_add(mad_session_t *s, const unsigned char *address, size_t len, mad_peer_t *peer)
{
    return peer_add(s, address, len, false, peer);
}

mad_peer_t madi_peer_find(mad_session_t *s, const unsigned char *address)
{
    return index_find(s, madi_address_uid(address));
}

mad_status_t madi_peer_learn(madi_gate_t *announcer, const unsigned char *address, size_t len, mad_peer_t *peer)
{
    mad_session_t *s = announcer->session;
    int64_t cost = (int64_t)(sizeof(madi_peer_t) + sizeof(announcer_t) + len);
    announcer_t by = {announcer->peer, announcer->lane};
    mad_status_t status;
    *peer = madi_peer_find(s, address);
    if (*peer >= 0)
        return MAD_OK;
    if (!madi_charge(announcer, MADI_CHARGE_PEERS, cost))
        return MAD_ERR_BUSY;
    status = peer_add(s, address, len, true, peer);
    if (status) {
        madi_uncharge(announcer, MADI_CHARGE_PEERS, cost);
    } else {
        madi_peer_t *p = madi_peer_at(s, *peer);
        p->announced = true;
        memcpy(p->address + len, &by, sizeof by);
    }
    return status;
}

void madi_peer_proved(mad_session_t *s, mad_peer_t peer, bool reached)
{
    madi_peer_t *p = madi_peer_at(s, peer);
    if (!p)
        return;
    announced_end(s, p);
    if (reached)
        p->claimed = false;
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
    const madi_peer_t *p = madi_peer_at(s, peer);
    if (!p || !lane)
        return p ? p->gate : NULL;
    return p->lanes ? p->lanes[lane - 1] : NULL;
}

/* Return the address of the pointer to the peer's gate on this lane; the pointer may still be NULL.  Return NULL if out of
 * memory. */
static madi_gate_t **gate_at(mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_peer_t *p = madi_peer_at(s, peer);
    if (!lane)
        return &p->gate;
    if (!p->lanes && !(p->lanes = calloc((size_t)madi_lanes(s) - 1, sizeof(madi_gate_t *))))
        return NULL;
    return &p->lanes[lane - 1];
}

static bool gate_is_down(const madi_gate_t *gate)
{
    return gate && atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_DOWN;
}

/* True if the peer is lost on that lane; lane -1: on any lane with messages. */
static bool peer_is_lost(mad_session_t *s, mad_peer_t peer, int lane)
{
    if (lane >= 0)
        return gate_is_down(madi_peer_gate_find(s, peer, lane));
    for (int i = 0; i < madi_lanes(s); i++)
        if (!madi_lane_carries(s, i) && gate_is_down(madi_peer_gate_find(s, peer, i)))
            return true;
    return false;
}

/* Share the gates of a peer with its new number, on lanes on which it is not lost. */
static mad_status_t gates_share(mad_session_t *s, mad_peer_t from, mad_peer_t to)
{
    for (int lane = 0; lane < madi_lanes(s); lane++) {
        madi_gate_t *gate = madi_peer_gate_find(s, from, lane), **at;
        if (!gate || gate_is_down(gate))
            continue;
        if (!(at = gate_at(s, to, lane)))
            return MAD_ERR_NOMEM;
        *at = gate;
        gate->connect->sharers++;
    }
    return MAD_OK;
}

/* True if p may get a second number: its announcer could be charged for that number, or p has been connected, so that
 * its announcer is not charged any more. */
static bool announcer_charge_again(mad_session_t *s, const madi_peer_t *p)
{
    madi_gate_t *gate = p->announced ? announcer_gate(s, p) : NULL;
    return !p->announced || (gate && madi_charge(gate, MADI_CHARGE_PEERS, announced_cost(p)));
}

/* Give a lost peer a new number, which look-ups by address find from here on. */
mad_status_t madi_peer_renumber(mad_session_t *s, mad_peer_t lost, int lane, bool quiet, mad_peer_t *peer)
{
    madi_peer_t *from = madi_peer_at(s, lost), *to;
    size_t len = madi_address_len(from->address);
    unsigned char *copy;
    madi_gate_t *gate;
    mad_status_t status;
    if (index_find(s, madi_address_uid(from->address)) != lost)
        return MAD_ERR_INVAL;
    if (!announcer_charge_again(s, from))
        return MAD_ERR_INVAL;
    copy = malloc(len + sizeof(announcer_t));
    to = copy ? peer_new(s) : NULL;
    from = madi_peer_at(s, lost); /* the table may have grown */
    if (!to) {
        free(copy);
        if (from->announced)
            announcer_uncharge(s, from);
        return MAD_ERR_NOMEM;
    }
    to->announced = from->announced;
    memcpy(copy, from->address, len + (from->announced ? sizeof(announcer_t) : 0));
    to->address = copy;
    to->kept = from->kept;
    to->claimed = from->claimed;
    s->connect->peer_index[index_at(s, lost)] = (uint32_t)to->number + 1;
    *peer = to->number;
    status = gates_share(s, lost, *peer);
    if (!status)
        status = madi_peer_gate(s, *peer, lane, &gate);
    if (!status)
        gate->connect->quiet = quiet;
    return status;
}

mad_status_t madi_peer_add_anew(mad_session_t *s, const unsigned char *address, size_t len, int lane, mad_peer_t *peer)
{
    mad_peer_t p;
    /* with a lane, only other peers have reported the address */
    mad_status_t status = peer_add(s, address, len, lane >= 0, &p);
    if (!status && peer_is_lost(s, p, lane))
        status = madi_peer_renumber(s, p, lane < 0 ? 0 : lane, false, &p);
    if (!status)
        *peer = p;
    return status;
}

static mad_status_t peer_fetch_one(mad_session_t *s, mad_peer_t peer)
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
    return peer_set_address(s, madi_peer_at(s, peer), bytes, len);
}

/* Fetch a rank's address.  After some fetches several are fetched at a time, since a distant launcher takes a round trip
 * for each. */
mad_status_t madi_peer_fetch(mad_session_t *s, mad_peer_t peer)
{
    int rank[MADI_BOOT_AHEAD], n = 0;
    mad_status_t status;
    for (mad_peer_t p = peer; p < s->size && n <= s->connect->fetched && n < (s->boot->ops->ahead ? MADI_BOOT_AHEAD : 1);
         p++)
        if (!madi_peer_address(s, p))
            rank[n++] = p;
    if (n > 1)
        s->boot->ops->ahead(s->boot, "mad-addr", rank, n);
    status = peer_fetch_one(s, peer);
    for (int i = 1; i < n && !status && peer_fetch_one(s, rank[i]) == MAD_OK; i++)
        ;
    s->connect->fetched += n;
    return status;
}

/* Return the status for a number without a peer: MAD_ERR_PEER if the peer was released, MAD_ERR_INVAL if the number was
 * never given. */
static mad_status_t unknown_peer_status(const mad_session_t *s, mad_peer_t peer)
{
    return peer >= 0 && peer < s->connect->next_peer ? MAD_ERR_PEER : MAD_ERR_INVAL;
}

mad_status_t madi_peer_know(mad_session_t *s, mad_peer_t peer)
{
    mad_status_t status = ranks_add(s);
    if (status)
        return status;
    if (!madi_peer_at(s, peer))
        return unknown_peer_status(s, peer);
    return madi_peer_address(s, peer) ? MAD_OK : madi_peer_fetch(s, peer);
}

mad_status_t madi_peer_gate(mad_session_t *s, mad_peer_t peer, int lane, madi_gate_t **out)
{
    mad_status_t status = madi_peer_know(s, peer);
    madi_gate_t **at;
    if (status)
        return status;
    if (!memcmp(madi_address_uid(madi_peer_address(s, peer)), s->uid, sizeof s->uid))
        lane = 0; /* the peer is this process itself, which needs no network, so lane 0 suffices */
    at = gate_at(s, peer, lane);
    if (at && !*at)
        *at = madi_gate_new(s, peer, lane);
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
    if (!status)
        madi_peer_at(session, *peer)->kept = true;
    madi_unlock(&session->lock);
    return status;
}

mad_status_t mad_address(mad_session_t *session, const void **address, size_t *len)
{
    *address = session->address;
    *len = session->address_len;
    return MAD_OK;
}

/* Free a peer's entry.  Precondition: the peer has no gate. */
void madi_peer_drop(mad_session_t *s, madi_peer_t *p)
{
    if (p->address)
        index_del(s, p->number);
    peer_free(s, p);
}
