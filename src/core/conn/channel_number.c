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
#include "base/knob.h"
#include "core/conn/conn.h"
#include "core/conn/conn_gate.h"
#include "core/conn/conn_session.h"
#include "core/conn/credit.h"
#include "core/conn/tx_pool.h"
#include "core/driver.h"
#include "core/object/channel.h"
#include "core/object/conn.h"
#include "core/object/session.h"
#include "core/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* ---- Numbers -------------------------------------------------------------------------------------------------- */

#define NUMBERS_FIRST 64
#define NUMBERS_MAX UINT16_MAX

static mad_status_t numbers_grow(madi_gate_t *gate)
{
    uint32_t n = gate->numbers->n ? gate->numbers->n * 2 : NUMBERS_FIRST;
    madi_conn_t **p;
    if (n > NUMBERS_MAX)
        n = NUMBERS_MAX;
    p = realloc(gate->numbers->by_number, n * sizeof *p);
    if (!p)
        return MAD_ERR_NOMEM;
    memset(p + gate->numbers->n, 0, (n - gate->numbers->n) * sizeof *p);
    gate->numbers->by_number = p;
    gate->numbers->n = n;
    return MAD_OK;
}

/* Give the connection the next free number behind the last one given.  Half of the numbers stay free, so that a returned
 * number is not used again at once. */
static mad_status_t number_take(madi_conn_t *conn)
{
    madi_gate_t *gate = conn->gate;
    if (gate->numbers->n_used == NUMBERS_MAX ||
        (gate->numbers->n_used >= gate->numbers->n / 2 && gate->numbers->n < NUMBERS_MAX && numbers_grow(gate)))
        return MAD_ERR_NOMEM;
    while (gate->numbers->by_number[gate->numbers->next % gate->numbers->n])
        gate->numbers->next++;
    conn->number = (uint16_t)(gate->numbers->next++ % gate->numbers->n);
    gate->numbers->by_number[conn->number] = conn;
    gate->numbers->n_used++;
    return MAD_OK;
}

madi_conn_t *madi_conn_by_number(madi_gate_t *gate, uint16_t number)
{
    return number < gate->numbers->n ? gate->numbers->by_number[number] : NULL;
}

/* ---- Made ----------------------------------------------------------------------------------------------------- */

madi_conn_t *madi_conn_new(mad_channel_t *channel, madi_gate_t *gate)
{
    madi_conn_t *conn = gate->numbers->retired;
    madi_tx_t *spare = conn ? conn->spare : NULL;
    bool taken;
    if (conn)
        gate->numbers->retired = conn->next_of_gate;
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
    conn->flags = channel->session->conn->check_modes ? MADI_WIRE_MODES : 0;
    madi_credit_begin_rx(conn);
    madi_credit_begin_tx(conn);
    madi_lock(&gate->tx_lock);
    taken = number_take(conn) == MAD_OK;
    conn->hdr_template =
        MADI_WIRE_MSG | (uint64_t)(MADI_WIRE_FIRST | MADI_WIRE_LAST | conn->flags) << 8 | (uint64_t)conn->number << 16;
    conn->next_of_gate = taken ? gate->conns : gate->numbers->retired;
    *(taken ? &gate->conns : &gate->numbers->retired) = conn;
    madi_unlock(&gate->tx_lock);
    return taken ? conn : NULL;
}

static void conn_free(madi_conn_t *conn)
{
    if (conn->spare)
        madi_tx_free(conn->spare);
    free(conn);
}

void madi_conn_rest(madi_conn_t *conn)
{
    madi_gate_t *gate = conn->gate;
    for (madi_conn_t **p = &gate->conns; *p; p = &(*p)->next_of_gate)
        if (*p == conn) {
            *p = conn->next_of_gate;
            break;
        }
    madi_conn_traffic(conn, &gate->numbers->retired_traffic);
    madi_unopened_end(conn);
    gate->numbers->by_number[conn->number] = NULL;
    gate->numbers->n_used--;
    conn->next_of_gate = gate->numbers->retired;
    gate->numbers->retired = conn;
}

/* ---- Traffic -------------------------------------------------------------------------------------------------- */

#define CONN_COUNT_ADD(group, key, kind, unit, column, where, text) \
    sum->count[MADI_MOVED_##key] += conn->counts[MADI_CONN_COUNT_##key];

void madi_conn_traffic(const madi_conn_t *conn, madi_traffic_t *sum)
{
    sum->count[MADI_MOVED_messages_sent] += conn->tx_seq;
    sum->count[MADI_MOVED_bytes_sent] += conn->tx_cost_before + madi_credit_used(conn);
    sum->count[MADI_MOVED_bytes_received] += conn->rx_cost_before + madi_credit_consumed(conn) + conn->rx_held;
    MADI_COUNTERS_MOVED(MADI_COUNTER_NONE, CONN_COUNT_ADD, )
}

madi_traffic_t madi_conns_traffic(const madi_gate_t *gate)
{
    madi_traffic_t sum = gate->numbers->retired_traffic;
    for (const madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate)
        madi_conn_traffic(conn, &sum);
    return sum;
}

/* ---- Part of a gate ------------------------------------------------------------------------------------------- */

struct madi_conn_gate *madi_conn_gate_new(void)
{
    return calloc(1, sizeof(struct madi_conn_gate));
}

void madi_conn_gate_reset(madi_gate_t *gate)
{
    struct madi_conn_gate *part = gate->numbers;
    *part = (struct madi_conn_gate){.by_number = part->by_number, .n = part->n, .retired = part->retired};
}

static void conns_free(madi_conn_t *list)
{
    for (madi_conn_t *next; list; list = next) {
        next = list->next_of_gate;
        conn_free(list);
    }
}

void madi_conn_gate_free(madi_gate_t *gate)
{
    if (!gate->numbers)
        return;
    conns_free(gate->conns);
    conns_free(gate->numbers->retired);
    free(gate->numbers->by_number);
    free(gate->numbers);
}
