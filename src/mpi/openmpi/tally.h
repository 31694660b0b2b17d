/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers of objects that this process keeps for its peers, with a bound for each peer.  Under a lock of the caller. */
#ifndef MAD_BTL_TALLY_H
#define MAD_BTL_TALLY_H

#include <madeleine.h>

#include <stdbool.h>
#include <stdint.h>

/* All zero at first.  The memory stays allocated. */
typedef struct mad_btl_tally {
    uint32_t *by_peer; /* indexed by peer */
    mad_peer_t n;      /* number of entries */
} mad_btl_tally_t;

/* Count one more object of a peer.  Return false, without an effect, if there are `most` of them already, or if out of
 * memory. */
bool mad_btl_tally_add(mad_btl_tally_t *tally, mad_peer_t peer, uint32_t most);
/* Count one object less.  Precondition: mad_btl_tally_add has counted it. */
void mad_btl_tally_remove(mad_btl_tally_t *tally, mad_peer_t peer);

#endif
