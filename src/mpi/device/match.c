/* SPDX-License-Identifier: BSD-3-Clause */
/* Who meets whom.  Receives of the same ignored bits, with or without a source, have an index: a hash table of groups by
 * (tag without those bits, source).  A posted receive stands in one group, of its index; an unexpected message in one group
 * of each index.  So a message looks into each index once, a receive into one, and each takes the first of a group. */
#include "inside.h"

#include <stdlib.h>

struct group {
    struct group *next; /* in the table */
    index_t *index;
    uint64_t tag;
    mad_peer_t peer;
    op_t *posted, *posted_last;
    place_t *kept, *kept_last;
};

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static uint32_t slot_of(const index_t *index, uint64_t tag, mad_peer_t peer)
{
    uint64_t x = (tag ^ (uint64_t)(uint32_t)peer << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 40) & (index->size - 1);
}

static group_t *group_find(const index_t *index, uint64_t tag, mad_peer_t source)
{
    mad_peer_t peer = index->sourced ? source : MAD_ANY_SOURCE;
    group_t *g;
    tag &= ~index->ignore;
    for (g = index->table[slot_of(index, tag, peer)]; g; g = g->next)
        if (g->tag == tag && g->peer == peer)
            break;
    return g;
}

static void rehash(index_t *index, group_t **table, uint32_t size)
{
    uint32_t old = index->size;
    index->size = size;
    for (uint32_t i = 0; i < old; i++)
        for (group_t *g = index->table[i], *next; g; g = next) {
            uint32_t slot = slot_of(index, g->tag, g->peer);
            next = g->next;
            g->next = table[slot];
            table[slot] = g;
        }
    free(index->table);
    index->table = table;
}

/* Empty groups are kept for the next of the same, until there are as many groups as slots. */
static void sweep(index_t *index)
{
    for (uint32_t i = 0; i < index->size; i++)
        for (group_t **p = &index->table[i]; *p;) {
            group_t *g = *p;
            if (g->posted || g->kept) {
                p = &g->next;
            } else {
                *p = g->next;
                free(g);
                index->n--;
            }
        }
}

static group_t *group_get(index_t *index, uint64_t tag, mad_peer_t source)
{
    group_t *g = group_find(index, tag, source);
    uint32_t slot;
    if (g)
        return g;
    if (index->n >= index->size) {
        sweep(index);
        if (index->n >= index->size / 2) {
            group_t **table = calloc(index->size * 2, sizeof *table);
            if (table) /* without, it is only slower */
                rehash(index, table, index->size * 2);
        }
    }
    g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->index = index;
    g->tag = tag & ~index->ignore;
    g->peer = index->sourced ? source : MAD_ANY_SOURCE;
    slot = slot_of(index, g->tag, g->peer);
    g->next = index->table[slot];
    index->table[slot] = g;
    index->n++;
    return g;
}

/* ---- Indexes ----------------------------------------------------------------------------------------------------- */

static void place_add(group_t *g, place_t *place, mad_dev_message_t *message)
{
    *place = (place_t){.prev = g->kept_last, .group = g, .message = message};
    if (g->kept_last)
        g->kept_last->next = place;
    else
        g->kept = place;
    g->kept_last = place;
}

static void place_del(place_t *place)
{
    group_t *g = place->group;
    if (place->prev)
        place->prev->next = place->next;
    else
        g->kept = place->next;
    if (place->next)
        place->next->prev = place->prev;
    else
        g->kept_last = place->prev;
}

static void index_fini(index_t *index)
{
    for (uint32_t i = 0; i < index->size; i++)
        for (group_t *g = index->table[i], *next; g; g = next) {
            next = g->next;
            free(g);
        }
    free(index->table);
}

/* The messages that wait get their places in the new index. */
static bool index_fill(matcher_t *m, int at)
{
    for (mad_dev_message_t *u = m->first; u; u = u->next) {
        group_t *g = group_get(&m->indexes[at], u->said.tag, u->said.source);
        if (!g)
            return false;
        place_add(g, &u->places[at], u);
    }
    return true;
}

/* NULL: no memory, or too many. */
static index_t *index_get(matcher_t *m, uint64_t ignore, bool sourced)
{
    index_t *index;
    for (int i = 0; i < m->n; i++)
        if (m->indexes[i].ignore == ignore && m->indexes[i].sourced == sourced)
            return &m->indexes[i];
    if (m->n == MAX_INDEXES)
        return NULL;
    index = &m->indexes[m->n];
    *index = (index_t){.ignore = ignore, .sourced = sourced, .size = 64};
    index->table = calloc(index->size, sizeof *index->table);
    if (!index->table)
        return NULL;
    if (!index_fill(m, m->n)) {
        index_fini(index);
        return NULL;
    }
    m->n++;
    return index;
}

void match_init(matcher_t *m)
{
    *m = (matcher_t){.n = 0};
}

void match_fini(matcher_t *m)
{
    for (int i = 0; i < m->n; i++)
        index_fini(&m->indexes[i]);
}

/* ---- Meeting ----------------------------------------------------------------------------------------------------- */

static bool fits(mad_peer_t from, uint64_t want, uint64_t ignore, mad_peer_t source, uint64_t tag)
{
    return (from == MAD_ANY_SOURCE || from == source) && !((want ^ tag) & ~ignore);
}

op_t *match_arrival(matcher_t *m, mad_peer_t source, uint64_t tag)
{
    op_t *best = NULL;
    for (int i = 0; i < m->n; i++) {
        group_t *g = m->indexes[i].posted ? group_find(&m->indexes[i], tag, source) : NULL;
        if (g && g->posted && (!best || g->posted->order < best->order))
            best = g->posted;
    }
    for (op_t *op = m->loose_first; op && (!best || op->order < best->order); op = op->next)
        if (fits(op->peer, op->tag, op->ignore, source, tag))
            return op;
    return best;
}

mad_dev_message_t *match_receive(matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore)
{
    index_t *index;
    group_t *g;
    if (!m->first)
        return NULL;
    index = index_get(m, ignore, from != MAD_ANY_SOURCE);
    if (index) {
        g = group_find(index, tag, from);
        return g && g->kept ? g->kept->message : NULL;
    }
    for (mad_dev_message_t *u = m->first; u; u = u->next)
        if (fits(from, tag, ignore, u->said.source, u->said.tag))
            return u;
    return NULL;
}

static void all_add(mad_dev_t *dev, op_t *op)
{
    op->all_next = NULL;
    op->all_prev = dev->posted_last;
    if (dev->posted_last)
        dev->posted_last->all_next = op;
    else
        dev->posted_first = op;
    dev->posted_last = op;
}

static void all_del(mad_dev_t *dev, op_t *op)
{
    if (op->all_prev)
        op->all_prev->all_next = op->all_next;
    else
        dev->posted_first = op->all_next;
    if (op->all_next)
        op->all_next->all_prev = op->all_prev;
    else
        dev->posted_last = op->all_prev;
}

bool match_post(mad_dev_t *dev, op_t *op)
{
    matcher_t *m = &dev->matchers[op->space];
    index_t *index = index_get(m, op->ignore, op->peer != MAD_ANY_SOURCE);
    op_t **first = &m->loose_first, **last = &m->loose_last;
    op->group = NULL;
    if (index) {
        op->group = group_get(index, op->tag, op->peer);
        if (!op->group)
            return false;
        first = &op->group->posted;
        last = &op->group->posted_last;
        index->posted++;
    }
    op->order = dev->orders++;
    op->next = NULL;
    op->prev = *last;
    if (*last)
        (*last)->next = op;
    else
        *first = op;
    *last = op;
    all_add(dev, op);
    return true;
}

void match_unpost(mad_dev_t *dev, op_t *op)
{
    matcher_t *m = &dev->matchers[op->space];
    op_t **first = op->group ? &op->group->posted : &m->loose_first;
    op_t **last = op->group ? &op->group->posted_last : &m->loose_last;
    if (op->prev)
        op->prev->next = op->next;
    else
        *first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        *last = op->prev;
    if (op->group)
        op->group->index->posted--;
    all_del(dev, op);
}

bool match_keep(matcher_t *m, mad_dev_message_t *message)
{
    int i;
    for (i = 0; i < m->n; i++) {
        group_t *g = group_get(&m->indexes[i], message->said.tag, message->said.source);
        if (!g)
            break;
        place_add(g, &message->places[i], message);
    }
    if (i < m->n) {
        while (i-- > 0)
            place_del(&message->places[i]);
        return false;
    }
    message->next = NULL;
    message->prev = m->last;
    if (m->last)
        m->last->next = message;
    else
        m->first = message;
    m->last = message;
    return true;
}

void match_take(matcher_t *m, mad_dev_message_t *message)
{
    for (int i = 0; i < m->n; i++)
        place_del(&message->places[i]);
    if (message->prev)
        message->prev->next = message->next;
    else
        m->first = message->next;
    if (message->next)
        message->next->prev = message->prev;
    else
        m->last = message->prev;
}
