/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: 20 bits of index, 12 of generation, so that a stale or invented handle is detected. */
#include "core/wire/handle.h"

#include <stdlib.h>

#define INDEX_BITS 20
#define INDEX_MASK ((1u << INDEX_BITS) - 1)

typedef struct slot {
    void *object;
    uint32_t generation; /* 1 to 4095 */
    uint32_t next_free;  /* index + 1 of the next free entry; 0 at the end */
} slot_t;

struct madi_handles {
    slot_t *slots;
    uint32_t n, cap, free; /* free: index + 1 of the first free entry; 0 if none */
    uint32_t used;
};

struct madi_handles *madi_handles_new(void)
{
    return calloc(1, sizeof(struct madi_handles));
}

void madi_handles_free(struct madi_handles *h)
{
    if (!h)
        return;
    free(h->slots);
    free(h);
}

uint32_t madi_handle_add(struct madi_handles *h, void *object)
{
    uint32_t i;
    if (h->free) {
        i = h->free - 1;
        h->free = h->slots[i].next_free;
    } else {
        if (h->n == h->cap) {
            uint32_t cap = h->cap ? h->cap * 2 : 16;
            slot_t *p = cap > INDEX_MASK ? NULL : realloc(h->slots, cap * sizeof *p);
            if (!p)
                return 0;
            h->slots = p;
            h->cap = cap;
        }
        i = h->n++;
        h->slots[i].generation = 1;
    }
    h->slots[i].object = object;
    h->used++;
    return i | h->slots[i].generation << INDEX_BITS;
}

void *madi_handle_get(struct madi_handles *h, uint32_t handle)
{
    uint32_t i = handle & INDEX_MASK;
    if (i >= h->n || h->slots[i].generation != handle >> INDEX_BITS)
        return NULL;
    return h->slots[i].object;
}

void madi_handle_del(struct madi_handles *h, uint32_t handle)
{
    uint32_t i = handle & INDEX_MASK;
    if (!madi_handle_get(h, handle))
        return;
    h->used--;
    h->slots[i].object = NULL;
    h->slots[i].generation = h->slots[i].generation % 4095 + 1;
    h->slots[i].next_free = h->free;
    h->free = i + 1;
}

bool madi_handles_none(const struct madi_handles *h)
{
    return !h->used;
}

void madi_handles_each(struct madi_handles *h, void (*fn)(void *object, void *arg), void *arg)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->slots[i].object)
            fn(h->slots[i].object, arg);
}
