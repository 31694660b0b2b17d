/* SPDX-License-Identifier: BSD-3-Clause */
/* Gates: how they are made, with the parts of all folders, reused after a while, and freed. */
#include "core/conn/conn.h"
#include "core/conn/rx_pool.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/paths.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/recv/receive.h"
#include "core/security/seal.h"
#include "core/send/send.h"

#include <stdlib.h>
#include <string.h>

#define RESTING 64 /* minimum number of released gates that rest before reuse, since threads may still be leaving them */

/* ---- Made ----------------------------------------------------------------------------------------------------- */

/* Take a released gate that has rested for long enough; NULL if there is none.  The gate's memory for connections and
 * handles is used again. */
static madi_gate_t *gate_take_rested(mad_session_t *s)
{
    madi_gate_t *g = s->connect->n_resting > RESTING ? s->connect->resting : NULL, blank = {.peer = -1};
    if (!g)
        return NULL;
    s->connect->resting = g->next;
    s->connect->n_resting--;
    blank.out = g->out;
    blank.numbers = g->numbers;
    blank.send = g->send;
    blank.recv = g->recv;
    blank.connect = g->connect;
    memcpy((void *)g, &blank, sizeof blank);
    madi_link_gate_reset(g);
    madi_conn_gate_reset(g);
    madi_send_gate_reset(g);
    madi_recv_gate_reset(g);
    memset(g->connect, 0, sizeof *g->connect);
    return g;
}

static void gate_parts_free(madi_gate_t *gate)
{
    madi_link_gate_free(gate);
    madi_conn_gate_free(gate);
    madi_send_gate_free(gate);
    madi_recv_gate_free(gate);
    if (gate->connect)
        free(gate->connect->search);
    free(gate->connect);
}

static madi_gate_t *gate_alloc(void)
{
    madi_gate_t *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->out = madi_link_gate_new();
    g->numbers = madi_conn_gate_new();
    g->send = madi_send_gate_new();
    g->recv = madi_recv_gate_new();
    g->connect = calloc(1, sizeof *g->connect);
    if (!g->out || !g->numbers || !g->send || !g->recv || !g->connect) {
        gate_parts_free(g);
        free(g);
        return NULL;
    }
    return g;
}

madi_gate_t *madi_gate_new(mad_session_t *s, mad_peer_t peer, int lane)
{
    madi_gate_t *g = gate_take_rested(s);
    if (!g)
        g = gate_alloc();
    if (!g)
        return NULL;
    g->session = s;
    g->peer = peer;
    g->lane = lane;
    g->next = s->gates;
    s->gates = g;
    return g;
}

/* ---- Released ------------------------------------------------------------------------------------------------- */

void madi_gate_rest(madi_gate_t *gate)
{
    mad_session_t *s = gate->session;
    gate->peer = -1;
    gate->next = NULL;
    *(s->connect->resting ? s->connect->resting_tail : &s->connect->resting) = gate;
    s->connect->resting_tail = &gate->next;
    s->connect->n_resting++;
}

static void gate_free(madi_gate_t *gate)
{
    if (gate->link) {
        if (atomic_load_explicit(&gate->link->state, memory_order_relaxed) != MADI_LINK_DOWN &&
            gate->link->driver->link_close)
            gate->link->driver->link_close(gate->link);
        madi_rx_abandon(gate);
        gate->link->driver->link_fini(gate->link);
        madi_seal_free(gate->link->seal);
        free(gate->link);
    }
    madi_ctrl_forget(gate);
    if (gate->forward)
        gate->session->forward->free(gate);
    madi_peer_paths_free(gate);
    gate_parts_free(gate);
    free(gate->by_remote);
    free(gate);
}

void madi_gates_free(mad_session_t *s)
{
    for (madi_gate_t *g; (g = s->gates);) {
        s->gates = g->next;
        gate_free(g);
    }
    for (madi_gate_t *g; (g = s->connect->resting);) {
        s->connect->resting = g->next;
        gate_free(g);
    }
}

/* ---- For other folders ---------------------------------------------------------------------------------------- */

const madi_adapter_t *madi_gate_adapter(const madi_gate_t *gate)
{
    return gate->connect->adapter;
}

madi_adapter_t *madi_gate_link_adapter(const madi_gate_t *gate)
{
    if (gate->rails)
        return gate->session->rails->adapter(gate);
    return gate->link ? gate->link->adapter : NULL;
}

int64_t madi_gate_deadline(const madi_gate_t *gate)
{
    return gate->connect->deadline;
}

bool madi_gate_no_answer(const madi_gate_t *gate)
{
    return gate->connect->no_answer;
}

void madi_gate_set_quiet(madi_gate_t *gate)
{
    gate->connect->quiet = true;
}
