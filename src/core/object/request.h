/* SPDX-License-Identifier: BSD-3-Clause */
/* A request.  conn/request.c makes and completes it; the program tests it and waits for it (api/request.c). */
#ifndef MADI_OBJECT_REQUEST_H
#define MADI_OBJECT_REQUEST_H

#include "core/object/types.h"

#include <stdatomic.h>

/* Values of request->state that are not pointers to a waiter. */
enum { MADI_REQUEST_PENDING, MADI_REQUEST_DONE, MADI_REQUEST_CALLBACK /* pending, with a callback */ };

/* When a pending request needs the progress thread: at once, later (if the peer takes long), or never (because its
 * owner will test it). 0: the request is done, or was never counted. */
enum { MADI_COUNTED = 1, MADI_COUNTED_LATER, MADI_COUNTED_NOT };

struct mad_request {
    _Atomic(uintptr_t) state; /* MADI_REQUEST_*, or the address of the waiter that waits for the request */
    _Atomic(int) let_go;      /* set by the completing thread after the wake-up: that thread no longer uses the request */
    mad_status_t status;      /* valid once state is MADI_REQUEST_DONE */
    mad_session_t *session;
    void (*callback)(void *arg, mad_status_t status);
    void *arg;
    mad_request_t *next; /* the next request in the session's list of callbacks to run */
    int counted;         /* a value MADI_COUNTED*, or 0; constant once its owner has the request */
    bool counted_called; /* true if counted a second time, for its callback; the owner's field until state is
                          * MADI_REQUEST_CALLBACK */
    bool received;       /* the request is a posted receive, whose owner changes state under session->lock.  Constant */
    bool pooled;         /* a posted receive of the pool (recv/posted_pool.c) */
    _Atomic(bool) used;  /* if pooled: the owner clears this flag when it gives the request back, without a lock */
    /* The operation that completes the request: at most one of these is not NULL, and valid while it is pending.  Under
     * session->lock. */
    madi_tx_t *tx;              /* a message to be sent */
    madi_rx_msg_t *rx;          /* a message that is being received */
    struct madi_posted *posted; /* a receive that waits for its message */
};

/* An instant request: its operation completed with MAD_OK within the call that returns it.  An instant request has no
 * structure, but is the session's address with the lowest bit set: nothing is allocated, nothing is freed. */
static inline mad_request_t *madi_request_instant(mad_session_t *session)
{
    return (mad_request_t *)((uintptr_t)session | 1);
}
static inline bool madi_request_is_instant(const mad_request_t *request)
{
    return (uintptr_t)request & 1;
}
static inline bool madi_request_is_done(const mad_request_t *request)
{
    return madi_request_is_instant(request) ||
           atomic_load_explicit(&((mad_request_t *)request)->state, memory_order_acquire) == MADI_REQUEST_DONE;
}

#endif
