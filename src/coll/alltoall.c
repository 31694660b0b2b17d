/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of all-to-all.  Every member exchanges with all others, with some at a time. */
#include "coll/coll.h"

#define EXCHANGED_AT_ONCE 16 /* members with which one exchanges at a time */

/* One member's blocks for, or from, all others. */
typedef struct exchange_side {
    unsigned char *base;
    uint64_t len;
    const size_t *lens, *offsets; /* NULL: all have length len */
} exchange_side_t;

static uint64_t side_len(const exchange_side_t *s, int member)
{
    return s->lens ? s->lens[member] : s->len;
}

static unsigned char *side_at(const exchange_side_t *s, int member)
{
    return side_len(s, member) ? s->base + (s->offsets ? s->offsets[member] : (uint64_t)member * s->len) : NULL;
}

static void plan_exchange(madi_coll_op_t *op, const exchange_side_t *from, const exchange_side_t *to)
{
    int n = op->group->n, me = op->group->index;
    for (int step = 1; step < n; step++) {
        int give = (me + step) % n, take = (me - step + n) % n;
        madi_coll_receive(op, take, 0, side_at(to, take), side_len(to, take));
        madi_coll_send(op, give, 0, side_at(from, give), side_len(from, give));
        if (step % EXCHANGED_AT_ONCE == 0)
            madi_coll_wait(op);
    }
    madi_coll_copy(op, side_at(to, me), side_at(from, me), side_len(to, me));
}

/* In place: send from a copy. */
static void plan_exchange_in_place(madi_coll_op_t *op, const exchange_side_t *to)
{
    exchange_side_t from = *to;
    uint64_t end = 0;
    for (int i = 0; i < op->group->n; i++) {
        uint64_t at = (uint64_t)(side_at(to, i) ? side_at(to, i) - to->base : 0) + side_len(to, i);
        end = at > end ? at : end;
    }
    from.base = madi_coll_scratch(op, end);
    if (!from.base)
        return;
    for (int i = 0; i < op->group->n; i++)
        madi_coll_copy(op, side_at(&from, i), side_at(to, i), side_len(to, i));
    plan_exchange(op, &from, to);
}

void madi_coll_plan_alltoall(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len)
{
    exchange_side_t source = {.base = (unsigned char *)(uintptr_t)from, .len = len}, sink = {.base = to, .len = len};
    (void)form;
    if (from == to)
        plan_exchange_in_place(op, &sink);
    else
        plan_exchange(op, &source, &sink);
}

void madi_coll_plan_alltoall_v(madi_coll_op_t *op, const void *from, const size_t *from_lens, const size_t *from_offsets,
                               void *to, const size_t *to_lens, const size_t *to_offsets)
{
    exchange_side_t source = {.base = (unsigned char *)(uintptr_t)from, .lens = from_lens, .offsets = from_offsets};
    exchange_side_t sink = {.base = to, .lens = to_lens, .offsets = to_offsets};
    if (from == to)
        plan_exchange_in_place(op, &sink);
    else
        plan_exchange(op, &source, &sink);
}
