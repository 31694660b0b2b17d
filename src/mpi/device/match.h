/* SPDX-License-Identifier: BSD-3-Clause */
/* Who meets whom: what each message goes through, in line.  All of it under the device's lock. */
#ifndef MAD_DEVICE_MATCH_H
#define MAD_DEVICE_MATCH_H

#include "inside.h"

void match_init(matcher_t *m);
void match_fini(matcher_t *m);
/* The oldest message that such a receive meets, or NULL; it stays. */
mad_dev_message_t *match_receive(matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore);
/* A posted receive of this context, the oldest of those that are alike, or NULL; it stays posted. */
op_t *match_find(mad_dev_t *dev, const void *context);
/* All posted receives that name this peer, in a list by their `next`; they are posted no longer. */
op_t *match_withdraw(mad_dev_t *dev, mad_peer_t peer);
bool match_keep(matcher_t *m, mad_dev_message_t *message); /* false: no memory */
void match_take(matcher_t *m, mad_dev_message_t *message);

/* ---- For what follows -------------------------------------------------------------------------------------------- */

/* A new group, or a new index; NULL: no memory (of an index also: too many). */
group_t *match_group_new(matcher_t *m, index_t *index, uint64_t tag, mad_peer_t source);
index_t *match_index_new(matcher_t *m, uint64_t ignore, bool sourced);
static inline uint32_t match_slot(const index_t *index, uint64_t tag, mad_peer_t peer)
{
    uint64_t x = (tag ^ (uint64_t)(uint32_t)peer << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 40) & (index->size - 1);
}

static inline group_t *match_group_find(const index_t *index, uint64_t tag, mad_peer_t source)
{
    mad_peer_t peer = index->sourced ? source : MAD_ANY_SOURCE;
    group_t *g;
    tag &= ~index->ignore;
    for (g = index->table[match_slot(index, tag, peer)]; g; g = g->next)
        if (g->tag == tag && g->peer == peer)
            break;
    return g;
}

/* NULL: no memory. */
static inline group_t *match_group(matcher_t *m, index_t *index, uint64_t tag, mad_peer_t source)
{
    group_t *g = match_group_find(index, tag, source);
    return MAD_DEV_LIKELY(g) ? g : match_group_new(m, index, tag, source);
}

/* NULL: no memory, or too many. */
static inline index_t *match_index(matcher_t *m, uint64_t ignore, bool sourced)
{
    for (int i = 0; i < m->n; i++)
        if (m->indexes[i].ignore == ignore && m->indexes[i].sourced == sourced)
            return &m->indexes[i];
    return match_index_new(m, ignore, sourced);
}

/* ---- Posted receives --------------------------------------------------------------------------------------------- */

op_t *match_arrival_other(matcher_t *m, mad_peer_t source, uint64_t tag);

/* The oldest posted receive that such a message meets, or NULL; it stays posted. */
static inline op_t *match_arrival(matcher_t *m, mad_peer_t source, uint64_t tag)
{
    group_t *g = m->hot;
    if (MAD_DEV_LIKELY(g && g->index->posted == m->posted && g->tag == (tag & ~g->index->ignore) && g->posted) &&
        (g->peer == source || !g->index->sourced))
        return g->posted; /* no other kind of receives is posted */
    return match_arrival_other(m, source, tag);
}

static inline void match_append(op_t **first, op_t **last, op_t *op)
{
    op->next = NULL;
    if (*first)
        (*last)->next = op;
    else
        *first = op;
    *last = op;
}

/* May a receive of such a kind be put behind the last one that was? */
static inline bool match_is_hot(const matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore)
{
    const group_t *g = m->hot;
    return g && g->peer == from && g->index->ignore == ignore && g->tag == (tag & ~ignore);
}

static inline void match_post_to(mad_dev_t *dev, matcher_t *m, group_t *g, op_t *op)
{
    op->order = dev->orders++;
    op->group = g;
    m->posted++;
    g->index->posted++;
    match_append(&g->posted, &g->posted_last, op);
}

bool match_post(mad_dev_t *dev, op_t *op); /* false: no memory */

/* One that is not the first of its list. */
void match_unpost_other(op_t *first, op_t **last, op_t *op);

static inline void match_unpost(matcher_t *m, op_t *op)
{
    op_t **first = op->group ? &op->group->posted : &m->loose_first;
    m->posted--;
    if (op->group)
        op->group->index->posted--;
    if (MAD_DEV_LIKELY(*first == op))
        *first = op->next;
    else
        match_unpost_other(*first, op->group ? &op->group->posted_last : &m->loose_last, op);
}

#endif
