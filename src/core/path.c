/* SPDX-License-Identifier: BSD-3-Clause */
/* Which path a block takes, and from which length on it is announced. */
#include "core/path.h"

#define COPY_MAX 192      /* bytes, as MADI_COPY_MAX: longer ones are a gather entry */
#define SHARE_MIN 16384   /* bytes: each side moves two pages at the least */

const char *madi_path_name(madi_path_t path)
{
    static const char *const names[MADI_PATHS] = {"copy", "packet", "write", "read", "share", "grant"};
    return (unsigned)path < MADI_PATHS ? names[path] : "unknown";
}

/* Announced: of one whose sender computes the peer takes all, and of one whose sender waits each takes a part. */
static madi_path_t announced(const madi_path_block_t *b)
{
    if (!b->direct || !b->contiguous || b->held)
        return MADI_PATH_GRANT;
    if (b->sender == MADI_SENDER_COMPUTES)
        return b->alone ? MADI_PATH_READ : MADI_PATH_GRANT;
    return b->len >= SHARE_MIN ? MADI_PATH_SHARE : MADI_PATH_GRANT;
}

madi_path_t madi_path_choose(const madi_path_block_t *b, size_t grant_min)
{
    if (!b->held && b->len <= b->room && b->len < grant_min)
        return b->contiguous && b->len <= COPY_MAX ? MADI_PATH_COPY : MADI_PATH_PACKET;
    if (b->posted && b->direct && b->contiguous && !b->held && b->sender == MADI_SENDER_WAITS)
        return MADI_PATH_WRITE;
    return announced(b);
}

/* The length at which a fixed cost of ns is made up for by ps saved a byte. */
static uint64_t made_up(uint64_t ns, uint64_t ps)
{
    return ps ? ns * 1000 / ps : UINT64_MAX;
}

size_t madi_path_grant_min(const madi_path_costs_t *c)
{
    /* The announcement and the grant are two packets more. */
    uint64_t least = made_up(2 * (uint64_t)c->turn_ns, (uint64_t)c->copies * c->copy_ps);
    /* Read by the receiver: the announcement, and the call.  One copy is saved, and `copies` more. */
    uint64_t spared = (1 + (uint64_t)c->copies) * c->copy_ps, direct = UINT64_MAX;
    if (c->direct_ns && spared > c->direct_ps)
        direct = made_up((uint64_t)c->turn_ns + c->direct_ns, spared - c->direct_ps);
    least = direct < least ? direct : least;
    if (least < MADI_PATH_GRANT_LEAST)
        return MADI_PATH_GRANT_LEAST;
    return least > MADI_PATH_GRANT_MOST ? MADI_PATH_GRANT_MOST : (size_t)least;
}
