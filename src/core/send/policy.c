/* SPDX-License-Identifier: BSD-3-Clause */
/* The path that a block takes, and the length from which on a block is announced. */
#include "core/send/policy.h"

const char *madi_path_name(madi_path_t path)
{
    static const char *const names[MADI_PATHS] = {"copy", "packet", "write", "read", "share", "grant"};
    return (unsigned)path < MADI_PATHS ? names[path] : "unknown";
}

/* Return the path of an announced block.  If the sender computes, the receiver reads the block; if the sender waits, each
 * side moves a part. */
static madi_path_t announced_path(const madi_path_block_t *b)
{
    if (!b->direct || !b->contiguous || b->held)
        return MADI_PATH_GRANT;
    if (b->sender == MADI_SENDER_COMPUTES)
        return b->alone ? MADI_PATH_READ : MADI_PATH_GRANT;
    return b->len >= MADI_SHARE_MIN ? MADI_PATH_SHARE : MADI_PATH_READ;
}

madi_path_t madi_path_choose(const madi_path_block_t *b, const madi_path_limits_t *limits)
{
    bool waits = b->contiguous && !b->held && b->sender == MADI_SENDER_WAITS, written = waits && b->direct;
    size_t answer_min = b->direct ? limits->direct_min : limits->answer_min;
    size_t min = waits && b->answers && answer_min ? answer_min : limits->grant_min;
    if (!b->held && b->len <= b->room && b->len < min)
        return b->contiguous && b->len <= MADI_COPY_MAX ? MADI_PATH_COPY : MADI_PATH_PACKET;
    return written && b->posted ? MADI_PATH_WRITE : announced_path(b);
}

/* Return the length from which on saving ps picoseconds a byte outweighs ns nanoseconds, within bounds. */
static size_t break_even_len(uint64_t ns, uint64_t ps)
{
    uint64_t len = ps ? ns * 1000 / ps : MADI_PATH_MOST;
    return len < MADI_PATH_LEAST ? MADI_PATH_LEAST : len > MADI_PATH_MOST ? MADI_PATH_MOST : (size_t)len;
}

/* A packet:  turn                                + pipe_ps a byte
 * A read:    turn + MADI_ANNOUNCE_NS + direct_ns      + direct_ps a byte
 * A share:   turn + MADI_ANNOUNCE_NS + direct_ns + turn + both_ps a byte */
size_t madi_path_direct_min(const madi_costs_t *c)
{
    uint64_t call = (uint64_t)c->direct_ns + MADI_ANNOUNCE_NS;
    size_t read = break_even_len(call, c->pipe_ps > c->direct_ps ? c->pipe_ps - c->direct_ps : 0);
    size_t share = break_even_len(call + c->turn_ns, c->pipe_ps > c->both_ps ? c->pipe_ps - c->both_ps : 0);
    if (!c->direct_ns)
        return MADI_PATH_MOST;
    if (!c->both_ps || share < MADI_SHARE_MIN) /* shorter blocks are never shared */
        share = c->both_ps ? MADI_SHARE_MIN : MADI_PATH_MOST;
    return read < share ? read : share;
}

int64_t madi_path_wait_ns(uint64_t len)
{
    uint64_t ns = len / 1000 * MADI_BLOCK_PS;
    return (int64_t)(ns < MADI_BLOCK_WAIT_MAX ? ns : MADI_BLOCK_WAIT_MAX);
}

size_t madi_path_run_min(const madi_costs_t *c)
{
    return c->copy_ps >= MADI_FAR_COPY_PS ? MADI_SHM_RUN_MIN_FAR : MADI_SHM_RUN_MIN;
}
