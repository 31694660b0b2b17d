/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of allgather. */
#include "coll/coll.h"

#include <stdlib.h>

/* ---- Round the ring ---------------------------------------------------------------------------------------------- */

static void plan_allgather_ring(madi_coll_op_t *op, const madi_coll_blocks_t *b, const void *from)
{
    int n = op->group->n, me = op->group->index;
    madi_coll_copy(op, madi_coll_block_at(b, me), from, madi_coll_block_len(b, me));
    for (int step = 0; step < n - 1; step++) {
        int give = (me - step + n) % n, take = (give - 1 + n) % n;
        madi_coll_send(op, (me + 1) % n, (unsigned)step, madi_coll_block_at(b, give), madi_coll_block_len(b, give));
        madi_coll_receive(op, (me - 1 + n) % n, (unsigned)step, madi_coll_block_at(b, take), madi_coll_block_len(b, take));
        madi_coll_wait(op);
    }
}

/* ---- Distances 1, 2, 4, ... -------------------------------------------------------------------------------------- */

/* Collect the blocks of this member and those after it, round the group, in the scratch memory. */
static void plan_allgather_doubling(madi_coll_op_t *op, const madi_coll_blocks_t *b, const void *from)
{
    int n = op->group->n, me = op->group->index;
    unsigned char *blocks = madi_coll_scratch(op, (uint64_t)n * b->len);
    unsigned tag = 0;
    if (!blocks)
        return;
    madi_coll_copy(op, blocks, from, b->len);
    for (int64_t step = 1; step < n; step *= 2, tag++) {
        uint64_t many = (uint64_t)(step < n - step ? step : n - step);
        madi_coll_send(op, (int)((me - step + n) % n), tag, blocks, many * b->len);
        madi_coll_receive(op, (int)((me + step) % n), tag, blocks + (uint64_t)step * b->len, many * b->len);
        madi_coll_wait(op);
    }
    for (int i = 0; i < n; i++)
        madi_coll_copy(op, madi_coll_block_at(b, (me + i) % n), blocks + (uint64_t)i * b->len, b->len);
}

/* ---- Along the tree ---------------------------------------------------------------------------------------------- */

/* Gather all blocks at member 0 in the order of its tree's list, and pass them down as one message. */
static void plan_allgather_tree(madi_coll_op_t *op, const madi_coll_blocks_t *b, const void *from)
{
    struct mad_group *group = op->group;
    const madi_coll_places_t *places = &group->places;
    const madi_coll_tree_t *tree = madi_coll_tree(group, places, 0, UINT64_MAX);
    int n = group->n, me = group->index, *list = malloc((size_t)n * sizeof *list), mine = 0, size, child = 0;
    uint64_t all = 0, own = 0, at = 0, child_at = 0;
    unsigned char *blocks;

    for (int i = 0; i < n; i++)
        all += madi_coll_block_len(b, i);
    blocks = list ? madi_coll_scratch(op, all) : NULL;
    if (!blocks) {
        op->no_memory = true;
        free(list);
        return;
    }
    /* the subtree of this member is a part of the whole list, so its blocks are where they will be at the end */
    size = madi_coll_tree_list(places, 0, me, list);
    for (int i = 0; i < size; i++)
        own += madi_coll_block_len(b, list[i]);
    madi_coll_tree_list(places, 0, 0, list);
    while (list[mine] != me)
        at += madi_coll_block_len(b, list[mine++]);
    madi_coll_copy(op, blocks + at, from, madi_coll_block_len(b, me));
    child_at = at + madi_coll_block_len(b, me);
    for (int i = mine + 1; i < mine + size;) {
        uint64_t len = 0;
        int first = i;
        for (; i < mine + size && (i == first || child + 1 >= tree->n_children || list[i] != tree->child[child + 1]); i++)
            len += madi_coll_block_len(b, list[i]);
        madi_coll_receive(op, tree->child[child++], 0, blocks + child_at, len);
        child_at += len;
    }
    madi_coll_wait(op);
    if (tree->parent >= 0) {
        madi_coll_send(op, tree->parent, 0, blocks + at, own);
        madi_coll_wait(op);
    }
    madi_coll_plan_down(op, places, 0, blocks, all, madi_coll_segment(all, 1), MADI_COLL_TAG_SECOND);
    at = 0;
    for (int i = 0; i < n; i++) {
        madi_coll_copy(op, madi_coll_block_at(b, list[i]), blocks + at, madi_coll_block_len(b, list[i]));
        at += madi_coll_block_len(b, list[i]);
    }
    free(list);
}

static void plan_allgather_blocks(madi_coll_op_t *op, madi_coll_form_t form, const madi_coll_blocks_t *b, const void *from)
{
    if (form == MADI_COLL_TREE)
        plan_allgather_tree(op, b, from);
    else if (form == MADI_COLL_DOUBLING)
        plan_allgather_doubling(op, b, from);
    else
        plan_allgather_ring(op, b, from);
}

void madi_coll_plan_allgather(madi_coll_op_t *op, madi_coll_form_t form, const void *from, uint64_t len, void *to)
{
    madi_coll_blocks_t b = {.base = to, .len = len};
    plan_allgather_blocks(op, form, &b, from);
}

void madi_coll_plan_allgather_v(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, const size_t *lens,
                                const size_t *offsets)
{
    madi_coll_blocks_t b = {.base = to, .lens = lens, .offsets = offsets};
    plan_allgather_blocks(op, form, &b, from);
}
