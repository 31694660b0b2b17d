/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll set of a session: watched descriptors, and adapters that have had a link. */
#include "core/driver.h"
#include "core/link/polled.h"

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
    session->carriers += watch->carries;
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
    session->carriers -= watch->carries;
}

/* Add an adapter to those that are polled.  The array has room for all adapters; readers hold no lock. */
void madi_adapter_polled(madi_adapter_t *adapter)
{
    mad_session_t *session = adapter->session;
    int n = atomic_load_explicit(&session->n_polled, memory_order_relaxed);
    if (!adapter->driver->wait.pure_poll)
        return;
    for (int i = 0; i < n; i++)
        if (session->polled[i] == adapter)
            return;
    session->polled[n] = adapter;
    atomic_store_explicit(&session->n_polled, n + 1, memory_order_release); /* pairs with madi_poll_hit */
}

/* Have the adapters behind this one polled first from now on: pure_poll of this one was wrong.  If it guesses, since only
 * a system call could tell, the others would never be polled. */
void madi_poll_missed(mad_session_t *session, const madi_adapter_t *adapter)
{
    int n = atomic_load_explicit(&session->n_polled, memory_order_relaxed);
    for (int i = 0; i < n; i++)
        if (session->polled[i] == adapter)
            atomic_store_explicit(&session->poll_first, i + 1, memory_order_relaxed);
}

int madi_watched_carriers(const mad_session_t *session)
{
    return session->carriers;
}
