/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait for the session: watchers of conditions, and the leader that polls for all. */
#include "core/driver.h"
#include "core/link/notify.h"

mad_status_t madi_watch_for(mad_session_t *session, bool (*test)(void *arg), void *arg, int64_t deadline)
{
    marceli_waiter_t w;
    bool good;
    marceli_waiter_init(&w);
    madi_lock(&session->link.wait_lock);
    marceli_waiters_add(&session->link.watchers, &w);
    atomic_fetch_add_explicit(&session->link.n_watchers, 1, memory_order_relaxed);
    madi_unlock(&session->link.wait_lock);
    marceli_barrier(); /* pairs with madi_watchers_wake */
    good = marceli_wait(&w, test, arg, deadline);
    madi_lock(&session->link.wait_lock);
    marceli_waiters_del(&w);
    atomic_fetch_sub_explicit(&session->link.n_watchers, 1, memory_order_relaxed);
    madi_unlock(&session->link.wait_lock);
    return good ? MAD_OK : MAD_ERR_TIMEOUT;
}

void madi_watchers_wake(mad_session_t *session)
{
    marceli_barrier_light(); /* pairs with madi_watch_for */
    if (MADI_LIKELY(!atomic_load_explicit(&session->link.n_watchers, memory_order_relaxed)))
        return;
    madi_lock(&session->link.wait_lock);
    marceli_waiters_wake_all(&session->link.watchers);
    madi_unlock(&session->link.wait_lock);
}

void madi_session_wake(mad_session_t *session)
{
    (void)session; /* one leader polls for all */
    marceli_leader_wake();
}

bool madi_session_oversubscribed(const mad_session_t *session)
{
    return marceli_oversubscribed(session->processes);
}
