/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/build.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 16384
#define ALIGN 16

struct madi_topo_chunk {
    madi_topo_chunk_t *next;
    size_t pad; /* keeps what follows aligned like malloc's memory */
};

void *madi_topo_alloc(madi_topo_arena_t *arena, size_t count, size_t size)
{
    size_t n, whole;
    char *at;
    if (arena->failed || __builtin_mul_overflow(count, size, &n) || n > SIZE_MAX / 2) {
        arena->failed = true;
        return NULL;
    }
    n = (n + ALIGN - 1) / ALIGN * ALIGN;
    if (n > arena->size - arena->used) {
        madi_topo_chunk_t *chunk;
        whole = n > CHUNK ? n : CHUNK;
        chunk = calloc(1, sizeof *chunk + whole);
        if (!chunk) {
            arena->failed = true;
            return NULL;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->size = whole;
        arena->used = 0;
    }
    at = (char *)(arena->chunks + 1) + arena->used;
    arena->used += n;
    return at;
}

char *madi_topo_copy(madi_topo_arena_t *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = madi_topo_alloc(arena, n, 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

void *madi_topo_grow(madi_topo_arena_t *arena, void *array, int count, size_t size)
{
    void *more;
    if (count & (count - 1))
        return arena->failed ? NULL : array;
    more = madi_topo_alloc(arena, count ? 2 * (size_t)count : 1, size);
    if (more && count)
        memcpy(more, array, (size_t)count * size);
    return more;
}

void madi_topo_arena_fini(madi_topo_arena_t *arena)
{
    while (arena->chunks) {
        madi_topo_chunk_t *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    *arena = (madi_topo_arena_t){0};
}
