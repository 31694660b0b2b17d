/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: this folder's part of a session; the channel. */
#include "base/static_mutex.h"
#include "core/driver.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/wire/handle.h"

#include <stdlib.h>

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
    madi_memory_peers_free(memory);
    madi_handles_free(memory->blocks);
    madi_handles_free(memory->ops);
    free(memory);
    session->memory = NULL;
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
    session->gate_lost = madi_memory_gate_lost;
    session->peer_released = madi_memory_peer_released;
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
