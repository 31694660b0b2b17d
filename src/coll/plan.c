/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: plans.  The memory of a plan is kept with its operation, and used again by later ones. */
#include "coll/coll.h"

#include <stdlib.h>

#define SCRATCH_MIN 256 /* bytes: least memory for parts of results */
#define TOPS_SHORT 8192 /* bytes: up to this length, more than two tops exchange partial results */

/* Append a step; return it, or NULL if out of memory. */
static madi_coll_step_t *step_add(madi_coll_op_t *op, enum madi_coll_step_kind kind)
{
    madi_coll_step_t *step;
    if (MADI_UNLIKELY(op->n_steps == op->cap_steps)) {
        uint32_t cap = op->cap_steps ? 2 * op->cap_steps : 32;
        madi_coll_step_t *steps = realloc(op->steps, cap * sizeof *steps);
        if (!steps) {
            op->no_memory = true;
            return NULL;
        }
        op->steps = steps;
        op->cap_steps = cap;
    }
    step = &op->steps[op->n_steps++];
    step->kind = (uint8_t)kind;
    return step;
}

void madi_coll_send(madi_coll_op_t *op, int member, unsigned tag, const void *from, uint64_t len)
{
    madi_coll_step_t *step = step_add(op, MADI_COLL_SEND);
    if (!step)
        return;
    step->tag = (uint16_t)tag;
    step->member = member;
    step->from = (void *)(uintptr_t)from;
    step->len = len;
}

void madi_coll_receive(madi_coll_op_t *op, int member, unsigned tag, void *to, uint64_t len)
{
    madi_coll_step_t *step = step_add(op, MADI_COLL_RECEIVE);
    if (!step)
        return;
    step->tag = (uint16_t)tag;
    step->member = member;
    step->to = to;
    step->len = len;
}

void madi_coll_wait(madi_coll_op_t *op)
{
    step_add(op, MADI_COLL_WAIT);
}

static void step_add_local(madi_coll_op_t *op, enum madi_coll_step_kind kind, const void *from, void *to, uint64_t len)
{
    madi_coll_step_t *step = len && from != to ? step_add(op, kind) : NULL;
    if (!step)
        return;
    step->from = (void *)(uintptr_t)from;
    step->to = to;
    step->len = len;
}

void madi_coll_copy(madi_coll_op_t *op, void *to, const void *from, uint64_t len)
{
    step_add_local(op, MADI_COLL_COPY, from, to, len);
}

void madi_coll_combine(madi_coll_op_t *op, const void *from, void *to, uint64_t len)
{
    step_add_local(op, MADI_COLL_COMBINE, from, to, len);
}

void madi_coll_combine_after(madi_coll_op_t *op, void *from, void *to, uint64_t len)
{
    step_add_local(op, op->combine.commutes ? MADI_COLL_COMBINE : MADI_COLL_COMBINE_AFTER, from, to, len);
}

unsigned char *madi_coll_scratch(madi_coll_op_t *op, uint64_t len)
{
    if (len > op->scratch_cap || !op->scratch) {
        free(op->scratch);
        op->scratch_cap = len < SCRATCH_MIN ? SCRATCH_MIN : (size_t)len;
        op->scratch = malloc(op->scratch_cap);
        if (!op->scratch) {
            op->scratch_cap = 0;
            op->no_memory = true;
        }
    }
    return op->scratch;
}

bool madi_coll_tops_exchange(const madi_coll_places_t *places, uint64_t len)
{
    const int *tops;
    int n = madi_coll_tops(places, &tops);
    return n == 2 || (n > 2 && len <= TOPS_SHORT);
}

const madi_coll_tree_t *madi_coll_tree(struct mad_group *group, const madi_coll_places_t *places, int root, uint64_t len)
{
    int radix = len <= MADI_COLL_FLAT ? 4 : 2;
    madi_coll_tree_kept_t *kept = &group->trees[(unsigned)root % MADI_COLL_TREES];
    if (MADI_UNLIKELY(kept->places != places || kept->root != root || kept->radix != radix)) {
        if (root == MADI_COLL_BELOW_TOPS)
            madi_coll_tree_below(places, radix, group->index, &kept->tree);
        else
            madi_coll_tree_make(places, root, radix, group->index, &kept->tree);
        kept->places = places;
        kept->root = root;
        kept->radix = radix;
    }
    return &kept->tree;
}
