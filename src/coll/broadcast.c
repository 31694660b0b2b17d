/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of the broadcast. */
#include "coll/coll.h"

uint64_t madi_coll_segment(uint64_t len, uint64_t size)
{
    uint64_t segment = madi_coll_segment_len(len);
    while (len / segment >= MADI_COLL_SEGMENTS)
        segment *= 2;
    segment -= segment % size;
    return segment ? segment : size;
}

void madi_coll_plan_down(madi_coll_op_t *op, const madi_coll_places_t *places, int root, void *buf, uint64_t len,
                         uint64_t segment, unsigned tag)
{
    const madi_coll_tree_t *tree = madi_coll_tree(op->group, places, root, len);
    unsigned char *bytes = buf;
    uint64_t first = len < segment ? len : segment;
    if (tree->parent >= 0) {
        madi_coll_receive(op, tree->parent, tag, bytes, first);
        madi_coll_wait(op);
    }
    for (uint64_t at = 0; at < len || !at; at += segment, tag++) {
        uint64_t here = len - at < segment ? len - at : segment, next = at + segment;
        if (tree->parent >= 0 && next < len)
            madi_coll_receive(op, tree->parent, tag + 1, bytes + next, len - next < segment ? len - next : segment);
        for (int i = 0; i < tree->n_children; i++)
            madi_coll_send(op, tree->child[i], tag, bytes + at, here);
        if (next < len)
            madi_coll_wait(op);
    }
}

/* A block of a buffer of len bytes that is divided into n blocks: all of one length, but the last ones may be shorter. */
typedef struct spread_block {
    uint64_t at, len;
} spread_block_t;

/* Return the blocks from `first` up to `end`, which are consecutive. */
static spread_block_t blocks_of(uint64_t len, int n, int first, int end)
{
    uint64_t one = (len + (uint64_t)n - 1) / (uint64_t)n, from = one * (uint64_t)first, to = one * (uint64_t)end;
    from = from < len ? from : len;
    to = to < len ? to : len;
    return (spread_block_t){from, to - from};
}

/* Scatter blocks along a binomial tree, and pass them round.  Members are numbered from the root on. */
static void plan_spread(madi_coll_op_t *op, int root, unsigned char *buf, uint64_t len)
{
    int n = op->group->n, me = (op->group->index - root + n) % n, low = 1;
    spread_block_t b;
    while (low < n && !(me & low))
        low *= 2;
    if (me) {
        b = blocks_of(len, n, me, me + low < n ? me + low : n);
        madi_coll_receive(op, (me - low + root) % n, 0, buf + b.at, b.len);
        madi_coll_wait(op);
    }
    for (int step = low / 2; step; step /= 2) {
        if (me + step >= n)
            continue;
        b = blocks_of(len, n, me + step, me + 2 * step < n ? me + 2 * step : n);
        madi_coll_send(op, (me + step + root) % n, 0, buf + b.at, b.len);
    }
    for (int step = 0; step < n - 1; step++) {
        int give = (me - step + n) % n, take = (me - step - 1 + n) % n;
        b = blocks_of(len, n, take, take + 1);
        madi_coll_receive(op, (me - 1 + n + root) % n, 1 + (unsigned)step, buf + b.at, b.len);
        b = blocks_of(len, n, give, give + 1);
        madi_coll_send(op, (me + 1 + root) % n, 1 + (unsigned)step, buf + b.at, b.len);
        madi_coll_wait(op);
    }
}

void madi_coll_plan_broadcast(madi_coll_op_t *op, madi_coll_form_t form, int root, void *buf, uint64_t len)
{
    if (form == MADI_COLL_SPREAD)
        plan_spread(op, root, buf, len);
    else
        madi_coll_plan_down(op, &op->group->places, root, buf, len,
                            form == MADI_COLL_PIPELINE ? madi_coll_segment(len, 1) : UINT64_MAX, 0);
}
