/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between sharing blocks and sending them: what is learned about both methods.
 *
 * A trial of a method takes many blocks in a row.  Memory of the link that was not used for long, or never, makes the first
 * ones slow, so a trial of the ring uses all of it at least once. */
#include "core/send/share.h"

static madi_share_class_t *share_class(madi_share_t *share, uint64_t len, int *bits)
{
    int n = len ? 63 - __builtin_clzll(len) : 0;
    *bits = n;
    n = n < MADI_SHARE_MIN_BITS ? 0 : n - MADI_SHARE_MIN_BITS;
    return &share->classes[n < MADI_SHARE_CLASSES ? n : MADI_SHARE_CLASSES - 1];
}

static uint32_t trial_blocks(uint64_t len)
{
    uint64_t n = MADI_SHARE_TRY_BYTES / (len | 1);
    if (n < MADI_SHARE_TRY_BLOCKS_MIN)
        return MADI_SHARE_TRY_BLOCKS_MIN;
    return n > MADI_SHARE_TRY_BLOCKS_MAX ? MADI_SHARE_TRY_BLOCKS_MAX : (uint32_t)n;
}

/* Return the number of blocks of a trial of one method.  Sharing uses no memory of the link, so few blocks suffice. */
static uint32_t method_blocks(uint64_t len, bool shared)
{
    return shared ? MADI_SHARE_TRY_BLOCKS_MIN : trial_blocks(len);
}

static uint32_t blocks_until_trial(const madi_share_class_t *c, uint64_t len)
{
    uint64_t least = (uint64_t)trial_blocks(len) << (MADI_SHARE_PART_FIRST + c->rarer);
    uint64_t n = least * c->middle[!c->shared] / ((uint64_t)c->middle[c->shared] + 1);
    /* The time between two trials is bounded, because a method may have seemed much slower in few trials for other
     * reasons. */
    uint64_t most = least * (c->rarer < MADI_SHARE_SLOWER_BITS ? UINT64_C(1) << c->rarer : 1 << MADI_SHARE_SLOWER_BITS);
    if (n < least)
        n = least;
    return (uint32_t)(n < most ? n : most);
}

bool madi_share_next(madi_share_t *share, uint64_t len, bool *timed)
{
    int bits;
    madi_share_class_t *c = share_class(share, len, &bits);
    *timed = c->run; /* the last block of a run is timed, too */
    if (c->run) {
        c->run--;
    } else if (c->tried < 2) { /* the first trial is without sharing, the second one with sharing */
        c->shared = (c->tried++ == 0) == share->shared_first;
        c->run = method_blocks(len, c->shared) - 1;
        c->left = trial_blocks(len) << MADI_SHARE_PART_FIRST;
    } else if (c->trying || !c->left) {
        c->trying = !c->trying;
        c->run = c->trying ? method_blocks(len, !c->shared) - 1 : 0;
        c->left = blocks_until_trial(c, len);
        c->rarer += c->trying && c->rarer < MADI_SHARE_PART_LAST - MADI_SHARE_PART_FIRST;
    } else {
        c->left--;
    }
    *timed |= c->run || c->trying || c->left % MADI_SHARE_TIMED_EVERY == 0;
    return c->shared != c->trying;
}

static uint32_t median_of(const uint32_t *took)
{
    uint32_t in_order[MADI_SHARE_KEPT];
    for (int i = 0; i < MADI_SHARE_KEPT; i++) {
        int at = i;
        for (; at && in_order[at - 1] > took[i]; at--)
            in_order[at] = in_order[at - 1];
        in_order[at] = took[i];
    }
    return in_order[MADI_SHARE_KEPT / 2];
}

/* Choose the faster method once both were tried.  Sharing must be clearly faster, since a method that was not used lately
 * seems slower than it is. */
static void method_choose(madi_share_class_t *c, uint64_t len, uint32_t lead)
{
    uint64_t n = len < MADI_SHARE_LONG ? lead : MADI_SHARE_LEAD_LONG;
    bool shared = c->middle[1] * n < c->middle[0] * (n - 1);
    if (shared == c->shared || c->tried < 2 || (c->run && !c->trying))
        return;
    c->shared = shared;
    c->trying = false;
    c->run = 0;
    c->left = blocks_until_trial(c, len);
}

void madi_share_record(madi_share_t *share, uint64_t len, bool shared, int64_t ns)
{
    int bits;
    madi_share_class_t *c = share_class(share, len, &bits);
    double scaled = (double)ns * (double)(UINT64_C(1) << bits) / (double)(len + !len);
    c->took[shared][c->oldest[shared]] = scaled < UINT32_MAX ? (uint32_t)scaled + 1 : UINT32_MAX;
    c->oldest[shared] = (uint8_t)((c->oldest[shared] + 1) % MADI_SHARE_KEPT);
    c->count[shared] += c->count[shared] < MADI_SHARE_KEPT;
    if (c->count[shared] == MADI_SHARE_KEPT)
        c->middle[shared] = median_of(c->took[shared]);
    if (c->middle[0] && c->middle[1])
        method_choose(c, len, share->lead);
}

bool madi_share_begun(madi_share_habit_t *habit, int64_t now)
{
    atomic_store_explicit(&habit->begun, now, memory_order_relaxed);
    return atomic_load_explicit(&habit->polls, memory_order_relaxed);
}

void madi_share_polled(madi_share_habit_t *habit, int64_t now)
{
    int64_t begun = atomic_exchange_explicit(&habit->begun, 0, memory_order_relaxed);
    if (begun)
        atomic_store_explicit(&habit->polls, now - begun < MADI_SHARE_POLL_NS, memory_order_relaxed);
}
