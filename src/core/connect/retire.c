/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of connections and channels: they are retired when nothing refers to them, and reused. */
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/connect/gate.h"
#include "core/link/ledger.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/recv/receive.h"
#include "core/send/send.h"

/* True if the connection has something to send.  Under tx_lock. */
static bool conn_sends(const madi_conn_t *conn)
{
    return conn->queue || conn->deferred || conn->in_pending || conn->n_blocks ||
           atomic_load_explicit(&((madi_conn_t *)conn)->packing, memory_order_acquire) ||
           atomic_load_explicit(&((madi_conn_t *)conn)->waiting, memory_order_relaxed);
}

/* Return the connection of a message, which another thread may be ending without a lock.  The value from before or after
 * its clearing will do. */
__attribute__((no_sanitize("thread"), noinline)) static const madi_conn_t *rx_conn(const madi_rx_msg_t *m)
{
    return *(madi_conn_t *const volatile *)&m->conn;
}

/* True if a message in use belongs to this connection or, with conn NULL, to any one of this gate.  The function
 * examines all messages, and peers can cause many.  So call the function once for a gate, and only if something was
 * received. */
static bool ring_holds(const madi_gate_t *gate, const madi_conn_t *conn)
{
    madi_rx_msg_t *first = gate->session->rx_ring, *m = first;
    do {
        const madi_conn_t *of =
            atomic_load_explicit(&m->used, memory_order_acquire) ? rx_conn(m) : NULL; /* pairs with madi_rx_free */
        if (of && (conn ? of == conn : of->gate == gate))
            return true;
        m = m->ring;
    } while (m != first);
    return false;
}

static bool conn_has_pending_rx(const madi_conn_t *conn)
{
    return conn->ready || conn->arriving || conn->unfinished || conn->posted || conn->rx_held || conn->openers.first;
}

static bool has_received(const madi_conn_t *conn)
{
    return conn->counts[MADI_CONN_COUNT_messages_received] != 0;
}

static bool conn_receives(const madi_conn_t *conn)
{
    return conn_has_pending_rx(conn) || (has_received(conn) && ring_holds(conn->gate, conn));
}

static void ready_remove(madi_conn_t *conn)
{
    mad_channel_t *channel = conn->channel;
    for (madi_conn_t **p = &channel->ready; *p; p = &(*p)->next_ready)
        if (*p == conn) {
            *p = conn->next_ready;
            break;
        }
    channel->ready_tail = &channel->ready;
    while (*channel->ready_tail)
        channel->ready_tail = &(*channel->ready_tail)->next_ready;
}

bool madi_conns_in_use(madi_gate_t *gate)
{
    bool is = false, received = false;
    madi_lock(&gate->tx_lock);
    for (const madi_conn_t *conn = gate->conns; conn && !is; conn = conn->next_of_gate) {
        is = conn_sends(conn) || conn_has_pending_rx(conn);
        received |= has_received(conn);
    }
    madi_unlock(&gate->tx_lock);
    return is || (received && ring_holds(gate, NULL));
}

bool madi_conn_in_use(madi_conn_t *conn)
{
    bool is;
    madi_lock(&conn->gate->tx_lock);
    is = conn_sends(conn) || conn_receives(conn);
    madi_unlock(&conn->gate->tx_lock);
    return is;
}

static bool conn_retire(madi_conn_t *conn, bool unused)
{
    madi_gate_t *gate = conn->gate;
    bool down = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN, over;
    if (down && conn->opened_since_announce)
        madi_conn_drop(conn);
    madi_conn_hand_back(conn);
    madi_lock(&gate->tx_lock);
    madi_conn_close(conn);
    over = (down || (!conn->announced && !conn->close_sent && !conn->remote_known)) && !conn_sends(conn) &&
           (unused ? !conn_has_pending_rx(conn) : !conn_receives(conn));
    if (over) {
        if (conn->remote_known && !conn->remote_closing)
            gate->by_remote[conn->remote] = NULL;
        if (conn->in_ready)
            ready_remove(conn);
        madi_conn_rest(conn);
    }
    madi_unlock(&gate->tx_lock);
    return over;
}

bool madi_conn_retire(madi_conn_t *conn)
{
    return conn_retire(conn, false);
}

bool madi_conn_retire_unused(madi_conn_t *conn)
{
    return conn_retire(conn, true);
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
        madi_channel_release_check(c); /* release the channel if only that peer had announced the channel */
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
    for (mad_channel_t **p = &s->awaiting_release, *c; (c = *p);) {
        if (!c->is_open)
            conns_retire(c);
        if (!c->is_open && (c->all || c->openers.first || c->close_waits)) {
            p = &c->next_awaiting;
            continue;
        }
        *p = c->next_awaiting;
        c->awaits_release = false;
        if (!c->is_open)
            madi_channel_rest(c);
    }
}

void madi_unopened_sweep(madi_gate_t *gate)
{
    if (atomic_load_explicit(&gate->ledger.held[MADI_CHARGE_CHANNELS], memory_order_relaxed) >=
        madi_bounds[MADI_CHARGE_CHANNELS].peer)
        madi_channels_sweep(gate->session);
}
