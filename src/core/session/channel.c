/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels by name, and their connections. */
#include "core/core.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

madi_conn_t *madi_conn_nobody(uint32_t place)
{
    static madi_conn_t first = {.peer = 1}, others = {.peer = 0}; /* which would stand at 1, and at 0 */
    return place ? &others : &first;
}

static bool is_nobody(const madi_conn_t *conn)
{
    return !conn->gate;
}

static madi_conn_array_t *conns_new(uint32_t n)
{
    madi_conn_array_t *a = malloc(sizeof *a + n * sizeof a->at[0]);
    if (!a)
        return NULL;
    a->older = NULL;
    a->mask = n - 1;
    for (uint32_t i = 0; i < n; i++)
        atomic_init(&a->at[i], madi_conn_nobody(i));
    return a;
}

/* Two that stand in one place of the old array do not do so in the new one, or in one twice as large. */
static mad_status_t conns_grow(mad_channel_t *c)
{
    madi_conn_array_t *old = atomic_load_explicit(&c->conns, memory_order_relaxed);
    madi_conn_array_t *a = conns_new(old ? 2 * (old->mask + 1) : 8);
    if (!a)
        return MAD_ERR_NOMEM;
    a->older = old;
    for (uint32_t i = 0; old && i <= old->mask; i++) {
        madi_conn_t *conn = atomic_load_explicit(&old->at[i], memory_order_relaxed);
        if (!is_nobody(conn))
            atomic_store_explicit(&a->at[(uint32_t)conn->peer & a->mask], conn, memory_order_relaxed);
    }
    atomic_store_explicit(&c->conns, a, memory_order_release); /* pairs with madi_conn_peek */
    return MAD_OK;
}

/* Return the entry for a connection to that peer; NULL: no memory.  Live peers have different places in the table of peers,
 * so the array never needs to be larger than that. */
static _Atomic(madi_conn_t *) *place_for(mad_channel_t *c, mad_peer_t peer)
{
    for (;;) {
        madi_conn_array_t *a = atomic_load_explicit(&c->conns, memory_order_relaxed);
        _Atomic(madi_conn_t *) *at = &a->at[(uint32_t)peer & a->mask];
        if (is_nobody(atomic_load_explicit(at, memory_order_relaxed)))
            return at;
        if (conns_grow(c))
            return NULL;
    }
}

/* Number of retired channels that are not reused yet, since threads may still be leaving them. */
#define RESTING 64

static mad_channel_t *channel_new(mad_session_t *s)
{
    mad_channel_t *c = s->n_retired > RESTING ? s->retired : NULL;
    madi_conn_array_t *conns = NULL;
    if (c) {
        s->n_retired--;
        s->retired = c->next;
        conns = atomic_load_explicit(&c->conns, memory_order_relaxed); /* no thread uses it */
    } else if (posix_memalign((void **)&c, MADI_LINE, sizeof *c)) {
        return NULL;
    }
    memset(c, 0, sizeof *c);
    atomic_init(&c->conns, conns);
    c->session = s;
    c->ready_tail = &c->ready;
    if (!conns && conns_grow(c)) {
        free(c);
        return NULL;
    }
    return c;
}

const mad_channel_t *madi_channel_at(const mad_session_t *s, uint32_t n)
{
    const mad_channel_t *c = s->channels;
    while (c && n--)
        c = c->next;
    return c;
}

mad_channel_t *madi_channel_find(mad_session_t *s, const char *name)
{
    mad_channel_t *c;
    for (c = s->channels; c; c = c->next)
        if (!strcmp(c->name, name))
            return c;
    c = channel_new(s);
    if (!c)
        return NULL;
    strncpy(c->name, name, sizeof c->name - 1);
    c->lane = s->forward ? s->forward->lane(s, name) : 0;
    c->next = s->channels;
    s->channels = c;
    return c;
}

/* ---- Connections ---------------------------------------------------------------------------------------------- */

madi_conn_t *madi_conn_make(mad_channel_t *channel, madi_gate_t *gate)
{
    madi_conn_t *conn = madi_conn_peek(channel, gate->peer);
    _Atomic(madi_conn_t *) *at;
    if (conn)
        return conn;
    at = place_for(channel, gate->peer);
    if (!at || !(conn = madi_conn_new(channel, gate)))
        return NULL;
    conn->next_of_channel = channel->all;
    channel->all = conn;
    atomic_store_explicit(at, conn, memory_order_release); /* pairs with madi_conn_peek */
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
    *status = atomic_load_explicit(&channel->closed, memory_order_relaxed) ? madi_channel_status(channel)
                                                                           : madi_peer_gate(s, peer, channel->lane, &gate);
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

/* Open a channel, which may have been open before, or announced by peers. */
static void channel_begin(mad_channel_t *c)
{
    c->is_open = true;
    atomic_store_explicit(&c->closed, 0, memory_order_relaxed);
    for (madi_conn_t *conn = c->all; conn; conn = conn->next_of_channel) {
        conn->seen = conn->remote_known;
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
    } else if (c->is_open || c->leaving) {
        status = MAD_ERR_BUSY;
    } else {
        channel_begin(c);
        *channel = c;
    }
    madi_unlock(&s->lock);
    return status;
}

/* Under session->lock and tx_lock. */
static bool is_queued(const madi_conn_t *conn)
{
    return conn->queue || conn->deferred;
}

/* True if announced blocks wait for a grant.  A peer that has shut down in order sends none. */
static bool is_announced(const madi_conn_t *conn)
{
    return conn->n_blocks && !conn->gate->bye;
}

static bool no_conn(mad_channel_t *c, bool (*is)(const madi_conn_t *conn))
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
    return no_conn(arg, is_queued);
}

static bool none_announced(void *arg)
{
    return no_conn(arg, is_announced);
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

void madi_channel_dies(mad_channel_t *c)
{
    if (c->dying || c->is_open)
        return;
    c->dying = true;
    c->next_dying = c->session->dying;
    c->session->dying = c;
}

static void channel_retire(mad_channel_t *c)
{
    mad_session_t *s = c->session;
    for (mad_channel_t **p = &s->channels; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    c->next = NULL;
    *(s->retired ? s->retired_tail : &s->retired) = c;
    s->retired_tail = &c->next;
    s->n_retired++;
}

static void place_clear(mad_channel_t *c, const madi_conn_t *conn)
{
    madi_conn_array_t *a = atomic_load_explicit(&c->conns, memory_order_relaxed);
    uint32_t i = (uint32_t)conn->peer & a->mask;
    atomic_store_explicit(&a->at[i], madi_conn_nobody(i), memory_order_relaxed);
}

bool madi_conns_retire_gate(madi_gate_t *gate)
{
    if (madi_conns_in_use(gate))
        return false;
    for (madi_conn_t *conn; (conn = gate->conns);) {
        mad_channel_t *c = conn->channel;
        madi_conn_t **p = &c->all;
        if (!madi_conn_retire_unused(conn))
            return false;
        while (*p != conn)
            p = &(*p)->next_of_channel;
        *p = conn->next_of_channel;
        place_clear(c, conn);
        madi_channel_dies(c); /* if only that peer had spoken of it */
    }
    return true;
}

static void conns_retire(mad_channel_t *c)
{
    for (madi_conn_t **p = &c->all, *conn; (conn = *p);) {
        if (madi_conn_retire(conn)) {
            *p = conn->next_of_channel;
            place_clear(c, conn);
        } else {
            p = &conn->next_of_channel;
        }
    }
}

void madi_channels_sweep(mad_session_t *s)
{
    for (mad_channel_t **p = &s->dying, *c; (c = *p);) {
        if (!c->is_open)
            conns_retire(c);
        if (!c->is_open && (c->all || c->openers.first || c->leaving)) {
            p = &c->next_dying;
            continue;
        }
        *p = c->next_dying;
        c->dying = false;
        if (!c->is_open)
            channel_retire(c);
    }
}

static void number_give(madi_conn_t *conn)
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
    c->leaving = true;
    marceli_async_count_serving(-(c->handler != NULL));
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
        number_give(conn);
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
        madi_log(MADI_LOG_WARN, "core", "channel %s is closed before all messages sent on it have left: a receiver does "
                 "not open them (MAD_EXIT_TIMEOUT)", c->name);
    madi_lock(&s->lock);
    c->leaving = false;
    madi_channel_dies(c);
    madi_channels_sweep(s);
    madi_unlock(&s->lock);
}

const char *mad_channel_name(const mad_channel_t *channel)
{
    return channel->name;
}

mad_status_t mad_channel_set_handler(mad_channel_t *c, mad_handler_t handler, void *arg)
{
    mad_session_t *s = c->session;
    if (madi_session_usable(s))
        return MAD_ERR_FORKED;
    madi_lock(&s->lock);
    marceli_async_count_serving((handler != NULL) - (c->handler != NULL));
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

static void list_free(mad_channel_t *c)
{
    for (mad_channel_t *next; c; c = next) {
        next = c->next;
        for (madi_conn_array_t *a = c->conns, *older; a; a = older) {
            older = a->older;
            free(a);
        }
        free(c);
    }
}

void madi_channels_free(mad_session_t *s)
{
    list_free(s->channels);
    list_free(s->retired);
    s->channels = s->retired = NULL;
}
