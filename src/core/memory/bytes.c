/* SPDX-License-Identifier: BSD-3-Clause */
/* Remote memory: bytes into and out of a block, on which several processes may operate at the same time. */
#include "core/memory/memory.h"

static bool bytes_are_word(const void *at, uint64_t len)
{
    return len == sizeof(uint64_t) && (uintptr_t)at % sizeof(uint64_t) == 0;
}

void madi_memory_store(void *at, const void *from, uint64_t len)
{
    uint64_t word;
    if (bytes_are_word(at, len)) {
        memcpy(&word, from, sizeof word);
        __atomic_store_n((uint64_t *)at, word, __ATOMIC_RELEASE);
    } else {
        madi_copy(at, from, (size_t)len);
    }
}

void madi_memory_load(void *to, const void *at, uint64_t len)
{
    uint64_t word;
    if (bytes_are_word(at, len)) {
        word = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
        memcpy(to, &word, sizeof word);
    } else {
        madi_copy(to, at, (size_t)len);
    }
}

uint64_t madi_memory_change(const madi_memory_envelope_t *e, uint64_t *at)
{
    uint64_t before = e->operand[0];
    if (e->kind == MADI_MEMORY_FETCH_ADD)
        return __atomic_fetch_add(at, e->operand[0], __ATOMIC_SEQ_CST);
    __atomic_compare_exchange_n(at, &before, e->operand[1], false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return before;
}

mad_status_t madi_memory_admit(const madi_memory_envelope_t *e, const unsigned char *base, uint64_t room, unsigned rights)
{
    static const uint8_t needed[MADI_MEMORY_KINDS] = {
        [MADI_MEMORY_PUT] = MAD_MEMORY_WRITE,
        [MADI_MEMORY_PUT_NOTIFY] = MAD_MEMORY_WRITE,
        [MADI_MEMORY_GET] = MAD_MEMORY_READ,
        [MADI_MEMORY_FETCH_ADD] = MAD_MEMORY_ATOMIC,
        [MADI_MEMORY_COMPARE_SWAP] = MAD_MEMORY_ATOMIC,
    };
    bool atomic = needed[e->kind] == MAD_MEMORY_ATOMIC;
    uint64_t len = atomic ? sizeof(uint64_t) : e->len;
    if (!(rights & needed[e->kind]))
        return MAD_ERR_RIGHTS;
    if (len > room || e->offset > room - len)
        return MAD_ERR_RANGE;
    if (atomic && ((uintptr_t)base + e->offset) % sizeof(uint64_t))
        return MAD_ERR_RANGE;
    return MAD_OK;
}
