/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a gate and its links, and the order in which a gate sends.  search.c finds the path. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "core/conn/channel.h"
#include "core/conn/conn.h"
#include "core/conn/rx_pool.h"
#include "core/connect/connect_gate.h"
#include "core/connect/connect_session.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/paths.h"
#include "core/connect/peer.h"
#include "core/connect/search.h"
#include "core/driver.h"
#include "core/link/event.h"
#include "core/link/ledger.h"
#include "core/link/link.h"
#include "core/link/notify.h"
#include "core/link/usable.h"
#include "core/object/gate.h"
#include "core/recv/receive.h"
#include "core/security/seal.h"
#include "core/send/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Up and down ---------------------------------------------------------------------------------------------- */

void madi_link_up(madi_link_t *link)
{
    madi_gate_t *gate = link->gate;
    char why[MADI_WHY_MAX];
    if (link->outer) {
        link->outer->driver->upcalls->link_up(link);
        return;
    }
    if (gate->rail_of) {
        gate->session->rails->join(link);
        return;
    }
    atomic_store_explicit(&link->state, MADI_LINK_UP, memory_order_relaxed);
    gate->connect->adapter = link->adapter;
    gate->link = gate->rails_number ? gate->session->rails->wrap(link) : link;
    if (!gate->link) {
        gate->link = link;
        madi_gate_down(gate, MAD_ERR_NOMEM, "no memory for rails");
        return;
    }
    madi_gate_why(gate, why);
    madi_log(MADI_LOG_INFO, link->driver->name, "peer %d: %s", gate->peer, why);
    madi_lock(&gate->tx_lock);
    atomic_store_explicit(&gate->state, MADI_GATE_UP, memory_order_release); /* pairs with gate_usable */
    madi_unlock(&gate->tx_lock);
    madi_search_free(gate);
    madi_peer_proved(gate->session, gate->peer, false);
    madi_gate_work(gate);
    if (gate->session->forward)
        gate->session->forward->up(gate);
}

/* Free closed links whose loans are back.  Not to be called from inside a driver. */
void madi_links_reap(mad_session_t *session)
{
    madi_link_t **p = &session->dead_links, *link;
    while ((link = *p)) {
        if (atomic_load_explicit(&link->loans, memory_order_acquire) &&
            !atomic_load_explicit(&session->closing, memory_order_relaxed)) {
            p = &link->next_dead;
            continue;
        }
        *p = link->next_dead;
        if (link->gate->link == link)
            link->gate->link = NULL;
        link->driver->link_fini(link);
        madi_seal_free(link->seal);
        free(link);
    }
}

static madi_link_t *no_adapter_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    (void)adapter;
    (void)packet;
    (void)loan;
    return NULL;
}

static const madi_driver_t no_driver = {.name = "none", .fast.take = no_adapter_take};
madi_adapter_t madi_no_adapter = {.driver = &no_driver};

void madi_link_bury(madi_link_t *link)
{
    mad_session_t *s = link->gate->session;
    if (s->last_hit == link->adapter)
        s->last_hit = &madi_no_adapter;
    atomic_store_explicit(&link->state, MADI_LINK_DOWN, memory_order_relaxed);
    if (link->driver->frames.frame_send)
        madi_hello_unlink(link);
    if (link->driver->link_close)
        link->driver->link_close(link);
    if (link->gate->link == link)
        madi_rx_abandon(link->gate);
    link->next_dead = s->dead_links;
    s->dead_links = link;
}

/* Report the loss to the log and the program, with the name of the lane if there is one. */
static void gate_report_down(madi_gate_t *gate, mad_status_t status, const char *text)
{
    mad_session_t *s = gate->session;
    const char *on = gate->lane ? " on " : "", *name = gate->lane ? s->forward->lane_name(s, gate->lane) : "";
    bool quiet = gate->connect->quiet || gate->bye_received || atomic_load_explicit(&s->closing, memory_order_relaxed);
    madi_log_level_t level = gate->connect->quiet           ? MADI_LOG_INFO
                             : gate->status == MAD_ERR_PEER ? MADI_LOG_WARN
                                                            : MADI_LOG_ERROR;
    if ((!quiet || gate->connect->quiet) && madi_ledger_line(s, level))
        madi_log(level, "core", "peer %d%s%s: %s: %s", gate->peer, on, name, mad_status_text(status), text);
    /* a lane that is only for streams carries no message of this process, so no event is reported */
    if (!quiet && !madi_lane_carries(s, gate->lane))
        madi_event(s, gate->status, gate->peer, "peer %d%s%s: %s: %.180s", gate->peer, on, name, mad_status_text(status),
                   text);
}

/* Take a gate down, in this order.  The peer is severed from memory that returns to the program.  Sending is stopped.
 * Messages to be sent fail, then those to be received.  The link is closed; its ops complete without the tx lock, and find
 * their blocks failed.  Finally the program gets an event. */
void madi_gate_down(madi_gate_t *gate, mad_status_t status, const char *text)
{
    mad_session_t *s = gate->session;
    char why[MADI_WHY_MAX];
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN)
        return;
    gate->status =
        gate->bye_received && status != MAD_ERR_CLOSED ? MAD_ERR_PEER : status; /* CLOSED: this process has ended the gate */
    gate->connect->deadline = madi_now();
    gate->connect->process = 0;
    if (!text)
        madi_gate_why(gate, why);
    else if (gate->link)
        madi_peer_path_failed(gate, madi_gate_link_adapter(gate), text);
    text = text ? text : why;
    if (gate->link && gate->link->driver->direct.sever)
        gate->link->driver->direct.sever(gate->link);
    madi_lock(&gate->tx_lock);
    atomic_store_explicit(&gate->state, MADI_GATE_DOWN, memory_order_release); /* pairs with gate_usable */
    madi_ctrl_forget(gate);
    for (madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate)
        madi_conn_fail(conn, gate->status);
    madi_rdv_fail_all(gate, gate->status);
    madi_unlock(&gate->tx_lock);
    madi_rdv_recv_fail(gate, gate->status);
    for (madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate) {
        madi_rx_fail(conn, gate->status);
        marceli_waiters_wake_all(&conn->openers);
    }
    if (s->gate_lost)
        s->gate_lost(gate);
    madi_hello_abort_all(gate);
    madi_search_free(gate);
    if (gate->forward)
        s->forward->down(gate, text);
    if (gate->link && atomic_load_explicit(&gate->link->state, memory_order_relaxed) != MADI_LINK_DOWN)
        madi_link_bury(gate->link);
    gate_report_down(gate, status, text);
    if (!s->connect->forget_at)
        s->connect->forget_at = madi_deadline(MADI_FORGET_NS);
    madi_watchers_wake(s);
    if (gate->rail_of)
        s->rails->failed(gate);
}

void madi_gate_time_out(madi_gate_t *gate)
{
    madi_peer_path_time_out(gate);
    gate->connect->no_answer = true;
    madi_gate_down(gate, MAD_ERR_PEER, NULL);
}

void madi_link_down(madi_link_t *link, mad_status_t status, const char *text)
{
    madi_gate_t *gate = link->gate;
    int state = atomic_load_explicit(&link->state, memory_order_relaxed);
    if (state == MADI_LINK_DOWN)
        return;
    if (link->outer) {
        link->outer->driver->upcalls->link_down(link, status, text);
        return;
    }
    if (state == MADI_LINK_CONNECTING && link->driver->frames.frame_send && madi_hello_lost(link, status, text))
        return;
    if (status == MAD_ERR_CANCELLED || (gate->link && gate->link != link) ||
        atomic_load_explicit(&gate->state, memory_order_relaxed) == MADI_GATE_DOWN) {
        /* the link is not needed any more: another attempt was chosen, or the gate is down */
        madi_link_bury(link);
        return;
    }
    if (state == MADI_LINK_CONNECTING) {
        madi_search_failed(gate, link, status, text);
        return;
    }
    madi_gate_down(gate, status, text);
}

/* ---- Sending -------------------------------------------------------------------------------------------------- */

/* Send fragments of streams, before or after the messages of this process.  Streams and messages take turns, so that
 * neither waits for ever. */
static void forward_pump(madi_gate_t *gate, bool first)
{
    if (gate->forward && gate->connect->forward_first == first)
        gate->session->forward->pump(gate);
}

/* Send everything that waits for this peer, in this order: control packets, granted blocks, messages.  Fragments are
 * sent before or after the messages. */
void madi_gate_pump(madi_gate_t *gate)
{
    bool again;
    if (atomic_load_explicit(&gate->state, memory_order_relaxed) != MADI_GATE_UP)
        return;
    if (gate->rails)
        gate->session->rails->pump(gate);
    if (!madi_ctrl_pump(gate)) {
        madi_gate_work(gate);
        return;
    }
    forward_pump(gate, true);
    again = !madi_rdv_pump(gate) && madi_rdv_goes_on(gate);
    if (madi_pending_pump(gate))
        again = false; /* that has called madi_gate_work */
    forward_pump(gate, false);
    gate->connect->forward_first = !gate->connect->forward_first;
    if (again)
        madi_gate_work(gate);
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
