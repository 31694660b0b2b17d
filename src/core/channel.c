/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels by name, and their connections. */
#include "core/core.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static mad_status_t conns_grow(mad_channel_t *c, uint32_t peer)
{
    madi_conn_array_t *old = atomic_load_explicit(&c->conns, memory_order_relaxed), *a;
    uint32_t n = old ? old->n : 0;
    if (peer < n)
        return MAD_OK;
    while (n <= peer)
        n = n ? n * 2 : 8;
    a = calloc(1, sizeof *a + n * sizeof a->at[0]);
    if (!a)
        return MAD_ERR_NOMEM;
    a->n = n;
    a->older = old;
    for (uint32_t i = 0; old && i < old->n; i++)
        atomic_store_explicit(&a->at[i], atomic_load_explicit(&old->at[i], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&c->conns, a, memory_order_release); /* pairs with madi_conn_peek */
    return MAD_OK;
}

mad_channel_t *madi_channel_find(mad_session_t *s, const char *name)
{
    mad_channel_t *c;
    for (c = s->channels; c; c = c->next)
        if (!strcmp(c->name, name))
            return c;
    if (posix_memalign((void **)&c, MADI_LINE, sizeof *c))
        return NULL;
    memset(c, 0, sizeof *c);
    c->session = s;
    c->ready_tail = &c->ready;
    if (conns_grow(c, 0)) {
        free(c);
        return NULL;
    }
    strncpy(c->name, name, sizeof c->name - 1);
    c->next = s->channels;
    s->channels = c;
    return c;
}

/* ---- Connections ---------------------------------------------------------------------------------------------- */

madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate)
{
    madi_conn_t *conn = madi_conn_peek(channel, gate->peer);
    madi_conn_array_t *a;
    int64_t floor = madi_knob_int(MADI_KNOB_CREDIT_FLOOR);
    if (conn)
        return conn;
    if (conns_grow(channel, (uint32_t)gate->peer) || gate->next_number == UINT16_MAX)
        return NULL;
    if (posix_memalign((void **)&conn, MADI_LINE, sizeof *conn))
        return NULL;
    memset(conn, 0, sizeof *conn);
    conn->channel = channel;
    conn->gate = gate;
    conn->queue_tail = &conn->queue;
    conn->deferred_tail = &conn->deferred;
    conn->ready_tail = &conn->ready;
    conn->posted_tail = &conn->posted;
    conn->rx_limit = conn->rx_window = conn->rx_floor = (uint64_t)floor;
    conn->rx_tell = (uint64_t)floor / 2;
    conn->rx_left = floor / 2;
    conn->flags = channel->session->check_modes ? MADI_WIRE_MODES : 0;
    conn->credit_limit = conn->credit_left = gate->peer_floor ? gate->peer_floor : (uint64_t)floor;
    conn->next_of_channel = channel->all;
    channel->all = conn;
    madi_lock(&gate->tx_lock);
    conn->number = gate->next_number++;
    conn->whole = MADI_WIRE_MSG | (uint64_t)(MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) << 8 |
                  (uint64_t)conn->number << 16;
    conn->next_of_gate = gate->conns;
    gate->conns = conn;
    madi_unlock(&gate->tx_lock);
    a = atomic_load_explicit(&channel->conns, memory_order_relaxed);
    atomic_store_explicit(&a->at[gate->peer], conn, memory_order_release); /* pairs with madi_conn_peek */
    return conn;
}

madi_conn_t *madi_conn_get(mad_channel_t *channel, mad_peer_t peer, mad_status_t *status)
{
    mad_session_t *s = channel->session;
    madi_conn_t *conn = peer >= 0 ? madi_conn_peek(channel, peer) : NULL;
    madi_gate_t *gate;
    if (conn && atomic_load_explicit(&conn->gate->state, memory_order_relaxed) != MADI_GATE_IDLE &&
        !atomic_load_explicit(&channel->closed, memory_order_relaxed))
        return conn;
    madi_lock(&s->lock);
    *status = atomic_load_explicit(&channel->closed, memory_order_relaxed) ? MAD_ERR_CLOSED
                                                                           : madi_peer_gate(s, peer, &gate);
    if (!*status) {
        conn = madi_conn_make(channel, gate);
        if (!conn)
            *status = MAD_ERR_NOMEM;
        else
            madi_gate_connect(gate);
    }
    madi_unlock(&s->lock);
    return *status ? NULL : conn;
}

/* ---- Opening and closing -------------------------------------------------------------------------------------- */

mad_status_t mad_channel_open(mad_session_t *s, const char *name, mad_channel_t **channel)
{
    mad_status_t status = MAD_OK;
    mad_channel_t *c;
    if (!name || !name[0] || strlen(name) >= MAD_CHANNEL_NAME_MAX)
        return MAD_ERR_INVAL;
    madi_lock(&s->lock);
    c = madi_channel_find(s, name);
    if (!c) {
        status = MAD_ERR_NOMEM;
    } else if (c->is_open) {
        status = MAD_ERR_BUSY;
    } else {
        c->is_open = true;
        atomic_store_explicit(&c->closed, 0, memory_order_relaxed);
        *channel = c;
    }
    madi_unlock(&s->lock);
    return status;
}

static bool sent_all(void *arg)
{
    mad_channel_t *c = arg;
    bool all = true;
    madi_lock(&c->session->lock);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel) {
        madi_lock(&conn->gate->tx_lock);
        if (conn->queue || conn->deferred)
            all = false;
        madi_unlock(&conn->gate->tx_lock);
    }
    madi_unlock(&c->session->lock);
    return all;
}

/* The object stays until the end of the session: peers may go on speaking of the name. */
void mad_channel_close(mad_channel_t *c)
{
    mad_session_t *s;
    if (!c)
        return;
    s = c->session;
    if (madi_watch_for(s, sent_all, c, madi_deadline(madi_knob_int(MADI_KNOB_EXIT_TIMEOUT))) != MAD_OK)
        madi_log(MADI_LOG_WARN, "core", "channel %s is closed before all messages sent on it have left: a receiver does "
                 "not open them (MAD_EXIT_TIMEOUT)", c->name);
    madi_lock(&s->lock);
    c->is_open = false;
    marceli_async_count(-(c->handler != NULL));
    c->handler = NULL;
    atomic_store_explicit(&c->closed, 1, memory_order_relaxed);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel)
        for (madi_posted_t *p; (p = conn->posted); free(p)) {
            conn->posted = p->next;
            if (!conn->posted)
                conn->posted_tail = &conn->posted;
            p->request->posted = NULL;
            madi_request_complete(p->request, MAD_ERR_CLOSED);
        }
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel) {
        madi_conn_rx_quick(conn);
        marceli_waiters_wake_all(&conn->openers);
    }
    marceli_waiters_wake_all(&c->openers);
    madi_unlock(&s->lock);
}

const char *mad_channel_name(const mad_channel_t *channel)
{
    return channel->name;
}

mad_status_t mad_channel_set_handler(mad_channel_t *c, mad_handler_t handler, void *arg)
{
    mad_session_t *s = c->session;
    madi_lock(&s->lock);
    marceli_async_count((handler != NULL) - (c->handler != NULL));
    c->handler = handler;
    c->handler_arg = arg;
    for (madi_conn_t *conn = c->all; conn && handler; conn = conn->next_of_channel) {
        if (!conn->ready)
            continue;
        *s->handled_tail = conn->ready; /* messages that came before */
        s->handled_tail = conn->ready_tail;
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
    marceli_async_kick();
    return MAD_OK;
}

static void conn_free(madi_conn_t *conn)
{
    if (conn->spare)
        madi_tx_free(conn->spare);
    free(conn);
}

void madi_channels_free(mad_session_t *s)
{
    for (mad_channel_t *c; (c = s->channels); free(c)) {
        s->channels = c->next;
        for (madi_conn_t *conn; (conn = c->all);) {
            c->all = conn->next_of_channel;
            conn_free(conn);
        }
        for (madi_conn_array_t *a = c->conns, *older; a; a = older) {
            older = a->older;
            free(a);
        }
    }
}
