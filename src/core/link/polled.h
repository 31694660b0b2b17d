/* SPDX-License-Identifier: BSD-3-Clause */
/* Adapters that have had a link, and are therefore polled; and whether one of them has a packet. */
#ifndef MADI_POLLED_H
#define MADI_POLLED_H

#include "core/object/session.h"

/* This folder's part of a session (session->link). */
void madi_link_session_init(mad_session_t *session);
mad_status_t madi_link_session_start(mad_session_t *session); /* make room for all adapters, when all have been found */
void madi_link_session_lose(mad_session_t *session);          /* in the child of a fork: stop polling and waiting */
void madi_link_session_fini(mad_session_t *session);

void madi_adapter_polled(madi_adapter_t *adapter); /* add an adapter to the adapters that are polled */
/* Record that the adapter's pure_poll was true in vain: other adapters are polled first. */
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter);

/* Return an adapter whose pure_poll is true; NULL if none.  Called without locks. */
static inline madi_adapter_t *madi_poll_hit(mad_session_t *session)
{
    int n = atomic_load_explicit(&session->link.n_polled, memory_order_acquire); /* pairs with madi_adapter_polled */
    int at = atomic_load_explicit(&session->link.poll_first, memory_order_relaxed);
    for (int i = 0; i < n; i++, at++) {
        at = at < n ? at : 0;
        if (session->link.polled[at]->driver->wait.pure_poll(session->link.polled[at]))
            return session->link.polled[at];
    }
    return NULL;
}

#endif
