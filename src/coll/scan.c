/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of the scans.  LINEAR: each member combines its elements with those that come from the member
 * before it, and passes them on.  DOUBLING: after the round of distance d, a member has the combined elements of the 2 d
 * members up to itself. */
#include "coll/coll.h"

/* Combine the elements of the members from `first` up to this one at `to`, where this member's own are now. */
static void plan_rounds(madi_coll_op_t *op, int first, unsigned char *to, uint64_t len, unsigned char *scratch)
{
    int n = op->group->n, me = op->group->index;
    unsigned tag = 1;
    for (int64_t step = 1; step < n - first; step *= 2, tag++) {
        bool takes = me - step >= first;
        if (takes)
            madi_coll_receive(op, (int)(me - step), tag, scratch, len);
        if (me + step < n)
            madi_coll_send(op, (int)(me + step), tag, to, len);
        madi_coll_wait(op);
        if (takes)
            madi_coll_combine(op, scratch, to, len);
    }
}

/* scratch: room for two times len bytes. */
static void plan_chain(madi_coll_op_t *op, bool exclusive, const void *from, unsigned char *to, uint64_t len,
                       unsigned char *scratch)
{
    int n = op->group->n, me = op->group->index;
    unsigned char *sum = exclusive ? scratch + len : to;
    if (!exclusive || me + 1 < n)
        madi_coll_copy(op, sum, from, len);
    if (me) {
        madi_coll_receive(op, me - 1, 0, scratch, len);
        madi_coll_wait(op);
        if (!exclusive || me + 1 < n)
            madi_coll_combine(op, scratch, sum, len);
    }
    if (me + 1 < n)
        madi_coll_send(op, me + 1, 0, sum, len);
    if (exclusive && me)
        madi_coll_copy(op, to, scratch, len);
}

void madi_coll_plan_scan(madi_coll_op_t *op, madi_coll_form_t form, bool exclusive, const void *from, void *to, uint64_t len)
{
    int n = op->group->n, me = op->group->index;
    unsigned char *scratch = madi_coll_scratch(op, 2 * len);
    if (!scratch)
        return;
    if (form == MADI_COLL_LINEAR) {
        plan_chain(op, exclusive, from, to, len, scratch);
        return;
    }
    if (!exclusive) {
        madi_coll_copy(op, to, from, len);
        plan_rounds(op, 0, to, len, scratch);
        return;
    }
    /* every member begins with the elements of the one before */
    if (me)
        madi_coll_receive(op, me - 1, 0, scratch, len);
    if (me + 1 < n)
        madi_coll_send(op, me + 1, 0, from, len);
    madi_coll_wait(op);
    if (!me)
        return;
    madi_coll_copy(op, to, scratch, len);
    plan_rounds(op, 1, to, len, scratch);
}
