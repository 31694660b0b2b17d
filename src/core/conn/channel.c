/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels by name, and their connections. */
#include "base/knob.h"
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/conn_session.h"
#include "core/driver.h"
#include "core/object/channel.h"
#include "core/object/session.h"

#include <stdlib.h>
#include <string.h>

madi_conn_t *madi_conn_nobody(uint32_t place)
{
    /* placeholders for empty entries: peer 1 never has entry 0, and peer 0 has no other entry, so they match no peer */
    static madi_conn_t first = {.peer = 1}, others = {.peer = 0};
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

/* Replace the array by one twice as large.  Connections that share an entry of the old array have different ones in the
 * new array, or in one that is larger still. */
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

/* Return the entry for a connection to that peer; NULL if out of memory.  Live peers have different places in the table of
 * peers, so the array never needs to be larger than that table. */
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

/* Number of retired channels that are not reused yet, because threads may still be returning from calls on them. */
#define RESTING 64

static mad_channel_t *channel_new(mad_session_t *s)
{
    mad_channel_t *c = s->conn->n_retired > RESTING ? s->conn->retired : NULL;
    madi_conn_array_t *conns = NULL;
    if (c) {
        s->conn->n_retired--;
        s->conn->retired = c->next;
        conns = atomic_load_explicit(&c->conns, memory_order_relaxed); /* no thread uses this array */
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

void madi_channel_release_check(mad_channel_t *c)
{
    if (c->awaits_release || c->is_open)
        return;
    c->awaits_release = true;
    c->next_awaiting = c->session->awaiting_release;
    c->session->awaiting_release = c;
}

static void channel_list_free(mad_channel_t *c)
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

void madi_channel_rest(mad_channel_t *c)
{
    struct madi_conn_session *part = c->session->conn;
    for (mad_channel_t **p = &c->session->channels; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    c->next = NULL;
    *(part->retired ? part->retired_tail : &part->retired) = c;
    part->retired_tail = &c->next;
    part->n_retired++;
}

/* ---- Part of a session ---------------------------------------------------------------------------------------- */

struct madi_conn_session *madi_conn_session_new(void)
{
    return calloc(1, sizeof(struct madi_conn_session));
}

void madi_conn_session_start(mad_session_t *s)
{
    s->conn->check_modes = madi_knob_int(MADI_KNOB_CHECK_SEND_MODE);
    s->conn->credit_budget = madi_knob_int(MADI_KNOB_CREDIT_BUDGET);
}

int64_t madi_credit_budget(const mad_session_t *s)
{
    return s->conn->credit_budget;
}

void madi_conn_session_free(mad_session_t *s)
{
    if (!s->conn)
        return;
    channel_list_free(s->channels);
    channel_list_free(s->conn->retired);
    free(s->conn);
    s->channels = NULL;
    s->conn = NULL;
}
