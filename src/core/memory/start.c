/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: this folder's part of a session; the channel; peers, and their loss. */
#include "base/static_mutex.h"
#include "core/conn/request.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/object/gate.h"
#include "core/wire/address.h"
#include "core/wire/handle.h"

#include <stdlib.h>
#include <string.h>

static madi_static_mutex_t starting = MADI_STATIC_MUTEX;

/* ---- Part of a session ---------------------------------------------------------------------------------------- */

struct madi_memory_session *madi_memory_session_new(void)
{
    struct madi_memory_session *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->blocks = madi_handles_new();
    memory->ops = madi_handles_new();
    if (memory->blocks && memory->ops)
        return memory;
    madi_handles_free(memory->blocks);
    madi_handles_free(memory->ops);
    free(memory);
    return NULL;
}

void madi_memory_session_free(mad_session_t *session)
{
    struct madi_memory_session *memory = session->memory;
    if (!memory)
        return;
    marceli_progress_count_serving(-(int)memory->serves);
    for (struct mad_memory *block; (block = memory->first);) {
        memory->first = block->next;
        madi_memory_block_free(block);
    }
    for (uint32_t i = 0; i < memory->n_peers; i++) {
        if (memory->peers[i]) {
            madi_memory_maps_drop(memory->peers[i]);
            free(memory->peers[i]->lost);
        }
        free(memory->peers[i]);
    }
    free(memory->peers);
    madi_handles_free(memory->blocks);
    madi_handles_free(memory->ops);
    free(memory);
    session->memory = NULL;
}

/* ---- Lost peers ----------------------------------------------------------------------------------------------- */

/* Report that a gate is down to the peer's operations, after the answers that have arrived.  Under session->lock. */
static void gate_lost(madi_gate_t *gate)
{
    struct madi_memory_session *memory = gate->session->memory;
    mad_channel_t *channel = atomic_load_explicit(&memory->channel, memory_order_acquire);
    mad_request_t *lost = NULL;
    if (!channel || channel->lane != gate->lane)
        return;
    madi_lock(&memory->lock);
    if (gate->peer >= 0 && (uint32_t)gate->peer < memory->n_peers && memory->peers[gate->peer]) {
        lost = memory->peers[gate->peer]->lost;
        memory->peers[gate->peer]->lost = NULL;
        madi_memory_maps_drop(memory->peers[gate->peer]);
    }
    madi_unlock(&memory->lock);
    if (lost)
        madi_request_complete(lost, gate->status);
}

static void operations_lost(void *arg, mad_status_t status)
{
    madi_memory_fail(arg, status);
}

/* ---- Peers ---------------------------------------------------------------------------------------------------- */

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
    lost->callback = operations_lost;
    lost->arg = peer;
    lost->counted = 0; /* not counted as pending, because the channel's handler already keeps the progress thread at work */
    atomic_store_explicit(&lost->state, MADI_REQUEST_CALLBACK, memory_order_relaxed);
    peer->lost = lost;
    return peer;
}

/* Make room in the table for a peer's number.  Return false if out of memory.  Under memory->lock. */
static bool entries_reserve(struct madi_memory_session *memory, uint32_t number)
{
    uint32_t n = memory->n_peers ? memory->n_peers : 8;
    madi_memory_peer_t **p;
    if (number < memory->n_peers)
        return true;
    while (n <= number)
        n *= 2;
    p = realloc(memory->peers, n * sizeof *p);
    if (!p)
        return false;
    memset(p + memory->n_peers, 0, (n - memory->n_peers) * sizeof *p);
    memory->peers = p;
    memory->n_peers = n;
    return true;
}

/* Under session->lock. */
static madi_memory_peer_t *entry_make(mad_session_t *session, mad_peer_t number)
{
    struct madi_memory_session *memory = session->memory;
    const unsigned char *address = madi_peer_address(session, number);
    madi_memory_peer_t *peer = NULL;
    madi_lock(&memory->lock);
    if (entries_reserve(memory, (uint32_t)number)) {
        if (!memory->peers[number])
            memory->peers[number] = entry_new(session, number);
        peer = memory->peers[number];
    }
    if (peer && address && !peer->uid_known) {
        memcpy(peer->uid, madi_address_uid(address), sizeof peer->uid);
        peer->uid_known = true;
    }
    madi_unlock(&memory->lock);
    return peer;
}

madi_memory_peer_t *madi_memory_peer(mad_session_t *session, mad_peer_t number)
{
    struct madi_memory_session *memory = session->memory;
    madi_memory_peer_t *peer = NULL;
    bool complete = false;
    madi_lock(&memory->lock);
    if ((uint32_t)number < memory->n_peers && (peer = memory->peers[number]))
        complete = peer->uid_known;
    madi_unlock(&memory->lock);
    if (complete)
        return peer;
    madi_lock(&session->lock);
    peer = entry_make(session, number);
    madi_unlock(&session->lock);
    return peer;
}

/* ---- Start ---------------------------------------------------------------------------------------------------- */

/* Open the channel, without its handler.  Under `starting`. */
static mad_status_t channel_start(mad_session_t *session, bool *opened)
{
    struct madi_memory_session *memory = session->memory;
    mad_channel_t *channel;
    mad_status_t status;
    if (atomic_load_explicit(&memory->channel, memory_order_relaxed))
        return MAD_OK;
    status = mad_channel_open(session, MADI_MEMORY_CHANNEL, &channel);
    if (status)
        return status;
    madi_lock(&session->lock);
    session->gate_lost = gate_lost;
    madi_unlock(&session->lock);
    atomic_store_explicit(&memory->channel, channel, memory_order_release); /* pairs with madi_memory_start */
    *opened = true;
    return MAD_OK;
}

mad_status_t madi_memory_start(mad_session_t *session, mad_channel_t **channel)
{
    struct madi_memory_session *memory = session->memory;
    mad_status_t status = madi_session_usable(session);
    bool opened = false;
    if (status)
        return status;
    if (MADI_UNLIKELY(!atomic_load_explicit(&memory->channel, memory_order_acquire))) {
        madi_static_mutex_lock(&starting);
        status = channel_start(session, &opened);
        madi_static_mutex_unlock(&starting);
    }
    if (status)
        return status;
    *channel = atomic_load_explicit(&memory->channel, memory_order_acquire);
    if (opened) { /* done without the mutex, because this call runs handlers, which may start operations */
        memory->serves = true;
        mad_channel_handler_set(*channel, madi_memory_arrived, memory);
    }
    return MAD_OK;
}
