/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: this folder's part of a session; the channel, and how its messages come. */
#include "base/static_mutex.h"
#include "coll/coll.h"
#include "core/api/api.h"
#include "core/link/usable.h"

#include <stdlib.h>

#define WATCH_CHANNEL MADI_COLL_CHANNEL ".watch"
#define POLLED_AT_ONCE 8 /* messages that one call takes */

static madi_static_mutex_t coll_starting = MADI_STATIC_MUTEX;

/* ---- Start ------------------------------------------------------------------------------------------------------- */

/* Make this folder's part of a session.  Under coll_starting. */
static mad_status_t coll_new(mad_session_t *session)
{
    struct madi_coll_session *coll = calloc(1, sizeof *coll);
    mad_status_t status;
    if (!coll)
        return MAD_ERR_NOMEM;
    coll->session = session;
    status = mad_channel_open(session, MADI_COLL_CHANNEL, &coll->channel);
    if (!status && (status = mad_channel_open(session, WATCH_CHANNEL, &coll->watch)))
        mad_channel_close(coll->channel);
    if (status) {
        free(coll);
        return status;
    }
    session->coll = coll;
    session->coll_free = madi_coll_session_free;
    return MAD_OK;
}

mad_status_t madi_coll_start(mad_session_t *session, struct madi_coll_session **coll)
{
    mad_status_t status = madi_session_usable(session);
    if (status)
        return status;
    madi_static_mutex_lock(&coll_starting);
    if (!session->coll)
        status = coll_new(session);
    *coll = session->coll;
    madi_static_mutex_unlock(&coll_starting);
    return status;
}

/* ---- Modes ------------------------------------------------------------------------------------------------------- */

void madi_coll_mode(struct madi_coll_session *coll)
{
    madi_lock(&coll->lock);
    while (!coll->changing && coll->handled != (coll->n_requests > 0)) {
        bool handled = coll->n_requests > 0;
        coll->changing = true;
        madi_unlock(&coll->lock);
        mad_channel_handler_set(coll->channel, handled ? madi_coll_handler : NULL, coll);
        madi_lock(&coll->lock);
        coll->handled = handled;
        coll->changing = false;
    }
    madi_unlock(&coll->lock);
}

/* ---- Polling ----------------------------------------------------------------------------------------------------- */

/* Keep a message whose first block is still arriving.  If out of memory, drop it: its operation will not end, so the peer is
 * lost. */
static void partial_keep(struct madi_coll_session *coll, mad_message_t *message)
{
    madi_coll_partial_t *partial = malloc(sizeof *partial);
    if (!partial) {
        mad_message_drop(message);
        return;
    }
    partial->message = message;
    madi_lock(&coll->lock);
    partial->next = coll->partial;
    coll->partial = partial;
    atomic_fetch_add_explicit(&coll->n_partial, 1, memory_order_relaxed);
    madi_unlock(&coll->lock);
}

/* Handle an opened message. */
static void message_opened(struct madi_coll_session *coll, mad_message_t *message)
{
    mad_peer_t peer = mad_message_peer(message);
    const void *base;
    size_t len;
    mad_status_t status = mad_unpack_borrow(message, &base, &len);
    if (status == MAD_ERR_AGAIN)
        partial_keep(coll, message);
    else if (status || !madi_coll_arrived(coll, peer, message, base, len))
        mad_message_drop(message);
}

/* Look at the messages whose first blocks were still arriving. */
static MADI_COLD void partials_poll(struct madi_coll_session *coll)
{
    madi_coll_partial_t *list, *next;
    madi_lock(&coll->lock);
    list = coll->partial;
    coll->partial = NULL;
    atomic_store_explicit(&coll->n_partial, 0, memory_order_relaxed);
    madi_unlock(&coll->lock);
    for (; list; list = next) {
        next = list->next;
        message_opened(coll, list->message);
        free(list);
    }
}

int madi_coll_poll(struct madi_coll_session *coll)
{
    mad_arrival_t arrivals[POLLED_AT_ONCE];
    int n = mad_channel_poll(coll->channel, arrivals, POLLED_AT_ONCE);
    for (const mad_arrival_t *a = arrivals; a < arrivals + n; a++) {
        if (MADI_UNLIKELY(!a->base))
            message_opened(coll, a->message);
        else if (!madi_coll_arrived(coll, a->peer, a->message, a->base, a->len) && a->message)
            mad_message_drop(a->message);
    }
    if (MADI_UNLIKELY(atomic_load_explicit(&coll->n_partial, memory_order_relaxed)))
        partials_poll(coll);
    return n;
}
