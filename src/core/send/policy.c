/* SPDX-License-Identifier: BSD-3-Clause */
/* Which path a block takes, and from which length on it is announced. */
#include "core/send/policy.h"

#define PIECES_SAVE 5   /* a fifth of two copies, where the two sides copy at the same time */
#define ANNOUNCE_NS 200 /* the two sides' own work for one that is announced */
#define COPY_MAX 192    /* bytes, as MADI_COPY_MAX: longer ones are a gather entry */
#define SHARE_MIN 32768   /* bytes, as the first class of share.h: half of it takes as long as asking the sender does */

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
    return b->len >= SHARE_MIN ? MADI_PATH_SHARE : MADI_PATH_READ;
}

madi_path_t madi_path_choose(const madi_path_block_t *b, const madi_path_limits_t *limits)
{
    bool written = b->direct && b->contiguous && !b->held && b->sender == MADI_SENDER_WAITS;
    size_t min = limits->grant_min;
    if (written && b->answers && limits->direct_min && limits->direct_min < min)
        min = limits->direct_min;
    if (!b->held && b->len <= b->room && b->len < min)
        return b->contiguous && b->len <= COPY_MAX ? MADI_PATH_COPY : MADI_PATH_PACKET;
    return written && b->posted ? MADI_PATH_WRITE : announced(b);
}

/* The length at which ps saved a byte make up for ns, within bounds. */
static size_t made_up(uint64_t ns, uint64_t ps)
{
    uint64_t len = ps ? ns * 1000 / ps : MADI_PATH_MOST;
    return len < MADI_PATH_LEAST ? MADI_PATH_LEAST : len > MADI_PATH_MOST ? MADI_PATH_MOST : (size_t)len;
}

madi_path_limits_t madi_path_limits(const madi_costs_t *c)
{
    /* The announcement and the grant are two packets more; or the announcement and the call, for one copy less. */
    uint64_t copies = (uint64_t)c->copies * c->copy_ps, all = copies + c->copy_ps;
    madi_path_limits_t limits = {.grant_min = made_up(2 * (uint64_t)c->turn_ns, copies)};
    if (c->direct_ns)
        limits.direct_min = made_up((uint64_t)c->turn_ns + c->direct_ns + ANNOUNCE_NS, all > c->direct_ps ? all - c->direct_ps : 0);
    return limits;
}

int64_t madi_path_wait_ns(uint64_t len)
{
    const uint64_t ps = 300, most = 4000000;
    uint64_t ns = len / 1000 * ps;
    return (int64_t)(ns < most ? ns : most);
}

bool madi_path_host_limits(madi_path_limits_t *limits)
{
    madi_costs_t c;
    if (!madi_costs_load(&c))
        return false;
    c.copy_ps -= c.copy_ps / PIECES_SAVE;
    *limits = madi_path_limits(&c);
    return true;
}
