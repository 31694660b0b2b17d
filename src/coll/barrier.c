/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of the barrier. */
#include "coll/coll.h"

void madi_coll_plan_doubling(madi_coll_op_t *op, madi_coll_partners_t p, unsigned tag)
{
    for (int64_t step = 1; step < p.n; step *= 2, tag++) {
        madi_coll_send(op, madi_coll_partner(&p, (int)((p.me + step) % p.n)), tag, NULL, 0);
        madi_coll_receive(op, madi_coll_partner(&p, (int)((p.me - step + p.n) % p.n)), tag, NULL, 0);
        madi_coll_wait(op);
    }
}

void madi_coll_plan_barrier(madi_coll_op_t *op, madi_coll_form_t form)
{
    struct mad_group *group = op->group;
    const madi_coll_places_t *places = &group->places;
    bool exchanges = madi_coll_tops_exchange(places, 0);
    const madi_coll_tree_t *tree;
    if (form == MADI_COLL_DOUBLING) {
        madi_coll_plan_doubling(op, madi_coll_all(op), 0);
        return;
    }
    tree = madi_coll_tree(group, places, exchanges ? MADI_COLL_BELOW_TOPS : 0, 0);
    for (int i = tree->n_children - 1; i >= 0; i--)
        madi_coll_receive(op, tree->child[i], 0, NULL, 0);
    madi_coll_wait(op);
    if (tree->parent >= 0) {
        madi_coll_send(op, tree->parent, 0, NULL, 0);
        madi_coll_receive(op, tree->parent, 1, NULL, 0);
        madi_coll_wait(op);
    } else if (exchanges) {
        madi_coll_plan_doubling(op, madi_coll_top_partners(op, places), MADI_COLL_TAG_TOPS);
    }
    for (int i = 0; i < tree->n_children; i++)
        madi_coll_send(op, tree->child[i], 1, NULL, 0);
}
