/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of the barrier. */
#include "coll/coll.h"

void madi_coll_plan_doubling(madi_coll_op_t *op, unsigned tag)
{
    int n = op->group->n, me = op->group->index;
    for (int64_t step = 1; step < n; step *= 2, tag++) {
        madi_coll_send(op, (int)((me + step) % n), tag, NULL, 0);
        madi_coll_receive(op, (int)((me - step + n) % n), tag, NULL, 0);
        madi_coll_wait(op);
    }
}

void madi_coll_plan_barrier(madi_coll_op_t *op, madi_coll_form_t form)
{
    const madi_coll_tree_t *tree;
    if (form == MADI_COLL_DOUBLING) {
        madi_coll_plan_doubling(op, 0);
        return;
    }
    tree = madi_coll_tree(op->group, &op->group->places, 0);
    for (int i = tree->n_children - 1; i >= 0; i--)
        madi_coll_receive(op, tree->child[i], 0, NULL, 0);
    madi_coll_wait(op);
    if (tree->parent >= 0) {
        madi_coll_send(op, tree->parent, 0, NULL, 0);
        madi_coll_receive(op, tree->parent, 1, NULL, 0);
        madi_coll_wait(op);
    }
    for (int i = 0; i < tree->n_children; i++)
        madi_coll_send(op, tree->child[i], 1, NULL, 0);
}
