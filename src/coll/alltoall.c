/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of all-to-all.  Every member exchanges with all others, with some at a time. */
#include "coll/coll.h"

#define EXCHANGED_AT_ONCE 16 /* members with which one exchanges at a time */

static void plan_exchange(madi_coll_op_t *op, const madi_coll_blocks_t *from, const madi_coll_blocks_t *to)
{
    int n = op->group->n, me = op->group->index;
    for (int first = 1; first < n; first += EXCHANGED_AT_ONCE) {
        int end = first + EXCHANGED_AT_ONCE < n ? first + EXCHANGED_AT_ONCE : n;
        for (int step = first; step < end; step++) {
            int give = (me + step) % n;
            madi_coll_send(op, give, 0, madi_coll_block_at(from, give), madi_coll_block_len(from, give));
        }
        for (int step = first; step < end; step++) {
            int take = (me - step + n) % n;
            madi_coll_receive(op, take, 0, madi_coll_block_at(to, take), madi_coll_block_len(to, take));
        }
        if (end < n)
            madi_coll_wait(op);
    }
    madi_coll_copy(op, madi_coll_block_at(to, me), madi_coll_block_at(from, me), madi_coll_block_len(to, me));
}

/* In place: send from a copy. */
static void plan_exchange_in_place(madi_coll_op_t *op, const madi_coll_blocks_t *to)
{
    madi_coll_blocks_t from = *to;
    uint64_t end = 0;
    for (int i = 0; i < op->group->n; i++) {
        uint64_t at =
            (uint64_t)(madi_coll_block_at(to, i) ? madi_coll_block_at(to, i) - to->base : 0) + madi_coll_block_len(to, i);
        end = at > end ? at : end;
    }
    from.base = madi_coll_scratch(op, end);
    if (!from.base)
        return;
    for (int i = 0; i < op->group->n; i++)
        madi_coll_copy(op, madi_coll_block_at(&from, i), madi_coll_block_at(to, i), madi_coll_block_len(to, i));
    plan_exchange(op, &from, to);
}

void madi_coll_plan_alltoall(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len)
{
    madi_coll_blocks_t source = {.base = (unsigned char *)(uintptr_t)from, .len = len}, sink = {.base = to, .len = len};
    (void)form;
    if (from == to)
        plan_exchange_in_place(op, &sink);
    else
        plan_exchange(op, &source, &sink);
}

void madi_coll_plan_alltoall_v(madi_coll_op_t *op, const void *from, const size_t *from_lens, const size_t *from_offsets,
                               void *to, const size_t *to_lens, const size_t *to_offsets)
{
    madi_coll_blocks_t source = {.base = (unsigned char *)(uintptr_t)from, .lens = from_lens, .offsets = from_offsets};
    madi_coll_blocks_t sink = {.base = to, .lens = to_lens, .offsets = to_offsets};
    if (from == to)
        plan_exchange_in_place(op, &sink);
    else
        plan_exchange(op, &source, &sink);
}
