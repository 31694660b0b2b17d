/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a session: drain the gates, send BYE, release everything. */
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "core/api/api.h"
#include "core/conn/channel.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/inspect/query.h"
#include "core/link/event.h"
#include "core/link/link.h"
#include "core/link/notify.h"
#include "core/link/polled.h"
#include "core/link/trace.h"
#include "core/link/usable.h"
#include "core/memory/memory.h"
#include "core/object/gate.h"
#include "core/object/session.h"
#include "core/recv/receive.h"
#include "core/security/seal.h"
#include "core/security/secret.h"
#include "core/send/send.h"
#include "core/session/session.h"
#include "core/session/session_own.h"
#include "core/wire/wire.h"

#include <stdlib.h>

static bool all_sent(void *arg)
{
    mad_session_t *s = arg;
    bool all = true;
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g && all; g = g->next) {
        if (atomic_load_explicit(&g->state, memory_order_relaxed) == MADI_GATE_DOWN)
            continue;
        madi_lock(&g->tx_lock);
        for (madi_conn_t *c = g->conns; c; c = c->next_of_gate)
            if (c->queue || c->deferred)
                all = false;
        if (madi_ctrl_waits(g) || madi_rdv_queued(g) || (!g->bye_received && !madi_rdv_none(g)))
            all = false; /* not everything has left: a block that waits for its grant was not sent.  (A peer that has sent
                          * BYE grants none.) */
        madi_unlock(&g->tx_lock);
    }
    madi_unlock(&s->lock);
    return all;
}

/* The gates to shut down: all that are up, or only those that carry no streams of other processes. */
typedef struct shutdown {
    mad_session_t *session;
    bool all;
} shutdown_t;

static bool gate_selected(const shutdown_t *p, const madi_gate_t *g)
{
    return (p->all || !g->forward) && atomic_load_explicit(&((madi_gate_t *)g)->state, memory_order_relaxed) == MADI_GATE_UP;
}

static bool gate_drained(madi_gate_t *g)
{
    return (!g->forward || g->session->forward->drained(g)) &&
           (!g->link->driver->live.drained || g->link->driver->live.drained(g->link));
}

static bool gates_drained(void *arg)
{
    const shutdown_t *p = arg;
    mad_session_t *s = p->session;
    bool all = all_sent(s);
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g && all; g = g->next)
        if (gate_selected(p, g) && !g->bye_received && !gate_drained(g))
            all = false;
    madi_unlock(&s->lock);
    return all;
}

/* Return the time one millisecond from now, or the deadline if that is earlier. */
static int64_t deadline_soon(int64_t deadline)
{
    int64_t t = madi_deadline(1000000);
    return t < deadline ? t : deadline;
}

static bool no_stream_passes(void *arg)
{
    mad_session_t *s = arg;
    bool busy;
    madi_lock(&s->lock);
    busy = s->forward->busy(s);
    madi_unlock(&s->lock);
    return !busy;
}

/* Send BYE on the selected gates, and wait until everything has left.  Return false if the deadline passes before everything
 * has left. */
static bool shutdown_gates(shutdown_t *p, int64_t deadline)
{
    mad_session_t *s = p->session;
    madi_wire_hdr_t hdr = {.type = MADI_WIRE_BYE};
    mad_status_t status;
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (gate_selected(p, g))
            madi_gate_ctrl(g, &hdr, NULL);
    madi_unlock(&s->lock);
    while ((status = madi_watch_for(s, gates_drained, p, deadline_soon(deadline))) != MAD_OK && madi_now() < deadline)
        ; /* check again soon, because an acknowledgement wakes no thread */
    return status == MAD_OK;
}

/* Shut down the gates that carry no streams of others, and wait until no stream of other processes passes through this
 * one.  Gateways that end together wait for each other's streams, so a process ends its own before it waits.  The gates
 * that carry those streams are closed last. */
static bool shutdown_own_first(mad_session_t *s, int64_t deadline)
{
    shutdown_t own = {.session = s};
    bool good = shutdown_gates(&own, deadline);
    madi_lock(&s->lock);
    for (madi_gate_t *g = s->gates; g; g = g->next)
        if (gate_selected(&own, g)) {
            madi_gate_set_quiet(g);
            madi_gate_down(g, MAD_ERR_CLOSED, "the session ends");
        }
    madi_unlock(&s->lock);
    if (madi_watch_for(s, no_stream_passes, s, madi_deadline(madi_knob_int(MADI_KNOB_FORWARD_LINGER))))
        madi_log(MADI_LOG_WARN, "core",
                 "messages of others still pass through this process as it ends (MAD_FORWARD_LINGER)");
    return good;
}

static void session_shutdown(mad_session_t *s)
{
    int64_t time = madi_knob_int(MADI_KNOB_EXIT_TIMEOUT), deadline = madi_deadline(time);
    shutdown_t all = {.session = s, .all = true};
    bool good = true;
    if (s->forward) {
        madi_lock(&s->lock);
        s->forward->leave(s);
        madi_unlock(&s->lock);
    }
    madi_watch_for(s, all_sent, s, deadline);
    if (s->forward && (good = shutdown_own_first(s, deadline)))
        deadline = madi_deadline(time);
    atomic_store_explicit(&s->closing, 1, memory_order_relaxed);
    if (!shutdown_gates(&all, deadline) || !good)
        madi_log(MADI_LOG_WARN, "core", "the session ended before everything sent had left (MAD_EXIT_TIMEOUT)");
}

static void peers_free(mad_session_t *s)
{
    madi_hellos_abort(s);
    /* second pass: gates that carry streams of other processes, so that the CLOSE of these streams can leave */
    for (int over = 0; over < 2; over++)
        for (madi_gate_t *g = s->gates; g; g = g->next)
            if ((g->forward != NULL) == over)
                madi_gate_down(g, MAD_ERR_CLOSED, "the session ends");
    madi_calls_run(s);
    if (s->coll) /* before the channels and requests that it refers to */
        s->coll_free(s);
    madi_links_reap(s);
    madi_hellos_reap(s);
    madi_conn_session_free(s);
    madi_connect_session_free(s);
    madi_stats_free(s);
}

static void memory_free(mad_session_t *s)
{
    madi_memory_session_free(s);
    madi_recv_session_fini(s);
    madi_link_session_fini(s);
    for (madi_left_out_t *l; (l = s->left_out); free(l))
        s->left_out = l->next;
    free(s->address);
    free(s->own->listeners);
    free(s->own);
    free(s->adapters);
}

/* True if there are gates.  The progress thread makes them when peers connect to a passive process, such as a gateway. */
static bool has_gates(mad_session_t *s)
{
    bool any;
    madi_lock(&s->lock);
    any = s->gates != NULL;
    madi_unlock(&s->lock);
    return any;
}

void mad_exit(mad_session_t *s)
{
    if (!s || madi_session_usable(s))
        return;
    madi_fork_forget(s);
    if (has_gates(s))
        session_shutdown(s);
    madi_wait_stop(s);
    madi_trace_write();
    madi_lock(&s->lock);
    madi_query_close(s->own->ask);
    s->own->ask = NULL;
    madi_unlock(&s->lock);
    peers_free(s);
    for (int i = 0; i < s->n_adapters; i++) {
        if (s->own->listeners && s->own->listeners[i].watch.fd >= 0)
            madi_watch_del(s, &s->own->listeners[i].watch);
        if (s->adapters[i]->opened) {
            s->adapters[i]->driver->close(s->adapters[i]);
            s->adapters[i]->driver->fini(s->adapters[i]);
        }
        free(s->adapters[i]);
    }
    madi_wait_fini(s);
    if (s->own->spare_fd >= 0)
        madi_fd_close(s->own->spare_fd);
    if (s->boot)
        madi_boot_leave(s->boot);
    memory_free(s);
    madi_seal_ctx_free(s->seal);
    madi_secrets_close(s->secrets);
    free(s);
}
