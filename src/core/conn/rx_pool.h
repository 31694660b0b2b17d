/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures of messages that arrive, and their packets.  Under session->lock unless a function says otherwise. */
#ifndef MADI_RX_POOL_H
#define MADI_RX_POOL_H

#include "core/object/rx.h"
#include "core/object/session.h"

madi_rx_msg_t *madi_rx_more(mad_session_t *session);
void madi_rx_clear(madi_rx_msg_t *msg); /* reset all fields for reuse */

/* Return an empty message structure, marked as used; madi_rx_start fills it.  Return NULL if out of memory. */
static inline madi_rx_msg_t *madi_rx_new(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring;
    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return madi_rx_more(session);
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    return m;
}

/* Like madi_rx_new, but for messages that are kept: try the structure after the one that was used last. */
static inline madi_rx_msg_t *madi_rx_next(mad_session_t *session)
{
    madi_rx_msg_t *m = session->rx_ring->ring;
    if (MADI_UNLIKELY(atomic_load_explicit(&m->used, memory_order_acquire))) /* pairs with madi_rx_free */
        return madi_rx_more(session);
    atomic_store_explicit(&m->used, 1, memory_order_relaxed);
    session->rx_ring = m;
    return m;
}

/* Give the structure back for reuse.  Precondition: cleared, or MADI_PLAIN_INLINE, or MADI_PLAIN_LENT with its
 * loan returned.  Any thread, any lock. */
static inline void madi_rx_free(madi_rx_msg_t *m)
{
    atomic_store_explicit(&m->used, 0, memory_order_release); /* pairs with madi_rx_new */
}

void madi_rx_abandon(madi_gate_t *gate); /* discard the packet of which only a part has arrived, if any */
void madi_rx_packet_free(madi_rx_packet_t *packet);
void madi_packet_return(madi_rx_packet_t *packet); /* return the packet's loan to the driver */

#endif
