/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: made and completed. */
#ifndef MADI_REQUEST_H
#define MADI_REQUEST_H

#include "core/object/request.h"

#include <stdlib.h>

void madi_request_queue_callback(mad_request_t *request); /* queue the callback of a request that is done; any lock */
void madi_request_init(mad_request_t *request, mad_session_t *session, bool async);
/* Prepare the request of a posted receive for reuse by another receive, which needs no thread to stay awake. */
static inline void madi_request_reuse(mad_request_t *request)
{
    atomic_store_explicit(&request->state, MADI_REQUEST_PENDING, memory_order_relaxed);
    atomic_store_explicit(&request->let_go, 0, memory_order_relaxed);
    request->status = MAD_OK;
    request->counted = MADI_COUNTED_NOT;
}
/* Free a request that its owner no longer needs. */
static inline void madi_request_free(mad_request_t *request)
{
    if (request->pooled)
        atomic_store_explicit(&request->used, false, memory_order_release); /* pairs with madi_posted_reuse */
    else
        free(request);
}
mad_request_t *madi_request_new(mad_session_t *session, bool async); /* make a request; async: true if it needs progress
                                                                      * while no thread waits */
/* Count a request as one that the peer completes.  Called before the peer can complete it. */
void madi_request_by_peer(mad_request_t *request);
/* Wake the progress thread if the request needs it.  Called before the request is returned to the program, without locks. */
void madi_request_left(mad_request_t *request);
void madi_request_complete(mad_request_t *request, mad_status_t status); /* any lock */

/* Complete the request of a posted receive with MAD_OK, and leave the watchers to the caller (madi_watchers_wake).  Under
 * session->lock, under which the owner of such a request enters a waiter or a callback. */
static inline void madi_request_complete_posted(mad_request_t *request)
{
    if (MADI_LIKELY(atomic_load_explicit(&request->state, memory_order_relaxed) == MADI_REQUEST_PENDING &&
                    request->counted == MADI_COUNTED_NOT))
        /* pairs with madi_request_is_done */
        atomic_store_explicit(&request->state, MADI_REQUEST_DONE, memory_order_release);
    else
        madi_request_complete(request, MAD_OK);
}

#endif
