/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the program's own code: handlers of channels, and callbacks of requests. */
#include "core/api/api.h"
#include "core/driver.h"
#include "core/object/request.h"
#include "core/recv/receive.h"

static void run_handler(mad_session_t *session, madi_rx_msg_t *m)
{
    mad_channel_t *channel = m->conn->channel;
    mad_handler_t handler;
    void *arg;
    madi_lock(&session->lock);
    handler = channel->handler;
    arg = channel->api.handler_arg;
    if (handler)
        madi_rx_open(m);
    else
        madi_rx_make_ready(m); /* the handler was removed meanwhile */
    madi_unlock(&session->lock);
    if (handler && handler(channel, &m->base, arg) == MAD_CONSUMED)
        mad_message_drop(&m->base);
}

/* Return the last message in the queue for handlers; if the queue is empty, m, which was just taken from it. */
static const madi_rx_msg_t *handled_last(const mad_session_t *session, const madi_rx_msg_t *m)
{
    return session->for_handlers ? MADI_CONTAINER(session->for_handlers_tail, madi_rx_msg_t, next) : m;
}

void madi_calls_run(mad_session_t *session)
{
    const madi_rx_msg_t *last = NULL;
    /* One thread at a time runs calls, so that messages are handled in their order, and no call runs inside another. */
    if (MADI_LIKELY(!atomic_load_explicit(&session->has_calls, memory_order_acquire)) ||
        atomic_exchange_explicit(&session->api.runs_calls, 1, memory_order_acq_rel)) /* pairs with madi_call_run */
        return;
    for (;;) {
        mad_request_t *r;
        madi_rx_msg_t *m;
        madi_lock(&session->lock);
        m = session->for_handlers;
        if (m && !(session->for_handlers = m->next))
            session->for_handlers_tail = &session->for_handlers;
        madi_lock(&session->work_lock);
        r = session->callbacks;
        if (r && r->status && m) { /* after a failure, for instance a lost peer, handle earlier messages first */
            last = last ? last : handled_last(session, m);
            r = m == last ? r : NULL;
        }
        last = r ? NULL : last;
        if (r && !(session->callbacks = r->next))
            session->callbacks_tail = &session->callbacks;
        if (!r && !m) { /* this is decided under the locks: a thread that adds a call later sees that no thread runs calls */
            atomic_store_explicit(&session->has_calls, 0, memory_order_relaxed);
            atomic_store_explicit(&session->api.runs_calls, 0, memory_order_release);
        }
        madi_unlock(&session->work_lock);
        madi_unlock(&session->lock);
        if (!r && !m)
            break;
        if (m)
            run_handler(session, m);
        if (r) {
            if (r->callback)
                r->callback(r->arg, r->status);
            r->callback = NULL;
            mad_request_test(&r);
        }
    }
}

bool madi_call_run(mad_session_t *session, void (*fn)(void *arg, mad_status_t status), void *arg)
{
    madi_calls_run(session);
    if (atomic_exchange_explicit(&session->api.runs_calls, 1, memory_order_acquire))
        return false;
    fn(arg, MAD_OK);
    /* A thread that added a call meanwhile has seen that this thread runs calls, and has left the added call to this
     * thread.  The exchanges of both  threads pair, so the added call is visible here. */
    atomic_exchange_explicit(&session->api.runs_calls, 0, memory_order_acq_rel);
    madi_calls_run(session);
    return true;
}
