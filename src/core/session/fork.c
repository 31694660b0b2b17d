/* SPDX-License-Identifier: BSD-3-Clause */
/* Fork.  A child has copies of its parent's sessions, and none of its threads.  Peers would take packets of the child for
 * packets of the parent, so the child cannot use these sessions.  Before fork returns in the child, every gate is down,
 * every channel is closed, and no adapter is left.  So calls of the child fail by the checks that every call makes
 * anyhow, and the short paths need no check for a fork.  The descriptors are closed, and the shared memory is gone
 * (base/own.h).  The memory of the sessions is not freed, because ending a session would send packets.
 *
 * fork first takes the locks of all sessions, so that no other thread is changing what the child walks through.  A tx_lock
 * that another thread holds protects only what the child does not read. */
#include "base/knob.h"
#include "base/log.h"
#include "core/conn/channel.h"
#include "core/connect/gate.h"
#include "core/connect/peer.h"
#include "core/link/polled.h"
#include "core/link/trace.h"
#include "core/object/channel.h"
#include "core/object/gate.h"
#include "core/object/message.h"
#include "core/object/rx.h"
#include "core/object/tx.h"
#include "core/send/send.h"
#include "core/session/session.h"
#include "core/session/session_own.h"

#include <pthread.h>
#include <sched.h>

/* maximum number of attempts to lock a session, since a signal handler that forks may have interrupted the lock's holder */
#define TRIES 100000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the list; taken before every session's lock */
static mad_session_t *all;

/* ---- In the child ----------------------------------------------------------------------------------------------- */

static void tx_lose(madi_tx_t *tx)
{
    madi_message_fail(&tx->base, MAD_ERR_FORKED);
    tx->all_sent = true;
    tx->queued = false;
    tx->rdv_pending = 0;
}

/* Reset a connection in the child, where the threads that pack or wait do not exist. */
static void conn_lose(madi_conn_t *conn)
{
    for (madi_tx_t *tx = conn->queue; tx; tx = tx->next)
        tx_lose(tx);
    if (conn->spare)
        tx_lose(conn->spare);
    conn->queue = conn->deferred = NULL;
    conn->queue_tail = &conn->queue;
    conn->deferred_tail = &conn->deferred;
    conn->fast_credits = conn->credit_left = 0;
    conn->fast_hdr = 0;
    conn->ready = NULL;
    conn->packers = conn->openers = (marceli_waiters_t){0};
    atomic_store_explicit(&conn->waiting, 0, memory_order_relaxed);
}

static void gate_lose(madi_gate_t *gate)
{
    atomic_store_explicit(&gate->tx_lock.held, 0, memory_order_relaxed);
    gate->status = MAD_ERR_FORKED;
    atomic_store_explicit(&gate->state, MADI_GATE_DOWN, memory_order_relaxed);
    gate->link = NULL;
    madi_send_gate_lose(gate, tx_lose);
    for (madi_conn_t *conn = gate->conns; conn; conn = conn->next_of_gate)
        conn_lose(conn);
}

static void message_lose(madi_rx_msg_t *m)
{
    m->lost = true;
    m->waiter = NULL;
    atomic_store_explicit(&m->rdv_pending, 0, memory_order_relaxed);
    madi_message_fail(&m->base, MAD_ERR_FORKED);
}

/* Make the lookup of connections fail, so that every call checks whether the channel is closed. */
static void channel_lose(mad_channel_t *channel)
{
    madi_conn_array_t *a = atomic_load_explicit(&channel->conns, memory_order_relaxed);
    atomic_store_explicit(&channel->closed, 1, memory_order_relaxed);
    for (uint32_t i = 0; i <= a->mask; i++)
        atomic_store_explicit(&a->at[i], madi_conn_nobody(i), memory_order_relaxed);
    /* any value except 0 makes mad_channel_poll test further, and find the channel closed */
    atomic_store_explicit(&channel->n_ready, 1, memory_order_relaxed);
    channel->ready = NULL;
    channel->openers = (marceli_waiters_t){0};
}

static void session_lose(mad_session_t *s)
{
    s->forked = true;
    s->n_adapters = 0;
    s->last_hit = &madi_no_adapter;
    s->epfd = s->rare_epfd = s->own->spare_fd = -1;
    s->dead_links = NULL;
    atomic_store_explicit(&s->has_work, 0, memory_order_relaxed);
    atomic_store_explicit(&s->has_calls, 0, memory_order_relaxed);
    for (mad_channel_t *c = s->channels; c; c = c->next)
        channel_lose(c);
    for (madi_gate_t *g = s->gates; g; g = g->next)
        gate_lose(g);
    madi_link_session_lose(s);
    madi_connect_session_lose(s);
    for (madi_rx_msg_t *m = s->rx_ring; m; m = m->ring != s->rx_ring ? m->ring : NULL)
        if (atomic_load_explicit(&m->used, memory_order_relaxed))
            message_lose(m);
    atomic_store_explicit(&s->work_lock.held, 0, memory_order_relaxed);
    atomic_store_explicit(&s->lock.held, 0, memory_order_relaxed);
}

static void fork_in_child(void)
{
    for (mad_session_t *s = all; s; s = s->own->next)
        session_lose(s);
    all = NULL;
    pthread_mutex_init(&lock, NULL);
    madi_trace_forked();
}

/* ---- In the parent ---------------------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
    pthread_mutex_lock(&lock);
    for (mad_session_t *s = all; s; s = s->own->next) {
        s->own->held_by_fork = false;
        for (int i = 0; i < TRIES && !s->own->held_by_fork; i++) {
            s->own->held_by_fork = madi_trylock(&s->lock);
            if (!s->own->held_by_fork)
                sched_yield();
        }
    }
}

static void fork_in_parent(void)
{
    for (mad_session_t *s = all; s; s = s->own->next)
        if (s->own->held_by_fork)
            madi_unlock(&s->lock);
    pthread_mutex_unlock(&lock);
}

static void forks_watch(void)
{
    pthread_atfork(fork_prepare, fork_in_parent, fork_in_child);
}

void madi_fork_watch(mad_session_t *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, forks_watch);
    pthread_mutex_lock(&lock);
    s->own->next = all;
    all = s;
    pthread_mutex_unlock(&lock);
}

void madi_fork_forget(mad_session_t *s)
{
    pthread_mutex_lock(&lock);
    for (mad_session_t **p = &all; *p; p = &(*p)->own->next)
        if (*p == s) {
            *p = s->own->next;
            break;
        }
    pthread_mutex_unlock(&lock);
}
