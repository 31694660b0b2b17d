/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: how they are made and completed.  The program's calls that test and wait for them are in api/request.c. */
#include "core/conn/request.h"
#include "core/driver.h"
#include "core/link/notify.h"
#include "core/object/request.h"

#include <stdlib.h>

void madi_request_init(mad_request_t *r, mad_session_t *session, bool async)
{
    *r = (mad_request_t){.session = session, .counted = async ? MADI_COUNTED : MADI_COUNTED_NOT};
    if (async)
        marceli_progress_count(1);
}

mad_request_t *madi_request_new(mad_session_t *session, bool async)
{
    mad_request_t *r = malloc(sizeof *r);
    if (r)
        madi_request_init(r, session, async);
    return r;
}

/* Count the request as one that the peer completes, without progress of this process. */
void madi_request_by_peer(mad_request_t *r)
{
    marceli_progress_count_later(1);
    if (r->counted == MADI_COUNTED)
        marceli_progress_count(-1);
    r->counted = MADI_COUNTED_LATER;
}

void madi_request_left(mad_request_t *r)
{
    if (madi_request_is_done(r))
        return;
    if (r->counted == MADI_COUNTED)
        marceli_progress_kick_left();
    else if (r->counted == MADI_COUNTED_LATER)
        marceli_progress_kick_later();
}

void madi_request_queue_callback(mad_request_t *r)
{
    mad_session_t *session = r->session;
    madi_lock(&session->work_lock);
    r->next = NULL;
    *session->callbacks_tail = r;
    session->callbacks_tail = &r->next;
    atomic_store_explicit(&session->has_calls, 1, memory_order_release);
    madi_unlock(&session->work_lock);
}

/* Legal under any lock. */
void madi_request_complete(mad_request_t *r, mad_status_t status)
{
    mad_session_t *session = r->session;
    uintptr_t before;
    r->status = status;
    if (r->counted == MADI_COUNTED)
        marceli_progress_count(-1);
    else if (r->counted == MADI_COUNTED_LATER)
        marceli_progress_count_later(-1);
    before = atomic_exchange_explicit(&r->state, MADI_REQUEST_DONE, memory_order_acq_rel);
    if (before == MADI_REQUEST_CALLBACK) {
        if (r->counted_called)
            marceli_progress_count(-1);
        madi_request_queue_callback(r);
        madi_session_wake(session);
        marceli_progress_has_calls();
    } else if (before != MADI_REQUEST_PENDING) {
        marceli_waiter_wake((marceli_waiter_t *)before);
        atomic_store_explicit(&r->let_go, 1, memory_order_release); /* pairs with mad_request_wait */
    }
    madi_watchers_wake(session);
}
