/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of reductions along a tree.
 *
 * A member combines its own elements with those of its children in the order of their indices, always
 * `lower * higher`, where the result takes the place of the higher:
 *
 *   own, child 1, child 2, child 4      child 1 = own * child 1;  child 2 = child 1 * child 2;  child 4 = child 2 * child 4
 *
 * So nothing is copied, and the last child's buffer has the result.  At the root that buffer is the program's. */
#include "coll/coll.h"

#define SLOT_ALIGN ((uint64_t)64)

static uint64_t slot_len(uint64_t segment)
{
    return (segment + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

const madi_coll_places_t *madi_coll_reduce_places(const madi_coll_op_t *op)
{
    const struct mad_group *group = op->group;
    return op->combine.commutes || group->places.contiguous ? &group->places : &group->flat;
}

uint64_t madi_coll_up_scratch(const madi_coll_op_t *op, const madi_coll_places_t *places, int root, uint64_t len,
                              uint64_t segment)
{
    const madi_coll_tree_t *tree = madi_coll_tree(op->group, places, root, len);
    return 2 * (uint64_t)tree->n_children * slot_len(len < segment ? len : segment);
}

/* One reduction along a tree. */
typedef struct going_up {
    madi_coll_op_t *op;
    const madi_coll_tree_t *tree;
    const unsigned char *from;
    unsigned char *to;   /* at the root: where the result goes; else NULL */
    unsigned char *slot; /* two slots for each child, of alternating segments */
    uint64_t len, segment;
    unsigned tag;
} going_up_t;

/* Return where the bytes of a child go, which is the i-th from the highest index, in segment number s. */
static unsigned char *child_buffer(const going_up_t *up, int i, uint64_t s)
{
    uint64_t slot = slot_len(up->len < up->segment ? up->len : up->segment);
    if (i == 0 && up->to && up->to != up->from)
        return up->to + s * up->segment;
    return up->slot + (2 * (uint64_t)i + s % 2) * slot;
}

static uint64_t segment_len(const going_up_t *up, uint64_t s)
{
    uint64_t left = up->len - s * up->segment;
    return left < up->segment ? left : up->segment;
}

static void children_receive(const going_up_t *up, uint64_t s)
{
    for (int i = up->tree->n_children - 1; i >= 0; i--)
        madi_coll_receive(up->op, up->tree->child[i], up->tag + (unsigned)s, child_buffer(up, i, s), segment_len(up, s));
}

/* Combine a segment of this member and its children, and pass the result on. */
static void segment_combine(const going_up_t *up, uint64_t s)
{
    unsigned char *sum = (unsigned char *)(uintptr_t)(up->len ? up->from + s * up->segment : up->from);
    uint64_t len = segment_len(up, s);
    for (int i = up->tree->n_children - 1; i >= 0; i--) {
        unsigned char *child = child_buffer(up, i, s);
        madi_coll_combine(up->op, sum, child, len);
        sum = child;
    }
    if (up->tree->parent >= 0)
        madi_coll_send(up->op, up->tree->parent, up->tag + (unsigned)s, sum, len);
    else
        madi_coll_copy(up->op, up->len ? up->to + s * up->segment : up->to, sum, len);
}

void madi_coll_plan_up(madi_coll_op_t *op, const madi_coll_places_t *places, int root, const void *from, void *to,
                       uint64_t len, uint64_t segment, unsigned tag, unsigned char *scratch)
{
    going_up_t up = {.op = op, .from = from, .slot = scratch, .len = len, .segment = segment, .tag = tag};
    uint64_t segments = len ? (len - 1) / segment + 1 : 1;
    up.tree = madi_coll_tree(op->group, places, root, len);
    up.to = up.tree->parent < 0 ? to : NULL;
    if (up.tree->n_children) {
        children_receive(&up, 0);
        madi_coll_wait(op);
    }
    for (uint64_t s = 0; s < segments; s++) {
        if (up.tree->n_children && s + 1 < segments)
            children_receive(&up, s + 1);
        segment_combine(&up, s);
        if (up.tree->n_children && s + 1 < segments)
            madi_coll_wait(op);
    }
}

void madi_coll_plan_reduce(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, void *to, uint64_t len)
{
    const madi_coll_places_t *places = madi_coll_reduce_places(op);
    uint64_t segment = form == MADI_COLL_PIPELINE ? madi_coll_segment(len, op->combine.size) : UINT64_MAX;
    int me = op->group->index, top = op->combine.commutes ? root : 0;
    uint64_t slots = madi_coll_up_scratch(op, places, top, len, segment);
    bool passes = me == top && top != root; /* an ordered tree has member 0 as its root, which passes the result on */
    unsigned char *scratch = madi_coll_scratch(op, slots + (passes ? len : 0));
    if (!scratch)
        return;
    madi_coll_plan_up(op, places, top, from, passes ? scratch + slots : to, len, segment, 0, scratch);
    if (top == root)
        return;
    madi_coll_wait(op);
    if (passes)
        madi_coll_send(op, root, MADI_COLL_TAG_SECOND, scratch + slots, len);
    else if (me == root)
        madi_coll_receive(op, top, MADI_COLL_TAG_SECOND, to, len);
}
