/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels by name, and their connections.  Under session->lock. */
#ifndef MADI_CHANNEL_H
#define MADI_CHANNEL_H

#include "core/object/channel.h"

madi_conn_t *madi_conn_nobody(uint32_t place); /* the placeholder for an empty entry of madi_conn_array */
madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate);     /* under session->lock */
mad_channel_t *madi_channel_find(mad_session_t *session, const char *name); /* made if needed; under session->lock */
/* Return the n-th channel, NULL if there are fewer: for iteration in steps.  If channels come or go between the steps, one
 * may be missed or another returned twice.  Under session->lock. */
const mad_channel_t *madi_channel_at(const mad_session_t *session, uint32_t n);
/* Handle that a peer no longer uses the channel: release it if possible.  Under session->lock. */
void madi_channel_release_check(mad_channel_t *channel);
void madi_channels_free(mad_session_t *session);

static inline madi_conn_t *madi_conn_peek(mad_channel_t *channel, mad_peer_t peer)
{
    madi_conn_array_t *a = atomic_load_explicit(&channel->conns, memory_order_acquire); /* pairs with madi_conn_make */
    madi_conn_t *conn = atomic_load_explicit(&a->at[(uint32_t)peer & a->mask], memory_order_acquire);
    return MADI_LIKELY(conn->peer == peer) ? conn : NULL;
}

#endif
