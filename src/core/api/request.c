/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: test, wait, cancel, callbacks. */
#include "base/clock.h"
#include "core/api/api.h"
#include "core/conn/request.h"
#include "core/conn/tx_pool.h"
#include "core/driver.h"
#include "core/link/notify.h"
#include "core/link/polled.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/object/request.h"
#include "core/progress/progress.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"

#include <sched.h>
#include <stdlib.h>

static mad_session_t *session_of(mad_request_t *r)
{
    return madi_request_is_instant(r) ? (mad_session_t *)((uintptr_t)r - 1) : r->session;
}

/* Count a request a second time as it gets a callback, since no call of the program waits for it any more.  Return true
 * if the request was counted; the count lasts until the request is done. */
static bool callback_count(const mad_request_t *r)
{
    if (madi_request_is_done(r) || !r->counted || r->counted == MADI_COUNTED)
        return false;
    marceli_progress_count(1);
    marceli_progress_kick();
    return true;
}

/* Run the callback of an instant request.  While another callback runs, this one is queued, with a request structure. */
static void callback_run_instant(mad_session_t *session, void (*fn)(void *arg, mad_status_t status), void *arg)
{
    mad_request_t *r = NULL;
    if (!fn)
        return;
    if (!madi_session_usable(session)) {
        if (madi_call_run(session, fn, arg))
            return;
        r = madi_request_new(session, false);
    }
    if (!r) { /* no request structure: a child of fork has no queue; if out of memory, a nested call is better than
               * none */
        fn(arg, MAD_OK);
        return;
    }
    madi_request_complete(r, MAD_OK);
    mad_request_detach(r, fn, arg);
}

/* Change the state of a pending request for its owner.  Return false if the request is done. */
static bool state_enter(mad_request_t *r, uintptr_t from, uintptr_t to)
{
    mad_session_t *session = r->session; /* read first, because the thread that completes r may free r */
    bool received = r->received, entered;
    if (received)
        madi_lock(&session->lock); /* excludes madi_request_complete_posted */
    entered = atomic_compare_exchange_strong_explicit(&r->state, &from, to, memory_order_acq_rel, memory_order_acquire);
    if (received)
        madi_unlock(&session->lock);
    return entered;
}

void mad_request_detach(mad_request_t *r, void (*fn)(void *arg, mad_status_t status), void *arg)
{
    mad_session_t *session = session_of(r);
    if (madi_request_is_instant(r)) {
        callback_run_instant(session, fn, arg);
        return;
    }
    if (madi_session_usable(session)) { /* false in a child of fork, where no other thread completes the request */
        if (fn)
            fn(arg, madi_request_is_done(r) ? r->status : MAD_ERR_FORKED);
        madi_request_free(r);
        return;
    }
    r->callback = fn;
    r->arg = arg;
    r->counted_called = callback_count(r); /* count r now: after the exchange below another thread may free r */
    if (!state_enter(r, MADI_REQUEST_PENDING, MADI_REQUEST_CALLBACK)) {
        if (r->counted_called)
            marceli_progress_count(-1);
        madi_request_queue_callback(r);
        madi_calls_run(session);
    }
}

/* True if the request cannot complete in this process. */
static bool request_is_lost(const mad_request_t *r)
{
    return MADI_UNLIKELY(r->session->forked);
}

static mad_status_t request_refuse_forked(mad_request_t **request)
{
    madi_request_free(*request);
    *request = NULL;
    return madi_fork_refuse();
}

static mad_status_t request_take(mad_request_t **request)
{
    mad_request_t *r = *request;
    mad_status_t status;
    *request = NULL;
    if (madi_request_is_instant(r))
        return MAD_OK;
    status = r->status;
    madi_request_free(r);
    return status;
}

mad_status_t mad_request_test(mad_request_t **request)
{
    if (!request || !*request)
        return MAD_ERR_INVAL;
    if (!madi_request_is_done(*request)) {
        if (request_is_lost(*request))
            return request_refuse_forked(request);
        mad_progress((*request)->session);
    }
    return madi_request_is_done(*request) ? request_take(request) : MAD_ERR_AGAIN;
}

static bool request_done(void *arg)
{
    return madi_request_is_done(arg);
}

#define POLLED 16 /* packets that a waiting thread handles in one poll */

/* Poll for a limited number of times, without a waiter and without reading the clock.  Return true if the request is
 * done. */
static bool wait_polled(mad_request_t *r)
{
    mad_session_t *session = r->session;
    for (int i = session->spins; i > 0 && !madi_request_is_done(r); i--) {
        madi_adapter_t *hit;
        if (marceli_is_led() || marceli_others_ready())
            return false; /* another thread polls for all, or other threads want to run on this worker */
        hit = madi_poll_hit(session);
        if (!hit && !atomic_load_explicit(&session->has_work, memory_order_relaxed))
            continue;
        madi_lock(&session->lock);
        if (!madi_progress_after(session, hit ? madi_poll_hit_adapter(session, hit, POLLED) : 0) && hit)
            madi_poll_missed(session, hit);
        madi_unlock(&session->lock);
        madi_calls_run(session);
    }
    return madi_request_is_done(r);
}

static __attribute__((noinline)) mad_status_t request_wait(mad_request_t **request, int64_t timeout_ns)
{
    mad_request_t *r = *request;
    marceli_waiter_t w;

    if (request_is_lost(r) && !madi_request_is_done(r))
        return request_refuse_forked(request);
    if (timeout_ns && wait_polled(r))
        return request_take(request);
    marceli_waiter_init(&w);
    /* If the state has changed, the request is done.  No other change is possible, neither a callback nor a second
     * waiter: a request with a callback no longer belongs to the program, and only one thread waits for a request. */
    if (!state_enter(r, MADI_REQUEST_PENDING, (uintptr_t)&w))
        return request_take(request);
    marceli_wait(&w, request_done, r, madi_deadline(timeout_ns));
    if (state_enter(r, (uintptr_t)&w, MADI_REQUEST_PENDING))
        return MAD_ERR_TIMEOUT;
    while (!atomic_load_explicit(&r->let_go, memory_order_acquire)) /* pairs with madi_request_complete */
        sched_yield();
    return request_take(request);
}

mad_status_t mad_request_wait(mad_request_t **request, int64_t timeout_ns)
{
    if (MADI_UNLIKELY(!request || !*request))
        return MAD_ERR_INVAL;
    if (MADI_LIKELY(madi_request_is_done(*request)))
        return request_take(request);
    return request_wait(request, timeout_ns);
}

typedef struct wait_any {
    mad_request_t **requests;
    int n, index;
} wait_any_t;

static bool any_done(void *arg)
{
    wait_any_t *a = arg;
    for (int i = 0; i < a->n; i++)
        if (a->requests[i] && madi_request_is_done(a->requests[i])) {
            a->index = i;
            return true;
        }
    return false;
}

static MADI_COLD mad_status_t any_take_forked(mad_request_t **requests, int n, int *index)
{
    *index = 0;
    while (*index < n - 1 && !requests[*index])
        ++*index;
    return madi_request_is_done(requests[*index]) ? request_take(&requests[*index])
                                                  : request_refuse_forked(&requests[*index]);
}

mad_status_t mad_request_wait_any(mad_request_t **requests, int n, int64_t timeout_ns, int *index)
{
    wait_any_t a = {requests, n, -1};
    mad_session_t *session = NULL;
    for (int i = 0; i < n && !session; i++)
        session = requests[i] ? session_of(requests[i]) : NULL;
    if (!session)
        return MAD_ERR_INVAL;
    if (any_done(&a)) {
        *index = a.index;
        return request_take(&requests[a.index]);
    }
    if (session->forked)
        return any_take_forked(requests, n, index);
    if (madi_watch_for(session, any_done, &a, madi_deadline(timeout_ns)) != MAD_OK)
        return MAD_ERR_TIMEOUT;
    *index = a.index;
    return request_take(&requests[a.index]);
}

/* ---- Cancel --------------------------------------------------------------------------------------------------- */

static bool cancel_posted(mad_request_t *r)
{
    madi_posted_t *posted = r->posted;
    for (madi_posted_t **p = posted ? &posted->conn->posted : NULL; p && *p; p = &(*p)->next)
        if (*p == posted) {
            if (!madi_posted_withdraw(posted))
                return false;
            *p = posted->next;
            if (posted->conn->posted_tail == &posted->next)
                posted->conn->posted_tail = p;
            r->posted = NULL;
            madi_conn_rx_quick(posted->conn);
            return true;
        }
    return false;
}

/* Remove a message from a list.  Return false if it is not there. */
static bool cancel_in_list(madi_tx_t **list, madi_tx_t ***tail, madi_tx_t *tx)
{
    for (madi_tx_t **p = list; *p; p = &(*p)->next)
        if (*p == tx) {
            *p = tx->next;
            if (*tail == &tx->next)
                *tail = p;
            return true;
        }
    return false;
}

static bool cancel_tx(mad_request_t *r)
{
    madi_tx_t *tx = r->tx;
    madi_conn_t *conn = tx->conn;
    bool found = false;
    madi_lock(&conn->gate->tx_lock);
    if (!madi_request_is_done(r) && !tx->started && !tx->rdv_pending)
        found =
            cancel_in_list(&conn->queue, &conn->queue_tail, tx) || cancel_in_list(&conn->deferred, &conn->deferred_tail, tx);
    if (found) {
        tx->request = NULL;
        madi_tx_free(tx);
    }
    madi_unlock(&conn->gate->tx_lock);
    return found;
}

mad_status_t mad_request_cancel(mad_request_t *r)
{
    mad_session_t *session;
    bool cancelled = false;
    if (!r)
        return MAD_ERR_INVAL;
    session = session_of(r);
    if (madi_session_usable(session))
        return MAD_ERR_FORKED;
    if (madi_request_is_instant(r))
        return MAD_ERR_TOO_LATE;
    madi_lock(&session->lock);
    if (!madi_request_is_done(r)) {
        if (r->posted)
            cancelled = cancel_posted(r);
        else if (r->tx)
            cancelled = cancel_tx(r);
    }
    madi_unlock(&session->lock);
    if (!cancelled)
        return MAD_ERR_TOO_LATE;
    madi_request_complete(r, MAD_ERR_CANCELLED);
    return MAD_OK;
}
