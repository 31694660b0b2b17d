/* SPDX-License-Identifier: BSD-3-Clause */
/* The path that a block takes, and the length from which on a block is announced. */
#include "core/send/policy.h"

#include "base/base.h"

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
    return b->len >= MADI_SHARE_MIN && !b->engaged ? MADI_PATH_SHARE : MADI_PATH_READ;
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

const madi_put_t madi_put_intel = {.long_min = 6656, .begun_min = 2560, .piece_min = 1024, .read_min = 8192};
const madi_put_t madi_put_other = {.long_min = 2176, .begun_min = 6144, .piece_min = 4096, .read_min = 32768};

const madi_put_t *madi_put_of_host(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_is("intel"))
        return &madi_put_intel;
#endif
    return &madi_put_other;
}

size_t madi_put_piece(const madi_put_t *put, size_t len)
{
    size_t piece = len / MADI_SHM_PIECES & ~(size_t)(MADI_LINE - 1);
    size_t least = len < put->long_min ? put->piece_min : MADI_SHM_PIECE_MIN;
    return piece < least ? least : piece > MADI_SHM_PIECE_MAX ? MADI_SHM_PIECE_MAX : piece;
}

/* A packet:  turn                                + pipe_ps a byte and a byte of one piece, for which the second copy waits
 *            turn                                + twice copy_ps a byte, for a body that is not written in pieces
 * A read:    turn + MADI_ANNOUNCE_NS + direct_ns      + direct_ps a byte
 * A share:   turn + MADI_ANNOUNCE_NS + direct_ns + turn + both_ps a byte
 * The turn that all have is left out. */
static uint64_t packet_ps(const madi_costs_t *c, const madi_put_t *put, uint64_t len)
{
    return len < put->begun_min ? 2 * len * c->copy_ps : (len + madi_put_piece(put, len)) * c->pipe_ps;
}

static uint64_t direct_ps(const madi_costs_t *c, uint64_t len)
{
    uint64_t call = ((uint64_t)c->direct_ns + MADI_ANNOUNCE_NS) * 1000, read = call + len * c->direct_ps;
    uint64_t share = call + (uint64_t)c->turn_ns * 1000 + len * c->both_ps;
    return len >= MADI_SHARE_MIN && c->both_ps && share < read ? share : read;
}

size_t madi_path_direct_min(const madi_costs_t *c, const madi_put_t *put)
{
    uint64_t len = MADI_PATH_LEAST;
    while (len < MADI_PATH_MOST && (!c->direct_ns || direct_ps(c, len) > packet_ps(c, put, len)))
        len += MADI_PATH_STEP;
    return len;
}

int64_t madi_path_wait_ns(uint64_t len)
{
    uint64_t ns = len / 1000 * MADI_BLOCK_PS;
    return (int64_t)(ns < MADI_BLOCK_WAIT_MAX ? ns : MADI_BLOCK_WAIT_MAX);
}

size_t madi_path_tcp_grant_min(const madi_costs_t *c)
{
    return c->tcp_sent_ns && c->tcp_sent_ns <= c->tcp_granted_ns ? MADI_TCP_GRANT_MIN_HOST : MADI_TCP_GRANT_MIN;
}
