/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress: one round through the drivers, their descriptors, and the gates with something to send. */
#include "base/clock.h"
#include "core/conn/conn.h"
#include "core/conn/credit.h"
#include "core/connect/gate.h"
#include "core/connect/hello.h"
#include "core/driver.h"
#include "core/link/link.h"
#include "core/link/notify.h"
#include "core/link/polled.h"
#include "core/progress/progress.h"
#include "core/recv/receive.h"
#include "core/recv/short.h"

#include <string.h>
#include <sys/epoll.h>

#define POLL_BUDGET 32 /* maximum number of packets that one adapter delivers before the next one gets its turn */
#define SHORTS 16      /* maximum number of short packets that one call takes */
#define ALL_EVERY 16   /* one round in this number polls all links of an adapter */

static int poll_set(mad_session_t *session, int epfd)
{
    struct epoll_event events[16];
    int n = epoll_wait(epfd, events, 16, 0), handled = 0;
    for (int i = 0; i < n; i++) {
        madi_watch_t *watch = events[i].data.ptr;
        if (watch->fd >= 0) {
            watch->ready(watch, events[i].events);
            handled++;
        }
    }
    if (handled) /* a sleeping leader does not see these events; and packets may be left, because of the budget */
        madi_session_wake(session);
    return handled;
}

int madi_poll_descriptors(mad_session_t *session)
{
    return poll_set(session, session->epfd);
}

void madi_rare_ready(madi_watch_t *watch, uint32_t events)
{
    mad_session_t *session = MADI_CONTAINER(watch, mad_session_t, rare);
    (void)events;
    poll_set(session, session->rare_epfd);
}

/* Deliver short packets of one link.  Under session->lock. */
static void shorts_deliver(madi_link_t *link, const madi_short_t *packet, int n)
{
    int taken;
    for (const madi_short_t *end = packet + n; packet < end; packet += taken) {
        madi_conn_t *conn = madi_conn_by_remote(link->gate, (uint16_t)(packet->words[0] >> 16));
        taken = MADI_LIKELY(conn && !link->outer) ? madi_short_take(conn, packet, (int)(end - packet)) : 0;
        if (MADI_UNLIKELY(!taken)) { /* pass the packet to the general path, which may close the link */
            madi_wire_hdr_t hdr;
            memcpy(&hdr, packet, sizeof hdr);
            madi_rx_short(link, &hdr, madi_foreign_of((const char *)packet + sizeof hdr));
            if (atomic_load_explicit(&link->state, memory_order_relaxed) != MADI_LINK_UP)
                return;
            taken = 1;
        }
    }
}

int madi_poll_hit_adapter(mad_session_t *session, madi_adapter_t *adapter, int budget)
{
    madi_short_t packets[SHORTS];
    madi_link_t *link;
    int n = 0;
    if (MADI_LIKELY(adapter->driver->fast.take_short != NULL))
        n = adapter->driver->fast.take_short(adapter, packets, sizeof packets[0], budget < SHORTS ? budget : SHORTS, &link);
    if (MADI_LIKELY(n))
        shorts_deliver(link, packets, n);
    /* take_short polls one link only, so all links are polled now and then, and none starves */
    if (MADI_UNLIKELY(!n || session->ticks % ALL_EVERY == 0))
        n += adapter->driver->poll(adapter, budget);
    return n;
}

static int pump_gates(mad_session_t *session)
{
    madi_gate_t *list, *next;
    int n = 0;
    if (MADI_LIKELY(!atomic_load_explicit(&session->has_work, memory_order_relaxed)))
        return 0;
    list = madi_work_take(session);
    if (MADI_UNLIKELY(atomic_load_explicit(&session->ledger.over, memory_order_relaxed)))
        madi_ledger_enforce_all(session);
    for (; list; list = next) {
        next = madi_work_next(list);
        madi_lock(&list->tx_lock);
        madi_gate_pump(list);
        madi_unlock(&list->tx_lock);
        madi_ledger_enforce(list);
        n += madi_rdv_pull(list);
    }
    return n + atomic_load_explicit(&session->strides_left, memory_order_relaxed);
}

int madi_progress_locked(mad_session_t *session)
{
    int n = 0;
    for (int i = 0; i < session->n_adapters; i++) {
        madi_adapter_t *a = session->adapters[i];
        n += a->driver->poll(a, POLL_BUDGET);
    }
    if (!n)
        session->ticks -= MADI_LOOK_AROUND / MADI_EPOLL_EVERY - 1;
    return madi_progress_after(session, n);
}

/* Poll every adapter and every descriptor.  Called now and then, so that each gets its turn, however busy one adapter is. */
int madi_look_around(mad_session_t *session)
{
    int n = 0;
    session->ticks = MADI_LOOK_AROUND;
    session->looked = madi_now();
    for (int i = 0; i < session->n_adapters; i++)
        n += session->adapters[i]->driver->poll(session->adapters[i], POLL_BUDGET);
    n += madi_poll_descriptors(session);
    madi_hello_expire(session, session->looked);
    madi_channels_sweep(session);
    madi_peers_forget_lost(session, session->looked);
    return n;
}

int madi_progress_after(mad_session_t *session, int n)
{
    if (MADI_UNLIKELY(--session->ticks < 0))
        n += madi_look_around(session);
    if (MADI_UNLIKELY(!n && session->credit_due != NULL))
        madi_credit_send(session->credit_due);
    n += pump_gates(session);
    if (MADI_UNLIKELY(session->dead_links != NULL))
        madi_links_reap(session);
    if (n)
        madi_watchers_wake(session);
    return n;
}

bool madi_pure_poll(mad_session_t *session)
{
    return madi_poll_hit(session) || atomic_load_explicit(&session->has_work, memory_order_relaxed);
}
