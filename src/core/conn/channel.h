/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels by name, and their connections.  Under session->lock. */
#ifndef MADI_CHANNEL_H
#define MADI_CHANNEL_H

#include "core/object/channel.h"

madi_conn_t *madi_conn_nobody(uint32_t place); /* the placeholder for an empty entry of madi_conn_array */
madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate);     /* under session->lock */
mad_channel_t *madi_channel_find(mad_session_t *session, const char *name); /* return the channel of this name, which is
                                                                             * created if needed; under session->lock */
/* Return the n-th channel, NULL if there are fewer: for iteration in steps.  If channels come or go between the steps, one
 * may be missed or another returned twice.  Under session->lock. */
const mad_channel_t *madi_channel_at(const mad_session_t *session, uint32_t n);
/* Handle that a peer no longer uses the channel: release it if possible.  Under session->lock. */
void madi_channel_release_check(mad_channel_t *channel);
/* Take a channel out of its session, and keep it for reuse.  Precondition: nothing refers to the channel.  Under
 * session->lock. */
void madi_channel_rest(mad_channel_t *channel);

/* This folder's part of a session (session->conn). */
struct madi_conn_session *madi_conn_session_new(void);    /* return NULL if out of memory */
void madi_conn_session_start(mad_session_t *session);     /* when the knobs are loaded */
void madi_conn_session_free(mad_session_t *session);      /* free all channels, and this folder's part if there is one */
int64_t madi_credit_budget(const mad_session_t *session); /* bytes of credit that connections may still get beyond their
                                                           * credit floors; under session->lock */

static inline madi_conn_t *madi_conn_peek(mad_channel_t *channel, mad_peer_t peer)
{
    madi_conn_array_t *a = atomic_load_explicit(&channel->conns, memory_order_acquire); /* pairs with madi_conn_make */
    madi_conn_t *conn = atomic_load_explicit(&a->at[(uint32_t)peer & a->mask], memory_order_acquire);
    return MADI_LIKELY(conn->peer == peer) ? conn : NULL;
}

#endif
