/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of channels on a link, and the end of connections.
 *
 * A number belongs to a connection from its creation to its retirement.  CHANNEL announces it to the peer before the first
 * message.  When the channel is closed here and everything has left, CLOSE reports that no message follows.  When the peer
 * holds no unopened message of it any more, it answers with CLOSED, and does not use the number again.  Only then may the
 * number be announced again: for the same name or, after the connection's retirement, for another.  So a message and the
 * credits that it uses belong to one announcement.  A receiver that leaves messages unopened gets no others of that name,
 * however often the sender opens the channel anew.
 *
 * A connection is retired when its channel is closed, both numbers are returned, and nothing refers to it: it then waits
 * in its gate's list for another channel.  There is no reference count, which would cost time for each message: the
 * messages are searched instead. */
#include "core/core.h"
#include "base/knob.h"

#include <stdlib.h>
#include <string.h>

/* ---- Numbers -------------------------------------------------------------------------------------------------- */

#define NUMBERS_FIRST 64
#define NUMBERS_MAX UINT16_MAX

static mad_status_t numbers_grow(madi_gate_t *gate)
{
    uint32_t n = gate->n_numbers ? gate->n_numbers * 2 : NUMBERS_FIRST;
    madi_conn_t **p;
    if (n > NUMBERS_MAX)
        n = NUMBERS_MAX;
    p = realloc(gate->by_number, n * sizeof *p);
    if (!p)
        return MAD_ERR_NOMEM;
    memset(p + gate->n_numbers, 0, (n - gate->n_numbers) * sizeof *p);
    gate->by_number = p;
    gate->n_numbers = n;
    return MAD_OK;
}

/* The next free one behind the last that was given; half of them are free, so that one given back rests for a while. */
static mad_status_t number_take(madi_conn_t *conn)
{
    madi_gate_t *gate = conn->gate;
    if (gate->used_numbers == NUMBERS_MAX ||
        (gate->used_numbers >= gate->n_numbers / 2 && gate->n_numbers < NUMBERS_MAX && numbers_grow(gate)))
        return MAD_ERR_NOMEM;
    while (gate->by_number[gate->next_number % gate->n_numbers])
        gate->next_number++;
    conn->number = (uint16_t)(gate->next_number++ % gate->n_numbers);
    gate->by_number[conn->number] = conn;
    gate->used_numbers++;
    return MAD_OK;
}

madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number)
{
    return number < gate->n_numbers ? gate->by_number[number] : NULL;
}

/* ---- Made ----------------------------------------------------------------------------------------------------- */

static void credits_begin(madi_conn_t *conn)
{
    int64_t floor = madi_knob_int(MADI_KNOB_CREDIT_FLOOR);
    conn->rx_cost_before += madi_credit_consumed(conn);
    conn->rx_limit = conn->rx_window = conn->rx_floor = (uint64_t)floor;
    conn->rx_tell = (uint64_t)floor / 2;
    conn->rx_left = floor / 2;
}

static void credits_begin_tx(madi_conn_t *conn)
{
    int64_t floor = madi_knob_int(MADI_KNOB_CREDIT_FLOOR);
    conn->tx_cost_before += madi_credit_used(conn);
    conn->quick = 0;
    conn->credit_limit = conn->credit_left = conn->gate->peer_floor ? conn->gate->peer_floor : (uint64_t)floor;
}

madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate)
{
    madi_conn_t *conn = gate->retired;
    madi_tx_t *spare = conn ? conn->spare : NULL;
    bool taken;
    if (conn)
        gate->retired = conn->next_of_gate;
    else if (posix_memalign((void **)&conn, MADI_LINE, sizeof *conn))
        return NULL;
    memset(conn, 0, sizeof *conn);
    conn->spare = spare;
    conn->channel = channel;
    conn->gate = gate;
    conn->peer = gate->peer;
    conn->queue_tail = &conn->queue;
    conn->deferred_tail = &conn->deferred;
    conn->ready_tail = &conn->ready;
    conn->posted_tail = &conn->posted;
    conn->closing = conn->unopened = !channel->is_open;
    conn->flags = channel->session->check_modes ? MADI_WIRE_MODES : 0;
    credits_begin(conn);
    credits_begin_tx(conn);
    madi_lock(&gate->tx_lock);
    taken = number_take(conn) == MAD_OK;
    conn->whole = MADI_WIRE_MSG | (uint64_t)(MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) << 8 |
                  (uint64_t)conn->number << 16;
    conn->next_of_gate = taken ? gate->conns : gate->retired;
    *(taken ? &gate->conns : &gate->retired) = conn;
    madi_unlock(&gate->tx_lock);
    return taken ? conn : NULL;
}

static void conn_free(madi_conn_t *conn)
{
    if (conn->spare)
        madi_tx_free(conn->spare);
    free(conn);
}

void madi_conns_free(madi_gate_t *gate)
{
    for (int i = 0; i < 2; i++)
        for (madi_conn_t **list = i ? &gate->retired : &gate->conns, *conn; (conn = *list);) {
            *list = conn->next_of_gate;
            conn_free(conn);
        }
    free(gate->by_number);
}

/* ---- Handed back ---------------------------------------------------------------------------------------------- */

static bool is_up(const madi_gate_t *gate)
{
    return atomic_load_explicit(&((madi_gate_t *)gate)->state, memory_order_relaxed) == MADI_GATE_UP;
}

void madi_conn_close(madi_conn_t *conn)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CLOSE, .channel = conn->number};
    if (!conn->closing || !conn->announced || conn->queue || conn->deferred || !is_up(conn->gate) ||
        madi_gate_ctrl_locked(conn->gate, &hdr, NULL) != MAD_OK)
        return;
    conn->announced = false;
    conn->handed = true;
    madi_conn_slow(conn);
}

/* Nobody will open these any more: both sides have closed the channel. */
void madi_conn_drop(madi_conn_t *conn)
{
    madi_unopened_drained(conn);
    for (madi_rx_msg_t *m; (m = madi_rx_take_from(conn));)
        madi_rx_drop(m);
}

void madi_conn_hand_back(madi_conn_t *conn)
{
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_CLOSED, .channel = conn->remote};
    if (!conn->remote_closing)
        return;
    if (conn->seen && !conn->channel->is_open && conn->ready)
        madi_conn_drop(conn); /* the last one comes back here */
    if (!conn->remote_closing || conn->rx_held || madi_gate_ctrl(conn->gate, &hdr, NULL) == MAD_ERR_NOMEM)
        return;
    madi_credit_forget(conn);
    credits_begin(conn);
    conn->remote_known = conn->remote_closing = conn->seen = false;
}

bool madi_number_closed(madi_gate_t *gate, uint16_t number)
{
    madi_conn_t *conn = madi_conn_by_remote(gate, number);
    if (!conn || conn->arriving)
        return false;
    gate->by_remote[number] = NULL;
    conn->remote_closing = true;
    madi_conn_rx_quick(conn);
    madi_conn_hand_back(conn);
    madi_channel_dies(conn->channel);
    return true;
}

bool madi_number_free(madi_gate_t *gate, uint16_t number)
{
    madi_conn_t *conn;
    bool was_handed;
    madi_lock(&gate->tx_lock);
    conn = madi_conn_by_number(gate, number);
    was_handed = conn && conn->handed;
    if (was_handed) {
        conn->handed = false;
        credits_begin_tx(conn);
        if (conn->queue) /* the channel was opened anew */
            madi_conn_kick(conn);
    }
    madi_unlock(&gate->tx_lock);
    return was_handed;
}

/* ---- Retired -------------------------------------------------------------------------------------------------- */

/* Under tx_lock. */
static bool sends(const madi_conn_t *conn)
{
    return conn->queue || conn->deferred || conn->in_pending || conn->n_blocks ||
           atomic_load_explicit(&((madi_conn_t *)conn)->packing, memory_order_acquire) ||
           atomic_load_explicit(&((madi_conn_t *)conn)->waiting, memory_order_relaxed);
}

/* Of one that is ended meanwhile, without a lock, it may be read before or after it was cleared: either will do. */
__attribute__((no_sanitize("thread"), noinline)) static const madi_conn_t *conn_of(const madi_rx_msg_t *m)
{
    return *(madi_conn_t *const volatile *)&m->conn;
}

/* Some message that is used is of this connection, or (conn NULL) of one of this gate.  Looks at all there are, which peers
 * can make many: to be asked for a gate at once, and for what has received something. */
static bool ring_holds(const madi_gate_t *gate, const madi_conn_t *conn)
{
    madi_rx_msg_t *first = gate->session->rx_ring, *m = first;
    do {
        const madi_conn_t *of = atomic_load_explicit(&m->used, memory_order_acquire) ? conn_of(m) : NULL; /* pairs with madi_rx_free */
        if (of && (conn ? of == conn : of->gate == gate))
            return true;
        m = m->ring;
    } while (m != first);
    return false;
}

static bool waits(const madi_conn_t *conn)
{
    return conn->ready || conn->arriving || conn->live || conn->posted || conn->rx_held || conn->openers.first;
}

static bool receives(const madi_conn_t *conn)
{
    return waits(conn) || (conn->rx_messages && ring_holds(conn->gate, conn));
}

static void out_of_ready(madi_conn_t *conn)
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

void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum)
{
    sum->messages_out += conn->tx_seq;
    sum->bytes_out += conn->tx_cost_before + madi_credit_used(conn);
    sum->messages_in += conn->rx_messages;
    sum->bytes_in += conn->rx_cost_before + madi_credit_consumed(conn) + conn->rx_held;
}

static void out_of_gate(madi_conn_t *conn)
{
    madi_gate_t *gate = conn->gate;
    for (madi_conn_t **p = &gate->conns; *p; p = &(*p)->next_of_gate)
        if (*p == conn) {
            *p = conn->next_of_gate;
            break;
        }
    madi_conn_traffic(conn, &gate->before);
    madi_unopened_end(conn);
    gate->by_number[conn->number] = NULL;
    gate->used_numbers--;
    conn->next_of_gate = gate->retired;
    gate->retired = conn;
}

bool madi_conns_in_use(madi_gate_t *gate)
{
    bool is = false, received = false;
    madi_lock(&gate->tx_lock);
    for (const madi_conn_t *conn = gate->conns; conn && !is; conn = conn->next_of_gate) {
        is = sends(conn) || waits(conn);
        received |= conn->rx_messages != 0;
    }
    madi_unlock(&gate->tx_lock);
    return is || (received && ring_holds(gate, NULL));
}

bool madi_conn_in_use(madi_conn_t *conn)
{
    bool is;
    madi_lock(&conn->gate->tx_lock);
    is = sends(conn) || receives(conn);
    madi_unlock(&conn->gate->tx_lock);
    return is;
}

static bool retire(madi_conn_t *conn, bool unused)
{
    madi_gate_t *gate = conn->gate;
    bool down = atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN, over;
    if (down && conn->seen)
        madi_conn_drop(conn);
    madi_conn_hand_back(conn);
    madi_lock(&gate->tx_lock);
    madi_conn_close(conn);
    over = (down || (!conn->announced && !conn->handed && !conn->remote_known)) && !sends(conn) &&
           (unused ? !waits(conn) : !receives(conn));
    if (over) {
        if (conn->remote_known && !conn->remote_closing)
            gate->by_remote[conn->remote] = NULL;
        if (conn->in_ready)
            out_of_ready(conn);
        out_of_gate(conn);
    }
    madi_unlock(&gate->tx_lock);
    return over;
}

bool madi_conn_retire(madi_conn_t *conn)
{
    return retire(conn, false);
}

bool madi_conn_retire_unused(madi_conn_t *conn)
{
    return retire(conn, true);
}
