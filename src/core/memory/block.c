/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: blocks that this process has registered. */
#include "base/clock.h"
#include "base/random.h"
#include "core/driver.h"
#include "core/link/notify.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/wire/handle.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RIGHTS (MAD_MEMORY_READ | MAD_MEMORY_WRITE | MAD_MEMORY_ATOMIC)

/* ---- Registration --------------------------------------------------------------------------------------------- */

void madi_memory_block_free(struct mad_memory *block)
{
    madi_memory_file_close(&block->file);
    free(block);
}

/* Enter a block into the session's tables.  Return false if out of memory. */
static bool block_enter(struct mad_memory *block)
{
    struct madi_memory_session *memory = block->session->memory;
    madi_lock(&memory->lock);
    block->number = madi_handle_add(memory->blocks, block);
    if (block->number) {
        block->next = memory->first;
        if (block->next)
            block->next->prev = block;
        memory->first = block;
    }
    madi_unlock(&memory->lock);
    return block->number != 0;
}

/* Make a block; on success the block owns the file. */
static mad_status_t block_new(mad_session_t *session, void *base, size_t len, unsigned rights,
                              const madi_memory_file_t *file, mad_memory_t **memory)
{
    struct mad_memory *block = calloc(1, sizeof *block);
    if (!block)
        return MAD_ERR_NOMEM;
    block->session = session;
    block->base = base;
    block->len = len;
    block->rights = rights;
    if (!madi_random(block->secret, sizeof block->secret)) {
        free(block);
        return MAD_ERR_SYSTEM;
    }
    if (!block_enter(block)) {
        free(block);
        return MAD_ERR_NOMEM;
    }
    if (file)
        madi_memory_file_publish(&block->file, file, block);
    *memory = block;
    return MAD_OK;
}

mad_status_t mad_memory_register(mad_session_t *session, void *base, size_t len, unsigned rights, mad_memory_t **memory)
{
    mad_channel_t *channel;
    mad_status_t status;
    if ((!base && len) || len > UINTPTR_MAX - (uintptr_t)base || !rights || rights & ~(unsigned)RIGHTS)
        return MAD_ERR_INVAL;
    status = madi_memory_start(session, &channel);
    return status ? status : block_new(session, base, len, rights, NULL, memory);
}

mad_status_t mad_memory_alloc(mad_session_t *session, size_t len, unsigned rights, mad_memory_t **memory)
{
    madi_memory_file_t file;
    mad_channel_t *channel;
    mad_status_t status;
    if (!rights || rights & ~(unsigned)RIGHTS)
        return MAD_ERR_INVAL;
    status = madi_memory_start(session, &channel);
    if (!status)
        status = madi_memory_file_make(&file, len);
    if (status)
        return status;
    status = block_new(session, file.bytes, len, rights, &file, memory);
    if (status)
        madi_memory_file_close(&file);
    return status;
}

void *mad_memory_base(const mad_memory_t *memory)
{
    return memory->base;
}

size_t mad_memory_len(const mad_memory_t *memory)
{
    return memory->len;
}

void mad_memory_key(const mad_memory_t *memory, mad_memory_key_t *key)
{
    madi_memory_key_t k = {
        .version = MADI_MEMORY_KEY_VERSION, .rights = (uint8_t)memory->rights, .block = memory->number, .len = memory->len};
    static_assert(sizeof *key == sizeof k, "the public form of a key");
    memcpy(k.uid, memory->session->uid, sizeof k.uid);
    memcpy(k.secret, memory->secret, sizeof k.secret);
    if (memory->file.fd >= 0 && memory->file.at) {
        k.process = (uint32_t)getpid();
        k.file = (uint32_t)memory->file.fd;
    }
    memcpy(key, &k, sizeof k);
}

/* ---- Use ------------------------------------------------------------------------------------------------------ */

/* Compare a block's secret in a time that does not depend on the bytes. */
static bool secret_is(const struct mad_memory *block, const uint8_t *secret)
{
    unsigned differs = 0;
    for (int i = 0; i < MADI_MEMORY_SECRET; i++)
        differs |= (unsigned)(block->secret[i] ^ secret[i]);
    return !differs;
}

mad_status_t madi_memory_find(struct madi_memory_session *memory, const madi_memory_envelope_t *envelope,
                              struct mad_memory **block)
{
    struct mad_memory *b = madi_handle_get(memory->blocks, envelope->block);
    mad_status_t status;
    if (!b || !secret_is(b, envelope->secret))
        return MAD_ERR_KEY;
    status = madi_memory_admit(envelope, b->base, b->len, b->rights);
    if (status)
        return status;
    *block = b;
    return MAD_OK;
}

void madi_memory_release(struct mad_memory *block)
{
    /* read first, since the block may be freed as soon as its count of users is 0 */
    mad_session_t *session = block->session;
    bool wake;
    madi_lock(&session->memory->lock);
    wake = !--block->users && !block->number;
    madi_unlock(&session->memory->lock);
    if (wake)
        madi_watchers_wake(session);
}

/* ---- Notifications -------------------------------------------------------------------------------------------- */

void madi_memory_notify(struct mad_memory *block)
{
    atomic_fetch_add_explicit(&block->notified, 1, memory_order_release); /* pairs with mad_memory_notified */
}

uint64_t mad_memory_notified(const mad_memory_t *memory)
{
    return atomic_load_explicit(&((mad_memory_t *)memory)->notified, memory_order_acquire);
}

typedef struct notified_wait {
    const mad_memory_t *memory;
    uint64_t count;
} notified_wait_t;

static bool notified_enough(void *arg)
{
    const notified_wait_t *wait = arg;
    return mad_memory_notified(wait->memory) >= wait->count;
}

mad_status_t mad_memory_wait(const mad_memory_t *memory, uint64_t count, int64_t timeout_ns)
{
    notified_wait_t wait = {memory, count};
    mad_status_t status = madi_session_usable(memory->session);
    if (status || notified_enough(&wait))
        return status;
    return madi_watch_for(memory->session, notified_enough, &wait, madi_deadline(timeout_ns));
}

/* ---- End ------------------------------------------------------------------------------------------------------ */

static bool block_unused(void *arg)
{
    struct mad_memory *block = arg;
    struct madi_memory_session *memory = block->session->memory;
    bool unused;
    madi_lock(&memory->lock);
    unused = !block->users;
    madi_unlock(&memory->lock);
    return unused;
}

/* Make the key unknown. */
static void block_close(struct mad_memory *block)
{
    struct madi_memory_session *memory = block->session->memory;
    madi_lock(&memory->lock);
    if (block->number) {
        madi_handle_del(memory->blocks, block->number);
        block->closed = madi_now();
    }
    block->number = 0;
    madi_unlock(&memory->lock);
    madi_memory_file_withdraw(&block->file);
}

static void block_leave(struct mad_memory *block)
{
    struct madi_memory_session *memory = block->session->memory;
    madi_lock(&memory->lock);
    *(block->prev ? &block->prev->next : &memory->first) = block->next;
    if (block->next)
        block->next->prev = block->prev;
    madi_unlock(&memory->lock);
}

/* Wait until no operation moves bytes of a closed block.  Peers cannot prolong the wait without limit: those that neither
 * send nor take the bytes lose their connection, which fails their operations. */
static mad_status_t block_await_unused(struct mad_memory *block, int64_t deadline)
{
    while (!block_unused(block)) {
        int64_t cut_at = madi_memory_served_cut(block, madi_now());
        if (madi_watch_for(block->session, block_unused, block, cut_at < deadline ? cut_at : deadline) != MAD_OK &&
            madi_now() >= deadline)
            return MAD_ERR_TIMEOUT;
    }
    return MAD_OK;
}

mad_status_t mad_memory_unregister(mad_memory_t *memory, int64_t timeout_ns)
{
    mad_status_t status;
    if (!memory)
        return MAD_OK;
    status = madi_session_usable(memory->session);
    if (status)
        return status;
    block_close(memory);
    status = block_await_unused(memory, madi_deadline(timeout_ns));
    if (status)
        return status;
    block_leave(memory);
    madi_memory_block_free(memory);
    return MAD_OK;
}
