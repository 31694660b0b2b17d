/* SPDX-License-Identifier: BSD-3-Clause */
/* Adapters that have had a link, and so are polled; and whether one of them has something. */
#ifndef MADI_POLLED_H
#define MADI_POLLED_H

#include "core/object/session.h"

void madi_adapter_polled(madi_adapter_t *adapter);                            /* add an adapter to those that are polled */
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter); /* its pure_poll was wrong: poll others
                                                                               * first */

/* Return an adapter whose pure_poll is true, NULL if none; no lock. */
static inline madi_adapter_t *madi_poll_hit(mad_session_t *session)
{
    int n = atomic_load_explicit(&session->n_polled, memory_order_acquire); /* pairs with madi_adapter_polled */
    int at = atomic_load_explicit(&session->poll_first, memory_order_relaxed);
    for (int i = 0; i < n; i++, at++) {
        at = at < n ? at : 0;
        if (session->polled[at]->driver->wait.pure_poll(session->polled[at]))
            return session->polled[at];
    }
    return NULL;
}

#endif
