/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of gather and scatter.  Along a tree, a member passes on the blocks of its whole subtree as one
 * message, in the order of madi_coll_tree_list. */
#include "coll/coll.h"

#include <stdlib.h>

/* A member's subtree. */
typedef struct subtree {
    const madi_coll_tree_t *tree;
    int *list; /* the members */
    int n;
} subtree_t;

/* Find the subtree of this member.  Return false if out of memory. */
static bool subtree_find(madi_coll_op_t *op, int root, subtree_t *s)
{
    struct mad_group *group = op->group;
    s->list = malloc((size_t)group->n * sizeof *s->list);
    if (!s->list) {
        op->no_memory = true;
        return false;
    }
    s->n = madi_coll_tree_list(&group->places, root, group->index, s->list);
    s->tree = madi_coll_tree(group, &group->places, root, UINT64_MAX);
    return true;
}

/* Return the number of members in the subtree of child number i, whose members begin at `at` of the list. */
static int child_size(const subtree_t *s, int i, int at)
{
    int end = at;
    while (end < s->n && (i + 1 == s->tree->n_children || s->list[end] != s->tree->child[i + 1]))
        end++;
    return end - at;
}

static void plan_gather_tree(madi_coll_op_t *op, int root, const void *from, uint64_t len, unsigned char *to)
{
    subtree_t s;
    unsigned char *blocks;
    if (!subtree_find(op, root, &s))
        return;
    blocks = s.n > 1 ? madi_coll_scratch(op, (uint64_t)s.n * len) : NULL;
    for (int i = 0, at = 1; i < s.tree->n_children && blocks; i++) {
        int size = child_size(&s, i, at);
        madi_coll_receive(op, s.tree->child[i], 0, blocks + (uint64_t)at * len, (uint64_t)size * len);
        at += size;
    }
    if (s.tree->parent < 0) {
        madi_coll_copy(op, to + (uint64_t)root * len, from, len);
        madi_coll_wait(op);
        for (int i = 1; i < s.n && blocks; i++)
            madi_coll_copy(op, to + (uint64_t)s.list[i] * len, blocks + (uint64_t)i * len, len);
    } else if (!blocks) {
        madi_coll_send(op, s.tree->parent, 0, from, len);
    } else {
        madi_coll_copy(op, blocks, from, len);
        madi_coll_wait(op);
        madi_coll_send(op, s.tree->parent, 0, blocks, (uint64_t)s.n * len);
    }
    free(s.list);
}

static void plan_scatter_tree(madi_coll_op_t *op, int root, const unsigned char *from, void *to, uint64_t len)
{
    subtree_t s;
    unsigned char *blocks;
    if (!subtree_find(op, root, &s))
        return;
    blocks = s.n > 1 ? madi_coll_scratch(op, (uint64_t)s.n * len) : NULL;
    if (s.tree->parent < 0) {
        madi_coll_copy(op, to, from + (uint64_t)root * len, len);
        for (int i = 1; i < s.n && blocks; i++)
            madi_coll_copy(op, blocks + (uint64_t)i * len, from + (uint64_t)s.list[i] * len, len);
    } else {
        madi_coll_receive(op, s.tree->parent, 0, blocks ? blocks : to, (uint64_t)s.n * len);
        madi_coll_wait(op);
        if (blocks)
            madi_coll_copy(op, to, blocks, len);
    }
    for (int i = 0, at = 1; i < s.tree->n_children && blocks; i++) {
        int size = child_size(&s, i, at);
        madi_coll_send(op, s.tree->child[i], 0, blocks + (uint64_t)at * len, (uint64_t)size * len);
        at += size;
    }
    free(s.list);
}

/* ---- Directly with the root --------------------------------------------------------------------------------------- */

static void plan_gather_linear(madi_coll_op_t *op, int root, const void *from, uint64_t len, const madi_coll_blocks_t *to)
{
    if (op->group->index != root) {
        madi_coll_send(op, root, 0, from, len);
        return;
    }
    for (int i = 0; i < op->group->n; i++)
        if (i != root)
            madi_coll_receive(op, i, 0, madi_coll_block_at(to, i), madi_coll_block_len(to, i));
    madi_coll_copy(op, madi_coll_block_at(to, root), from, len);
}

static void plan_scatter_linear(madi_coll_op_t *op, int root, const madi_coll_blocks_t *from, void *to, uint64_t len)
{
    if (op->group->index != root) {
        madi_coll_receive(op, root, 0, to, len);
        return;
    }
    for (int i = 0; i < op->group->n; i++)
        if (i != root)
            madi_coll_send(op, i, 0, madi_coll_block_at(from, i), madi_coll_block_len(from, i));
    madi_coll_copy(op, to, madi_coll_block_at(from, root), len);
}

void madi_coll_plan_gather(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, uint64_t len, void *to)
{
    const madi_coll_blocks_t blocks = {.base = to, .len = len};
    if (form == MADI_COLL_TREE && len)
        plan_gather_tree(op, root, from, len, to);
    else
        plan_gather_linear(op, root, from, len, &blocks);
}

void madi_coll_plan_gather_v(madi_coll_op_t *op, int root, const void *from, uint64_t len, void *to, const size_t *lens,
                             const size_t *offsets)
{
    const madi_coll_blocks_t blocks = {.base = to, .lens = lens, .offsets = offsets};
    plan_gather_linear(op, root, from, len, &blocks);
}

void madi_coll_plan_scatter(madi_coll_op_t *op, madi_coll_form_t form, int root, const void *from, void *to, uint64_t len)
{
    const madi_coll_blocks_t blocks = {.base = (unsigned char *)(uintptr_t)from, .len = len};
    if (form == MADI_COLL_TREE && len)
        plan_scatter_tree(op, root, from, to, len);
    else
        plan_scatter_linear(op, root, &blocks, to, len);
}

void madi_coll_plan_scatter_v(madi_coll_op_t *op, int root, const void *from, const size_t *lens, const size_t *offsets,
                              void *to, uint64_t len)
{
    const madi_coll_blocks_t blocks = {.base = (unsigned char *)(uintptr_t)from, .lens = lens, .offsets = offsets};
    plan_scatter_linear(op, root, &blocks, to, len);
}
