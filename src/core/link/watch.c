/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll set of a session: watched descriptors, and adapters that have had a link. */
#include "core/driver.h"
#include "core/link/event.h"
#include "core/link/polled.h"

#include <stdlib.h>
#include <sys/epoll.h>

static int set_of(const mad_session_t *session, const madi_watch_t *watch)
{
    return watch->rare ? session->rare_epfd : session->epfd;
}

static mad_status_t watch_add(mad_session_t *session, madi_watch_t *watch, uint32_t events, bool rare)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    watch->rare = rare;
    if (epoll_ctl(set_of(session, watch), EPOLL_CTL_ADD, watch->fd, &e))
        return MAD_ERR_SYSTEM;
    session->link.carriers += watch->carries;
    return MAD_OK;
}

mad_status_t madi_watch_add(mad_session_t *session, madi_watch_t *watch, uint32_t events)
{
    return watch_add(session, watch, events, false);
}

mad_status_t madi_watch_add_rare(mad_session_t *session, madi_watch_t *watch, uint32_t events)
{
    return watch_add(session, watch, events, true);
}

void madi_watch_change(mad_session_t *session, madi_watch_t *watch, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = watch};
    epoll_ctl(set_of(session, watch), EPOLL_CTL_MOD, watch->fd, &e);
}

void madi_watch_del(mad_session_t *session, madi_watch_t *watch)
{
    epoll_ctl(set_of(session, watch), EPOLL_CTL_DEL, watch->fd, NULL);
    session->link.carriers -= watch->carries;
}

/* Add an adapter to those that are polled.  The array has room for all adapters; readers hold no lock. */
void madi_adapter_polled(madi_adapter_t *adapter)
{
    mad_session_t *session = adapter->session;
    int n = atomic_load_explicit(&session->link.n_polled, memory_order_relaxed);
    if (!adapter->driver->wait.pure_poll)
        return;
    for (int i = 0; i < n; i++)
        if (session->link.polled[i] == adapter)
            return;
    session->link.polled[n] = adapter;
    atomic_store_explicit(&session->link.n_polled, n + 1, memory_order_release); /* pairs with madi_poll_hit */
}

/* From now on poll the adapters behind this one first, because pure_poll of this adapter was wrong.  A driver that can test
 * only by a system call lets pure_poll guess.  Without this change of order, an adapter of such a driver would keep the
 * others from being polled. */
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter)
{
    int n = atomic_load_explicit(&session->link.n_polled, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (session->link.polled[i] == adapter)
            atomic_store_explicit(&session->link.poll_first, i + 1, memory_order_relaxed);
}

int madi_watched_carriers(const mad_session_t *session)
{
    return session->link.carriers;
}

/* ---- Part of a session ---------------------------------------------------------------------------------------- */

void madi_link_session_init(mad_session_t *session)
{
    session->link.events_tail = &session->link.events;
}

mad_status_t madi_link_session_start(mad_session_t *session)
{
    session->link.polled = calloc((size_t)session->n_adapters + 1, sizeof *session->link.polled);
    return session->link.polled ? MAD_OK : MAD_ERR_NOMEM;
}

void madi_link_session_lose(mad_session_t *session)
{
    atomic_store_explicit(&session->link.n_polled, 0, memory_order_relaxed);
    session->link.work = NULL;
    session->link.watchers = (marceli_waiters_t){0};
    atomic_store_explicit(&session->link.n_watchers, 0, memory_order_relaxed);
    atomic_store_explicit(&session->link.wait_lock.held, 0, memory_order_relaxed);
}

void madi_link_session_fini(mad_session_t *session)
{
    madi_events_free(session);
    free(session->link.polled);
}
