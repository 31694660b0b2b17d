/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching of messages and receives: the part that is inlined for each message.  Under the device's lock. */
#ifndef MAD_DEVICE_MATCH_H
#define MAD_DEVICE_MATCH_H

#include "inside.h"

void dev_match_init(matcher_t *m);
void dev_match_fini(matcher_t *m);
/* Return the oldest posted receive with this context; NULL if none.  The receive stays posted. */
op_t *dev_match_find(mad_dev_t *dev, const void *context);
/* Withdraw all posted receives that name this peer.  Return a list linked by `next`. */
op_t *dev_match_withdraw(mad_dev_t *dev, mad_peer_t peer);

/* ---- Groups and indexes ------------------------------------------------------------------------------------------ */

/* Make a group or an index; NULL if out of memory, or if there are too many indexes. */
match_group_t *dev_match_group_new(matcher_t *m, match_index_t *index, uint64_t tag, mad_peer_t source);
match_index_t *dev_match_index_new(matcher_t *m, uint64_t ignore, bool sourced);
static inline uint32_t dev_match_slot(const match_index_t *index, uint64_t tag, mad_peer_t peer)
{
    uint64_t x = (tag ^ (uint64_t)(uint32_t)peer << 21) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 40) & (index->size - 1);
}

static inline match_group_t *dev_match_group_find(const match_index_t *index, uint64_t tag, mad_peer_t source)
{
    mad_peer_t peer = index->sourced ? source : MAD_ANY_SOURCE;
    match_group_t *g;
    tag &= ~index->ignore;
    for (g = index->table[dev_match_slot(index, tag, peer)]; g; g = g->next)
        if (g->tag == tag && g->peer == peer)
            break;
    return g;
}

/* Return the group of a tag and a source, created if necessary; NULL if out of memory. */
static inline match_group_t *dev_match_group(matcher_t *m, match_index_t *index, uint64_t tag, mad_peer_t source)
{
    match_group_t *g = dev_match_group_find(index, tag, source);
    return MAD_DEV_LIKELY(g) ? g : dev_match_group_new(m, index, tag, source);
}

/* Return the index of these ignored bits, created if necessary; NULL if out of memory, or if there are too many. */
static inline match_index_t *dev_match_index(matcher_t *m, uint64_t ignore, bool sourced)
{
    for (int i = 0; i < m->n; i++)
        if (m->indexes[i].ignore == ignore && m->indexes[i].sourced == sourced)
            return &m->indexes[i];
    return dev_match_index_new(m, ignore, sourced);
}

/* ---- Posted receives --------------------------------------------------------------------------------------------- */

op_t *dev_match_arrival_slow(matcher_t *m, mad_peer_t source, uint64_t tag);

/* True if a message belongs into this group. */
static inline bool dev_match_group_fits(const match_group_t *g, mad_peer_t source, uint64_t tag)
{
    return g->tag == (tag & ~g->index->ignore) && (g->peer == source || !g->index->sourced);
}

/* Return the oldest posted receive that a message matches; NULL if none.  The receive stays posted. */
static inline op_t *dev_match_arrival(matcher_t *m, mad_peer_t source, uint64_t tag)
{
    match_group_t *g = m->hot;
    if (!m->posted)
        return NULL;
    if (MAD_DEV_LIKELY(g && g->index->posted == m->posted && dev_match_group_fits(g, source, tag) && g->posted))
        return g->posted; /* no other index has posted receives */
    g = m->kept_in;
    if (g && !m->loose_first && dev_match_group_fits(g, source, tag))
        return g->posted; /* the only group in which a receive for this message can be */
    return dev_match_arrival_slow(m, source, tag);
}

static inline void dev_match_append(op_t **first, op_t **last, op_t *op)
{
    op->next = NULL;
    if (*first)
        (*last)->next = op;
    else
        *first = op;
    *last = op;
}

/* True if a receive belongs into the group of the last one. */
static inline bool dev_match_is_hot(const matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore)
{
    const match_group_t *g = m->hot;
    return g && g->peer == from && g->index->ignore == ignore && g->tag == (tag & ~ignore);
}

static inline void dev_match_post_to(mad_dev_t *dev, matcher_t *m, match_group_t *g, op_t *op)
{
    op->order = dev->orders++;
    op->group = g;
    m->posted++;
    g->index->posted++;
    dev_match_append(&g->posted, &g->posted_last, op);
}

bool dev_match_post(mad_dev_t *dev, op_t *op); /* return false if out of memory */

/* Withdraw a receive that is not the first of its list. */
void dev_match_unpost_slow(op_t *first, op_t **last, op_t *op);

static inline void dev_match_unpost(matcher_t *m, op_t *op)
{
    op_t **first = op->group ? &op->group->posted : &m->loose_first;
    m->posted--;
    if (op->group)
        op->group->index->posted--;
    if (MAD_DEV_LIKELY(*first == op))
        *first = op->next;
    else
        dev_match_unpost_slow(*first, op->group ? &op->group->posted_last : &m->loose_last, op);
}

/* ---- Unexpected messages ------------------------------------------------------------------------------------------- */

static inline void dev_match_place_add(match_group_t *g, match_place_t *place, mad_dev_message_t *message)
{
    *place = (match_place_t){.prev = g->kept_last, .group = g, .message = message};
    if (g->kept_last)
        g->kept_last->next = place;
    else
        g->kept = place;
    g->kept_last = place;
}

static inline void dev_match_place_remove(match_place_t *place)
{
    match_group_t *g = place->group;
    if (place->prev)
        place->prev->next = place->next;
    else
        g->kept = place->next;
    if (place->next)
        place->next->prev = place->prev;
    else
        g->kept_last = place->prev;
}

bool dev_match_places_add(matcher_t *m, mad_dev_message_t *message); /* return false if out of memory */

/* Add a message to its groups, and to the list of all.  If out of memory, do nothing, and return false. */
static inline bool dev_match_keep(matcher_t *m, mad_dev_message_t *message)
{
    match_group_t *g = m->kept_in;
    if (MAD_DEV_LIKELY(g && dev_match_group_fits(g, message->envelope.source, message->envelope.tag)))
        dev_match_place_add(g, &message->places[0], message);
    else if (!dev_match_places_add(m, message))
        return false;
    message->next = NULL;
    message->prev = m->last;
    if (m->last)
        m->last->next = message;
    else
        m->first = message;
    m->last = message;
    return true;
}

static inline void dev_match_take(matcher_t *m, mad_dev_message_t *message)
{
    for (int i = 0; i < m->n; i++)
        dev_match_place_remove(&message->places[i]);
    if (message->prev)
        message->prev->next = message->next;
    else
        m->first = message->next;
    if (message->next)
        message->next->prev = message->prev;
    else
        m->last = message->prev;
}

mad_dev_message_t *dev_match_receive_slow(matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore);

/* Return the oldest unexpected message that the receive matches; NULL if none.  The message stays in the list. */
static inline mad_dev_message_t *dev_match_receive(matcher_t *m, mad_peer_t from, uint64_t tag, uint64_t ignore)
{
    const match_group_t *g = m->kept_in;
    if (!m->first)
        return NULL;
    if (MAD_DEV_LIKELY(g && g->peer == from && g->index->ignore == ignore && g->tag == (tag & ~ignore)))
        return g->kept ? g->kept->message : NULL;
    return dev_match_receive_slow(m, from, tag, ignore);
}

/* ---- Messages with a short envelope -------------------------------------------------------------------------------- */

/* Read the envelope of most messages: short, of a whole message.  Return false for all other messages, and for messages
 * without a block in place. */
static inline bool dev_envelope_is_short(const mad_arrival_t *a, uint64_t *envelope, uint64_t *tag)
{
    static_assert(ENVELOPE_SHORT == 16 && offsetof(wire_envelope_t, flags) == 1 && offsetof(wire_envelope_t, data) == 4 &&
                      offsetof(wire_envelope_t, tag) == 8,
                  "the two words of a short envelope");
    madi_foreign_t block = madi_foreign_of(a->base);
    if (!a->base ||
        a->len - ENVELOPE_SHORT > MAD_DEV_LOAD_MAX) /* len is also huge if the block is shorter than an envelope */
        return false;
    *envelope = madi_foreign_read8(block);
    *tag = madi_foreign_read8(madi_foreign_skip(block, 8));
    return (*envelope & (0xff | (FLAG_WIDE | FLAG_ACK) << 8)) == KIND_WHOLE;
}

/* Copy the payload of a message with a short envelope to `to`, and end the message.  Return what a receive reports. */
static inline void dev_short_receive(const mad_arrival_t *a, uint64_t envelope, uint64_t tag, void *to, mad_dev_got_t *got)
{
    madi_foreign_t bytes = madi_foreign_skip(madi_foreign_of(a->base), ENVELOPE_SHORT);
    size_t len = a->len - ENVELOPE_SHORT;
    got->tag = tag;
    got->data = envelope >> 32;
    got->source = a->peer;
    got->has_data = envelope >> 8 & FLAG_DATA;
    got->len = len;
    got->buffer = to;
    if (MAD_DEV_LIKELY(len == 8)) /* the most common length, without a function call */
        madi_foreign_copy(to, bytes, 8);
    else if (len)
        madi_foreign_copy(to, bytes, len);
    dev_message_end(a->message);
}

/* Copy a tagged message's payload into the piece of a receive, fill *got and end the message.  Return false, and do
 * nothing, if the receive does not match the message, or if the message is not short and whole. */
__attribute__((always_inline)) static inline bool dev_arrival_fetch(mad_dev_t *dev, const mad_arrival_t *a, mad_peer_t from,
                                                                    uint64_t tag, uint64_t ignore, struct iovec piece,
                                                                    mad_dev_got_t *got)
{
    uint64_t envelope, its;
    if (!dev_envelope_is_short(a, &envelope, &its) || envelope & FLAG_PLAIN << 8 || (its ^ tag) & ~ignore ||
        (from != a->peer && from != MAD_ANY_SOURCE) || a->len - ENVELOPE_SHORT > piece.iov_len)
        return false;
    dev_short_receive(a, envelope, its, piece.iov_base, got);
    dev_flow_consume(dev, a->peer, a->len - ENVELOPE_SHORT + MAD_DEV_ENVELOPE_COST);
    return true;
}

#endif
