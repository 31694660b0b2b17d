/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels, opened and closed by the program; and their handlers. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/conn/request.h"
#include "core/connect/gate.h"
#include "core/driver.h"
#include "core/link/notify.h"
#include "core/link/usable.h"
#include "core/recv/posted.h"
#include "core/recv/receive.h"
#include "core/send/send.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening and closing -------------------------------------------------------------------------------------- */

/* Open a channel, which may have been open before, or announced by peers. */
static void channel_begin(mad_channel_t *c)
{
    c->is_open = true;
    atomic_store_explicit(&c->closed, 0, memory_order_relaxed);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel) {
        conn->opened_since_announce = conn->remote_known;
        conn->unopened = false;
        madi_unopened_end(conn);
        madi_lock(&conn->gate->tx_lock);
        conn->closing = false;
        madi_conn_quick(conn);
        madi_unlock(&conn->gate->tx_lock);
    }
}

mad_status_t mad_channel_open(mad_session_t *s, const char *name, mad_channel_t **channel)
{
    mad_status_t status = madi_session_usable(s);
    mad_channel_t *c;
    if (status)
        return status;
    if (!name || !name[0] || strlen(name) >= MAD_CHANNEL_NAME_MAX)
        return MAD_ERR_INVAL;
    madi_lock(&s->lock);
    madi_channels_sweep(s);
    c = madi_channel_find(s, name);
    if (!c) {
        status = MAD_ERR_NOMEM;
    } else if (c->is_open || c->close_waits) {
        status = MAD_ERR_BUSY;
    } else {
        channel_begin(c);
        *channel = c;
    }
    madi_unlock(&s->lock);
    return status;
}

/* True if messages of the connection are queued.  Called under session->lock and tx_lock. */
static bool is_queued(const madi_conn_t *conn)
{
    return conn->queue || conn->deferred;
}

/* True if announced blocks wait for a grant.  A peer that has sent BYE grants none. */
static bool is_announced(const madi_conn_t *conn)
{
    return conn->n_blocks && !conn->gate->bye_received;
}

static bool no_conn_is(mad_channel_t *c, bool (*is)(const madi_conn_t *conn))
{
    bool none = true;
    madi_lock(&c->session->lock);
    for (madi_conn_t *conn = c->all; conn && none; conn = conn->next_of_channel) {
        madi_lock(&conn->gate->tx_lock);
        none = !is(conn);
        madi_unlock(&conn->gate->tx_lock);
    }
    madi_unlock(&c->session->lock);
    return none;
}

static bool none_queued(void *arg)
{
    return no_conn_is(arg, is_queued);
}

static bool none_announced(void *arg)
{
    return no_conn_is(arg, is_announced);
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

static void number_close(madi_conn_t *conn)
{
    madi_lock(&conn->gate->tx_lock);
    conn->closing = true;
    madi_conn_slow(conn);
    madi_conn_close(conn);
    madi_unlock(&conn->gate->tx_lock);
}

/* Stop receiving on a channel, and send CLOSE to its peers. */
static void channel_leave(mad_channel_t *c)
{
    c->is_open = false;
    c->close_waits = true;
    marceli_progress_count_serving(-(c->handler != NULL));
    c->handler = NULL;
    atomic_store_explicit(&c->closed, 1, memory_order_relaxed);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel)
        for (madi_posted_t *p; (p = conn->posted);) {
            conn->posted = p->next;
            if (!conn->posted)
                conn->posted_tail = &conn->posted;
            p->request.posted = NULL;
            madi_request_complete(&p->request, MAD_ERR_CLOSED);
        }
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel) {
        conn->unopened = true;
        madi_conn_rx_quick(conn);
        marceli_waiters_wake_all(&conn->openers);
        number_close(conn);
    }
    marceli_waiters_wake_all(&c->openers);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel)
        madi_conn_hand_back(conn);
}

/* Announced blocks stay announced while the channel is closed here: a peer that has closed it, too, drops them. */
void mad_channel_close(mad_channel_t *c)
{
    int64_t deadline = madi_deadline(madi_knob_int(MADI_KNOB_EXIT_TIMEOUT));
    mad_session_t *s;
    bool left;
    if (!c || madi_session_usable(c->session))
        return;
    s = c->session;
    left = madi_watch_for(s, none_queued, c, deadline) == MAD_OK;
    madi_lock(&s->lock);
    channel_leave(c);
    madi_unlock(&s->lock);
    left = madi_watch_for(s, none_announced, c, deadline) == MAD_OK && left;
    if (!left)
        madi_log(MADI_LOG_WARN, "core",
                 "channel %s is closed before all messages sent on it have left: a receiver does "
                 "not open them (MAD_EXIT_TIMEOUT)",
                 c->name);
    madi_lock(&s->lock);
    c->close_waits = false;
    madi_channel_release_check(c);
    madi_channels_sweep(s);
    madi_unlock(&s->lock);
}

const char *mad_channel_name(const mad_channel_t *channel)
{
    return channel->name;
}

mad_status_t mad_channel_handler_set(mad_channel_t *c, mad_handler_t handler, void *arg)
{
    mad_session_t *s = c->session;
    if (madi_session_usable(s))
        return MAD_ERR_FORKED;
    madi_lock(&s->lock);
    marceli_progress_count_serving((handler != NULL) - (c->handler != NULL));
    c->handler = handler;
    c->api.handler_arg = arg;
    for (madi_conn_t *conn = c->all; conn && handler; conn = conn->next_of_channel) {
        if (!conn->ready)
            continue;
        *s->for_handlers_tail = conn->ready; /* queue the messages that arrived before the handler was set */
        s->for_handlers_tail = conn->ready_tail;
        conn->ready = NULL;
        conn->ready_tail = &conn->ready;
        atomic_store_explicit(&s->has_calls, 1, memory_order_relaxed);
    }
    if (handler)
        atomic_store_explicit(&c->n_ready, 0, memory_order_relaxed);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel)
        madi_conn_rx_quick(conn);
    madi_unlock(&s->lock);
    madi_calls_run(s);
    marceli_progress_kick();
    return MAD_OK;
}
