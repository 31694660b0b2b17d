/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans of the reductions whose result all members get, whole or in blocks. */
#include "coll/coll.h"

/* ---- With partners at distances 1, 2, 4, ... ---------------------------------------------------------------------- */

/* The member's elements combined so far, and the memory for those of a partner.  The two change places. */
typedef struct halves {
    unsigned char *sum, *other;
} halves_t;

/* Exchange with a partner, and combine in the order of the partners. */
static void partner_exchange(madi_coll_op_t *op, halves_t *h, const madi_coll_partners_t *p, int partner, unsigned tag,
                             uint64_t len)
{
    unsigned char *sum = h->sum;
    madi_coll_send(op, madi_coll_partner(p, partner), tag, h->sum, len);
    madi_coll_receive(op, madi_coll_partner(p, partner), tag, h->other, len);
    madi_coll_wait(op);
    if (partner < p->me || op->combine.commutes) {
        madi_coll_combine(op, h->other, h->sum, len);
    } else {
        madi_coll_combine(op, h->sum, h->other, len);
        h->sum = h->other;
        h->other = sum;
    }
}

/* If n is no power of two, the first partners form pairs, of which the higher one takes part for both.  scratch: room for len
 * bytes. */
static void plan_partners(madi_coll_op_t *op, const madi_coll_partners_t *p, const void *from, unsigned char *to,
                          uint64_t len, unsigned char *scratch, unsigned tag)
{
    int n = p->n, me = p->me, power = 1, pairs, place;
    halves_t h = {to, scratch};
    unsigned first = tag;
    while (power <= n / 2)
        power *= 2;
    pairs = n - power;
    if (me < 2 * pairs && me % 2 == 0) {
        madi_coll_send(op, madi_coll_partner(p, me + 1), tag, from, len);
        madi_coll_wait(op); /* in place: what was sent is overwritten */
        madi_coll_receive(op, madi_coll_partner(p, me + 1), tag, to, len);
        return;
    }
    madi_coll_copy(op, to, from, len);
    if (me < 2 * pairs) {
        madi_coll_receive(op, madi_coll_partner(p, me - 1), tag, h.other, len);
        madi_coll_wait(op);
        madi_coll_combine(op, h.other, h.sum, len);
    }
    place = me < 2 * pairs ? me / 2 : me - pairs;
    for (int step = 1; step < power; step *= 2) {
        int partner = place ^ step;
        partner_exchange(op, &h, p, partner < pairs ? 2 * partner + 1 : partner + pairs, ++tag, len);
    }
    madi_coll_copy(op, to, h.sum, len);
    if (me < 2 * pairs)
        madi_coll_send(op, madi_coll_partner(p, me - 1), first, to, len);
}

/* ---- Along a tree ------------------------------------------------------------------------------------------------ */

static void plan_up_and_down(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len)
{
    const madi_coll_places_t *places = madi_coll_reduce_places(op);
    uint64_t segment = form == MADI_COLL_PIPELINE ? madi_coll_segment(len, op->combine.size) : UINT64_MAX;
    bool exchanges = madi_coll_tops_exchange(places, len);
    int root = exchanges ? MADI_COLL_BELOW_TOPS : 0;
    uint64_t slots = madi_coll_up_scratch(op, places, root, len, segment);
    bool is_top = exchanges && madi_coll_tree(op->group, places, root, len)->parent < 0;
    unsigned char *scratch = madi_coll_scratch(op, slots + (is_top ? len : 0));
    if (!scratch)
        return;
    madi_coll_plan_up(op, places, root, from, to, len, segment, 0, scratch);
    madi_coll_wait(op); /* in place: what was sent is overwritten */
    if (is_top) {
        madi_coll_partners_t tops = madi_coll_top_partners(op, places);
        plan_partners(op, &tops, to, to, len, scratch + slots, MADI_COLL_TAG_TOPS);
        madi_coll_wait(op);
    }
    madi_coll_plan_down(op, places, root, to, len, segment, MADI_COLL_TAG_SECOND);
}

/* ---- Round the ring ---------------------------------------------------------------------------------------------- */

/* A buffer in n blocks. */
typedef struct ring_blocks {
    int n;
    uint64_t count, size; /* elements of the whole buffer; bytes of an element */
} ring_blocks_t;

/* Return the first element of a block. */
static uint64_t ring_first(const ring_blocks_t *r, int block)
{
    uint64_t n = (uint64_t)r->n, b = (uint64_t)block, each = r->count / n, more = r->count % n;
    return b * each + (b < more ? b : more);
}

static uint64_t ring_at(const ring_blocks_t *r, int block)
{
    return ring_first(r, block) * r->size;
}

static uint64_t ring_len(const ring_blocks_t *r, int block)
{
    return (ring_first(r, block + 1) - ring_first(r, block)) * r->size;
}

/* Pass partial results round the ring, so that this member gets the block `last` of the result.  Return where it is. */
static unsigned char *ring_reduce(madi_coll_op_t *op, const ring_blocks_t *r, const unsigned char *from, int last,
                                  unsigned char *scratch)
{
    int n = r->n, me = op->group->index, next = (me + 1) % n, before = (me - 1 + n) % n;
    uint64_t slot = ring_len(r, 0); /* the first block is one of the longest */
    unsigned char *given = NULL, *taken = scratch;
    for (int step = 0; step < n - 1; step++) {
        int give = (last - 1 - step + 2 * n) % n, take = (give - 1 + n) % n;
        taken = scratch + (uint64_t)(step % 2) * slot;
        madi_coll_send(op, next, (unsigned)step, step ? given : from + ring_at(r, give), ring_len(r, give));
        madi_coll_receive(op, before, (unsigned)step, taken, ring_len(r, take));
        madi_coll_wait(op);
        madi_coll_combine(op, from + ring_at(r, take), taken, ring_len(r, take));
        given = taken;
    }
    return taken;
}

static void plan_ring(madi_coll_op_t *op, const unsigned char *from, unsigned char *to, uint64_t count)
{
    ring_blocks_t r = {op->group->n, count, op->combine.size};
    int n = r.n, me = op->group->index, own = (me + 1) % n;
    unsigned char *scratch = madi_coll_scratch(op, 2 * ring_len(&r, 0)), *result;
    if (!scratch)
        return;
    result = ring_reduce(op, &r, from, own, scratch);
    madi_coll_copy(op, to + ring_at(&r, own), result, ring_len(&r, own));
    for (int step = 0; step < n - 1; step++) {
        int give = (own - step + n) % n, take = (give - 1 + n) % n;
        madi_coll_receive(op, (me - 1 + n) % n, MADI_COLL_TAG_SECOND + (unsigned)step, to + ring_at(&r, take),
                          ring_len(&r, take));
        madi_coll_send(op, (me + 1) % n, MADI_COLL_TAG_SECOND + (unsigned)step, to + ring_at(&r, give), ring_len(&r, give));
        madi_coll_wait(op);
    }
}

static void plan_all_partners(madi_coll_op_t *op, const void *from, unsigned char *to, uint64_t len)
{
    madi_coll_partners_t all = madi_coll_all(op);
    unsigned char *scratch = madi_coll_scratch(op, len);
    if (scratch)
        plan_partners(op, &all, from, to, len, scratch, 0);
}

void madi_coll_plan_allreduce(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t count)
{
    uint64_t len = count * op->combine.size;
    if (op->group->n == 1)
        madi_coll_copy(op, to, from, len);
    else if (form == MADI_COLL_DOUBLING)
        plan_all_partners(op, from, to, len);
    else if (form == MADI_COLL_RING)
        plan_ring(op, from, to, count);
    else
        plan_up_and_down(op, form, from, to, len);
}

/* ---- In blocks --------------------------------------------------------------------------------------------------- */

/* Combine all at member 0, which scatters the blocks. */
static void plan_up_and_scatter(madi_coll_op_t *op, const void *from, void *to, uint64_t len)
{
    const madi_coll_places_t *places = madi_coll_reduce_places(op);
    int n = op->group->n, me = op->group->index;
    uint64_t all = len * (uint64_t)n, segment = madi_coll_segment(all, op->combine.size);
    uint64_t slots = madi_coll_up_scratch(op, places, 0, all, segment);
    unsigned char *scratch = madi_coll_scratch(op, slots + (me ? 0 : all));
    if (!scratch)
        return;
    madi_coll_plan_up(op, places, 0, from, scratch + slots, all, segment, 0, scratch);
    madi_coll_wait(op);
    if (me) {
        madi_coll_receive(op, 0, MADI_COLL_TAG_SECOND, to, len);
        return;
    }
    for (int i = 1; i < n; i++)
        madi_coll_send(op, i, MADI_COLL_TAG_SECOND, scratch + slots + (uint64_t)i * len, len);
    madi_coll_copy(op, to, scratch + slots, len);
}

void madi_coll_plan_reduce_scatter(madi_coll_op_t *op, madi_coll_form_t form, const void *from, void *to, uint64_t len)
{
    int n = op->group->n;
    ring_blocks_t r = {n, len / op->combine.size * (uint64_t)n, op->combine.size};
    unsigned char *scratch;
    if (n == 1) {
        madi_coll_copy(op, to, from, len);
    } else if (form != MADI_COLL_RING) {
        plan_up_and_scatter(op, from, to, len);
    } else if ((scratch = madi_coll_scratch(op, 2 * len))) {
        madi_coll_copy(op, to, ring_reduce(op, &r, from, op->group->index, scratch), len);
    }
}
