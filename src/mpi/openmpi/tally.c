/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of objects by peer. */
#include "mpi/openmpi/tally.h"

#include <stdlib.h>
#include <string.h>

static bool tally_grow(mad_btl_tally_t *tally, mad_peer_t peer)
{
    mad_peer_t n = (peer / 64 + 1) * 64;
    uint32_t *more = realloc(tally->by_peer, (size_t)n * sizeof *more);
    if (!more)
        return false;
    memset(more + tally->n, 0, (size_t)(n - tally->n) * sizeof *more);
    tally->by_peer = more;
    tally->n = n;
    return true;
}

bool mad_btl_tally_add(mad_btl_tally_t *tally, mad_peer_t peer, uint32_t most)
{
    if (peer >= tally->n && !tally_grow(tally, peer))
        return false;
    if (tally->by_peer[peer] >= most)
        return false;
    tally->by_peer[peer]++;
    return true;
}

void mad_btl_tally_remove(mad_btl_tally_t *tally, mad_peer_t peer)
{
    tally->by_peer[peer]--;
}
