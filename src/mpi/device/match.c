/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching.  Receives with the same ignored bits, with or without a source, share an index: a hash table of groups by
 * (tag without those bits, source).  A posted receive is in one group of its index, an unexpected message in one group
 * of each index.  So a message searches each index once, and a receive searches only one; both take the first entry of
 * a group. */
#include "match.h"

#include <stdlib.h>

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static void index_rehash(match_index_t *index, match_group_t **table, uint32_t size)
{
    uint32_t old = index->size;
    index->size = size;
    for (uint32_t i = 0; i < old; i++)
        for (match_group_t *g = index->table[i], *next; g; g = next) {
            uint32_t slot = dev_match_slot(index, g->tag, g->peer);
            next = g->next;
            g->next = table[slot];
            table[slot] = g;
        }
    free(index->table);
    index->table = table;
}

/* Free empty groups.  Groups are kept for later messages with their tag and source until there are as many groups as
 * slots. */
static void index_sweep(match_index_t *index)
{
    for (uint32_t i = 0; i < index->size; i++)
        for (match_group_t **p = &index->table[i]; *p;) {
            match_group_t *g = *p;
            if (g->posted || g->kept) {
                p = &g->next;
            } else {
                *p = g->next;
                free(g);
                index->n--;
            }
        }
}

MAD_DEV_RARE match_group_t *dev_match_group_new(matcher_t *m, match_index_t *index, uint64_t tag, mad_peer_t source)
{
    match_group_t *g;
    uint32_t slot;
    if (index->n >= index->size) {
        m->hot = m->kept_in = NULL;
        index_sweep(index);
        if (index->n >= index->size / 2) {
            match_group_t **table = calloc(index->size * 2, sizeof *table);
            if (table) /* without the larger table, searches only become slower */
                index_rehash(index, table, index->size * 2);
        }
    }
    g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->index = index;
    g->tag = tag & ~index->ignore;
    g->peer = index->sourced ? source : MAD_ANY_SOURCE;
    slot = dev_match_slot(index, g->tag, g->peer);
    g->next = index->table[slot];
    index->table[slot] = g;
    index->n++;
    return g;
}

/* ---- Indexes ----------------------------------------------------------------------------------------------------- */

static void index_fini(match_index_t *index)
{
    for (uint32_t i = 0; i < index->size; i++)
        for (match_group_t *g = index->table[i], *next; g; g = next) {
            next = g->next;
            free(g);
        }
    free(index->table);
}

/* Add all unexpected messages to the new index. */
static bool index_fill(matcher_t *m, int at)
{
    for (mad_dev_message_t *u = m->first; u; u = u->next) {
        match_group_t *g = dev_match_group(m, &m->indexes[at], u->envelope.tag, u->envelope.source);
        if (!g)
            return false;
        dev_match_place_add(g, &u->places[at], u);
    }
    return true;
}

MAD_DEV_RARE match_index_t *dev_match_index_new(matcher_t *m, uint64_t ignore, bool sourced)
{
    match_index_t *index;
    if (m->n == MAX_INDEXES)
        return NULL;
    index = &m->indexes[m->n];
    *index = (match_index_t){.ignore = ignore, .sourced = sourced, .size = 64};
    index->table = calloc(index->size, sizeof *index->table);
    if (!index->table)
        return NULL;
    if (!index_fill(m, m->n)) {
        index_fini(index);
        return NULL;
    }
    m->n++;
    m->kept_in = NULL;
    return index;
}

void dev_match_init(matcher_t *m)
{
    *m = (matcher_t){.n = 0};
}

void dev_match_fini(matcher_t *m)
{
    for (int i = 0; i < m->n; i++)
        index_fini(&m->indexes[i]);
}

/* ---- Matching ---------------------------------------------------------------------------------------------------- */

static bool receive_fits(mad_peer_t from, uint64_t want, uint64_t ignore, mad_peer_t source, uint64_t tag)
{
    return (from == MAD_ANY_SOURCE || from == source) && !((want ^ tag) & ~ignore);
}

op_t *dev_match_arrival_slow(matcher_t *m, mad_peer_t source, uint64_t tag)
{
    op_t *best = NULL;
    for (const match_index_t *index = m->indexes; index < m->indexes + m->n; index++) {
        match_group_t *g = index->posted ? dev_match_group_find(index, tag, source) : NULL;
        if (g && g->posted && (!best || g->posted->order < best->order))
            best = g->posted;
    }
    if (best)
        m->hot = best->group;
    for (op_t *op = m->loose_first; op && (!best || op->order < best->order); op = op->next)
        if (receive_fits(op->peer, op->tag, op->ignore, source, tag))
            return op;
    return best;
}

mad_dev_message_t *dev_match_receive_slow(matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore)
{
    match_index_t *index;
    match_group_t *g;
    index = dev_match_index(m, ignore, from != MAD_ANY_SOURCE);
    if (index) {
        g = dev_match_group_find(index, tag, from);
        return g && g->kept ? g->kept->message : NULL;
    }
    for (mad_dev_message_t *u = m->first; u; u = u->next)
        if (receive_fits(from, tag, ignore, u->envelope.source, u->envelope.tag))
            return u;
    return NULL;
}

bool dev_match_post(mad_dev_t *dev, op_t *op)
{
    matcher_t *m = &dev->matchers[op->space];
    match_index_t *index = dev_match_index(m, op->ignore, op->peer != MAD_ANY_SOURCE);
    match_group_t *g = index ? dev_match_group(m, index, op->tag, op->peer) : NULL;
    if (g) {
        m->hot = g;
        dev_match_post_to(dev, m, g, op);
    } else if (!index) {
        op->order = dev->orders++;
        op->group = NULL;
        m->posted++;
        dev_match_append(&m->loose_first, &m->loose_last, op);
    }
    return g || !index;
}

MAD_DEV_RARE void dev_match_unpost_slow(op_t *first, op_t **last, op_t *op)
{
    while (first->next != op)
        first = first->next;
    first->next = op->next;
    if (*last == op)
        *last = first;
}

static op_t *receive_of_context(op_t *op, const void *context)
{
    while (op && op->context != context)
        op = op->next;
    return op;
}

MAD_DEV_RARE op_t *dev_match_find(mad_dev_t *dev, const void *context)
{
    op_t *op = NULL;
    for (matcher_t *m = dev->matchers; m < dev->matchers + 2 && !op; m++) {
        op = receive_of_context(m->loose_first, context);
        for (const match_index_t *index = m->indexes; index < m->indexes + m->n; index++)
            for (uint32_t slot = 0; !op && index->posted && slot < index->size; slot++)
                for (match_group_t *g = index->table[slot]; g && !op; g = g->next)
                    op = receive_of_context(g->posted, context);
    }
    return op;
}

/* Move the receives that name this peer from one list to the end of another.  Return their number. */
static uint32_t receives_withdraw(op_t **first, op_t **last, mad_peer_t peer, op_t **to, op_t **to_last)
{
    op_t *list = *first, *next;
    uint32_t n = 0;
    *first = NULL;
    for (op_t *op = list; op; op = next) {
        next = op->next;
        if (op->peer == peer) {
            dev_match_append(to, to_last, op);
            n++;
        } else {
            dev_match_append(first, last, op);
        }
    }
    return n;
}

MAD_DEV_RARE op_t *dev_match_withdraw(mad_dev_t *dev, mad_peer_t peer)
{
    op_t *list = NULL, *last = NULL;
    for (matcher_t *m = dev->matchers; m < dev->matchers + 2; m++) {
        m->posted -= receives_withdraw(&m->loose_first, &m->loose_last, peer, &list, &last);
        for (match_index_t *index = m->indexes; index < m->indexes + m->n; index++)
            for (uint32_t slot = 0; index->sourced && slot < index->size; slot++)
                for (match_group_t *g = index->table[slot]; g; g = g->next) {
                    uint32_t n = receives_withdraw(&g->posted, &g->posted_last, peer, &list, &last);
                    index->posted -= n;
                    m->posted -= n;
                }
    }
    return list;
}

bool dev_match_places_add(matcher_t *m, mad_dev_message_t *message)
{
    match_group_t *g = NULL;
    int i;
    for (i = 0; i < m->n; i++) {
        g = dev_match_group(m, &m->indexes[i], message->envelope.tag, message->envelope.source);
        if (!g)
            break;
        dev_match_place_add(g, &message->places[i], message);
    }
    if (i < m->n) {
        while (i-- > 0)
            dev_match_place_remove(&message->places[i]);
        return false;
    }
    m->kept_in = m->n == 1 ? g : NULL;
    return true;
}
