/* SPDX-License-Identifier: BSD-3-Clause */
/* The shortest path of a posted receive.  Open MPI's layer inlines it, too, since a call with seven arguments takes as long
 * as a part of that path.  (Inlined, the path of a send would become longer, because too few registers are left.) */
#ifndef MAD_DEVICE_QUICK_H
#define MAD_DEVICE_QUICK_H

#include "match.h"

/* Fast path: post a receive of one message into one piece, in the group of the last receive, with no unexpected message
 * and no lost peer.  Return false, without an effect, if one of these conditions does not hold. */
__attribute__((always_inline)) static inline bool dev_post_quick(mad_dev_t *dev, mad_dev_space_t space, mad_peer_t from,
                                                                 uint64_t tag, uint64_t ignore, struct iovec piece,
                                                                 void *context, uint64_t flags)
{
    matcher_t *m = &dev->matchers[space];
    op_t *op = dev->free_ops;
    if (!(op && !m->first && !dev->n_lost && !dev->watch && dev_match_is_hot(m, from, tag, ignore)))
        return false;
    dev->free_ops = op->next;
    op->quick = true;
    op->space = space;
    op->peer = from;
    op->tag = tag;
    op->ignore = ignore;
    op->n = 1;
    op->pieces[0] = piece;
    op->room = piece.iov_len;
    op->context = context;
    op->flags = flags;
    dev_match_post_to(dev, m, m->hot, op);
    return true;
}

/* Like mad_dev_receive_one, on the fast path only: no threads, and no message that waits for a receive.  Return false,
 * without an effect, if this path is not possible. */
__attribute__((always_inline)) static inline bool dev_receive_one_quick(mad_dev_t *dev, mad_peer_t from, uint64_t tag,
                                                                        uint64_t ignore, struct iovec piece, void *context)
{
    return !dev->threaded && !dev_shown_waits(dev) &&
           dev_post_quick(dev, MAD_DEV_TAGGED, from, tag, ignore, piece, context, 0);
}

#endif
