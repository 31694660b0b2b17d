/* SPDX-License-Identifier: BSD-3-Clause */
#include "soak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x50a6u
#define TABLE ((size_t)1 << 22)
#define GUARD 16
#define GUARD_BYTE 0xc3

static unsigned char *table;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x7fb5d329728ea185);
    x ^= x >> 27;
    x *= UINT64_C(0x81dadef4bc2dd44d);
    return x ^ x >> 33;
}

static uint64_t roll(uint64_t *state, uint64_t n)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state) % n;
}

bool table_make(void)
{
    uint64_t state = options.seed;
    table = malloc(TABLE + options.max);
    if (!table)
        return false;
    for (size_t i = 0; i < TABLE + options.max; i++)
        table[i] = (unsigned char)(i % 8 ? mix(state + i) : roll(&state, 256));
    return true;
}

const unsigned char *table_at(size_t from)
{
    return table + from;
}

/* Draw a length: mostly small, now and then large. */
static size_t length(uint64_t *state)
{
    static const struct {
        unsigned below; /* upper bound of the numbers, out of 10000, that select this row */
        size_t max;
    } kinds[] = {{500, 0},          {6500, 64},      {9000, 1024},     {9900, 16 << 10},
                 {9980, 128 << 10}, {9997, 1 << 20}, {10000, SIZE_MAX}};
    uint64_t dice = roll(state, 10000);
    size_t i = 0, max;
    while (dice >= kinds[i].below)
        i++;
    max = kinds[i].max < options.max ? kinds[i].max : options.max;
    return max ? roll(state, max + 1) : 0;
}

static enum block_form form(uint64_t *state, size_t len)
{
    uint64_t dice = roll(state, 8);
    if (dice == 0)
        return FORM_PIECES;
    return dice == 1 && len >= PIECES && len % PIECES == 0 ? FORM_STRIDED : FORM_PLAIN;
}

void shape_make(shape_t *shape, const ident_t *id)
{
    uint64_t state = mix(options.seed ^ mix(id->number)) ^
                     mix((uint64_t)id->source << 48 | (uint64_t)id->dest << 32 | (uint64_t)id->thread << 16 | id->way);
    shape->n = 1 + (int)roll(&state, BLOCKS_MAX);
    shape->send = (enum send_form)roll(&state, SEND_FORMS);
    shape->end_request = roll(&state, 4) == 0;
    shape->park = roll(&state, 2) == 0;
    shape->blocks[0] = (block_t){.len = sizeof *id, .smode = MAD_SEND_SAFER, .rmode = MAD_RECEIVE_EXPRESS};
    shape->total = sizeof *id;
    for (int i = 1; i < shape->n; i++) {
        block_t *b = &shape->blocks[i];
        b->len = length(&state);
        b->from = roll(&state, TABLE);
        b->smode = (mad_send_mode_t)roll(&state, 3);
        b->rmode = (mad_receive_mode_t)roll(&state, 2);
        b->pack = shape->send < SEND_BLOCKS ? form(&state, b->len) : FORM_PLAIN;
        b->unpack = id->way == WAY_POSTED ? FORM_PLAIN : form(&state, b->len);
        b->flush = roll(&state, 16) == 0;
        shape->total += b->len;
    }
}

ident_t ident_of(int source, int dest, int thread, enum way way, uint64_t number)
{
    return (ident_t){MAGIC, (uint16_t)source, (uint16_t)dest, (uint16_t)thread, (uint16_t)way, 0, number};
}

bool ident_valid(const ident_t *id, enum way way)
{
    return id->magic == MAGIC && id->source < procs && id->dest == rank && id->thread < options.threads && id->way == way &&
           id->number < each;
}

/* ---- Numbers -------------------------------------------------------------------------------------------------- */

static bool was_missing(expect_t *e, uint64_t number)
{
    for (int i = 0; i < e->n_missing; i++)
        if (e->missing[i] == number) {
            e->missing[i] = e->missing[--e->n_missing];
            return true;
        }
    return false;
}

void arrived(expect_t *e, const ident_t *id, bool several)
{
    const char *text = "rank %d, channel %d: number %llu of rank %d, thread %d came where %llu was due";
    unsigned long long got = id->number, due = e->next;
    atomic_fetch_add(&sums.received, 1);
    if (id->number < e->next) {
        if (!was_missing(e, id->number))
            wrong(&sums.doubled, text, rank, id->way, got, id->source, id->thread, due);
        else if (!several)
            wrong(&sums.disordered, text, rank, id->way, got, id->source, id->thread, due);
        return;
    }
    if (id->number > e->next && !several)
        wrong(&sums.disordered, text, rank, id->way, got, id->source, id->thread, due);
    for (; e->next < id->number; e->next++)
        if (e->n_missing < (int)(sizeof e->missing / sizeof *e->missing))
            e->missing[e->n_missing++] = e->next;
    e->next++;
}

uint64_t never(const expect_t *e, uint64_t count)
{
    return count - e->next + (uint64_t)e->n_missing;
}

void check_block(const ident_t *id, const block_t *b, int index, const unsigned char *got)
{
    const unsigned char *want = table_at(b->from);
    size_t at = 0;
    if (got[b->len] != GUARD_BYTE || got[b->len + GUARD - 1] != GUARD_BYTE)
        wrong(&sums.corrupted, "rank %d, channel %d: bytes were written behind block %d (%zu bytes) of number %llu of %d",
              rank, id->way, index, b->len, (unsigned long long)id->number, id->source);
    if (!memcmp(got, want, b->len))
        return;
    while (got[at] == want[at])
        at++;
    wrong(&sums.corrupted,
          "rank %d, channel %d: block %d (%zu bytes, modes %d %d, forms %d %d, sent %d) of number %llu of "
          "rank %d, thread %d differs from byte %zu on",
          rank, id->way, index, b->len, (int)b->smode, (int)b->rmode, (int)b->pack, (int)b->unpack, index,
          (unsigned long long)id->number, id->source, id->thread, at);
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

void arena_clear(arena_t *arena, size_t room)
{
    arena->used = 0;
    if (room <= arena->cap)
        return;
    free(arena->bytes);
    arena->bytes = malloc(room);
    arena->cap = room;
    if (!arena->bytes) {
        fprintf(stderr, "soak: no memory for %zu bytes\n", room);
        exit(1);
    }
}

unsigned char *arena_take(arena_t *arena, size_t len)
{
    unsigned char *p = arena->bytes + arena->used;
    memset(p + len, GUARD_BYTE, GUARD);
    arena->used += (len + GUARD + 15) & ~(size_t)15;
    return p;
}
