/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: the entries of peers, which are made for the first operation of either side; peers that are lost or
 * released. */
#include "core/conn/request.h"
#include "core/connect/peer.h"
#include "core/memory/memory.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/wire/address.h"

#include <stdlib.h>
#include <string.h>

/* ---- The table; under memory->lock ------------------------------------------------------------------------------ */

static madi_memory_peer_t **entry_place(const struct madi_memory_session *memory, mad_peer_t number)
{
    return &memory->peers[(uint32_t)number & (memory->n_peers - 1)];
}

/* Replace the table by one of n places.  Return false if out of memory. */
static bool entries_grow(struct madi_memory_session *memory, uint32_t n)
{
    madi_memory_peer_t **old = memory->peers;
    uint32_t was = memory->n_peers;
    madi_memory_peer_t **p = calloc(n, sizeof *p);
    if (!p)
        return false;
    memory->peers = p;
    memory->n_peers = n;
    for (uint32_t i = 0; i < was; i++)
        if (old[i])
            *entry_place(memory, old[i]->peer) = old[i];
    free(old);
    return true;
}

/* Make room for a peer's entry.  Return false if out of memory.  Peers that are not released have different places in the
 * table of peers, so this table never needs to be larger than that one. */
static bool entries_reserve(struct madi_memory_session *memory, mad_peer_t number)
{
    while (!memory->n_peers || *entry_place(memory, number))
        if (!entries_grow(memory, memory->n_peers ? 2 * memory->n_peers : 8))
            return false;
    return true;
}

/* ---- Entries ---------------------------------------------------------------------------------------------------- */

static void operations_lost(void *arg, mad_status_t status)
{
    madi_memory_fail(arg, status);
    madi_memory_peer_end(arg);
}

static madi_memory_peer_t *entry_new(mad_session_t *session, mad_peer_t number)
{
    madi_memory_peer_t *peer = calloc(1, sizeof *peer);
    mad_request_t *lost = peer ? madi_request_new(session, false) : NULL;
    if (!lost) {
        free(peer);
        return NULL;
    }
    peer->session = session;
    peer->peer = number;
    peer->uses = 1;
    lost->callback = operations_lost;
    lost->arg = peer;
    lost->counted = 0; /* not counted as pending, because the channel's handler already keeps the progress thread at work */
    atomic_store_explicit(&lost->state, MADI_REQUEST_CALLBACK, memory_order_relaxed);
    peer->lost = lost;
    return peer;
}

/* Find or make the entry of a peer; NULL if out of memory.  Under both locks. */
static madi_memory_peer_t *entry_get(mad_session_t *session, mad_peer_t number)
{
    struct madi_memory_session *memory = session->memory;
    const unsigned char *address = madi_peer_address(session, number);
    madi_memory_peer_t *peer = madi_memory_peer_find(memory, number);
    if (!peer && entries_reserve(memory, number))
        *entry_place(memory, number) = peer = entry_new(session, number);
    if (peer && address && !peer->uid_known) {
        memcpy(peer->uid, madi_address_uid(address), sizeof peer->uid);
        peer->uid_known = true;
    }
    return peer;
}

/* Like madi_memory_peer, under session->lock. */
static mad_status_t entry_use(mad_session_t *session, mad_peer_t number, madi_memory_peer_t **entry)
{
    madi_memory_peer_t *peer;
    if (!madi_peer_at(session, number))
        return MAD_ERR_PEER;
    madi_lock(&session->memory->lock);
    peer = entry_get(session, number);
    if (peer)
        peer->uses++;
    madi_unlock(&session->memory->lock);
    if (!peer)
        return MAD_ERR_NOMEM;
    *entry = peer;
    return MAD_OK;
}

mad_status_t madi_memory_peer(mad_session_t *session, mad_peer_t number, madi_memory_peer_t **entry)
{
    struct madi_memory_session *memory = session->memory;
    madi_memory_peer_t *peer;
    mad_status_t status;
    madi_lock(&memory->lock);
    peer = madi_memory_peer_find(memory, number);
    if (peer && peer->uid_known)
        peer->uses++;
    else
        peer = NULL;
    madi_unlock(&memory->lock);
    if (peer) {
        *entry = peer;
        return MAD_OK;
    }
    madi_lock(&session->lock);
    status = entry_use(session, number, entry);
    madi_unlock(&session->lock);
    return status;
}

void madi_memory_peer_check(madi_memory_peer_t *peer)
{
    madi_memory_peer_t **p = &peer->session->memory->released;
    if (MADI_LIKELY(!peer->released) || peer->uses || peer->served || peer->first)
        return;
    while (*p != peer)
        p = &(*p)->next_released;
    *p = peer->next_released;
    free(peer);
}

void madi_memory_peer_end(madi_memory_peer_t *peer)
{
    struct madi_memory_session *memory = peer->session->memory;
    madi_lock(&memory->lock);
    peer->uses--;
    madi_memory_peer_check(peer);
    madi_unlock(&memory->lock);
}

/* ---- Lost and released peers ------------------------------------------------------------------------------------ */

void madi_memory_gate_lost(madi_gate_t *gate)
{
    struct madi_memory_session *memory = gate->session->memory;
    mad_channel_t *channel = atomic_load_explicit(&memory->channel, memory_order_acquire);
    madi_memory_peer_t *peer;
    mad_request_t *lost = NULL;
    if (!channel || channel->lane != gate->lane)
        return;
    madi_lock(&memory->lock);
    peer = madi_memory_peer_find(memory, gate->peer);
    if (peer) {
        lost = peer->lost;
        peer->lost = NULL;
        madi_memory_maps_drop(peer);
    }
    madi_unlock(&memory->lock);
    if (lost)
        madi_request_complete(lost, gate->status);
}

void madi_memory_peer_released(mad_session_t *session, mad_peer_t number)
{
    struct madi_memory_session *memory = session->memory;
    madi_memory_peer_t *peer;
    madi_lock(&memory->lock);
    peer = madi_memory_peer_find(memory, number);
    if (peer) {
        *entry_place(memory, number) = NULL;
        madi_memory_maps_drop(peer);
        peer->uses -= peer->lost != NULL; /* the entry was made after the loss, so no callback will run */
        free(peer->lost);
        peer->lost = NULL;
        peer->released = true;
        peer->next_released = memory->released;
        memory->released = peer;
        madi_memory_peer_check(peer);
    }
    madi_unlock(&memory->lock);
}

static void entry_free(madi_memory_peer_t *peer)
{
    if (!peer)
        return;
    madi_memory_maps_drop(peer);
    free(peer->lost);
    free(peer);
}

void madi_memory_peers_free(struct madi_memory_session *memory)
{
    for (madi_memory_peer_t *peer; (peer = memory->released);) {
        memory->released = peer->next_released;
        entry_free(peer);
    }
    for (uint32_t i = 0; i < memory->n_peers; i++)
        entry_free(memory->peers[i]);
    free(memory->peers);
}
