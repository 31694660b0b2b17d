/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait, each woken by itself: where they stand, how they sleep, how they are woken.
 *
 * Why no wake-up is lost: a waiter's word says whether it runs, sleeps, or was woken.  It stands where changes find it
 * before it looks for the last time; it goes to sleep only if its word says RUNNING all along; who wakes it writes WOKEN,
 * and does what brings it back if it slept. */
#include "core/core.h"
#include "base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void madi_waiter_init(madi_waiter_t *w, mad_session_t *session)
{
    *w = (madi_waiter_t){.session = session};
}

void madi_waiter_wake(madi_waiter_t *w)
{
    mad_session_t *session = w->session; /* read now: w is gone when it is woken and finds what it wanted */
    switch (atomic_exchange_explicit(&w->word, MADI_WOKEN, memory_order_seq_cst)) {
    case MADI_ASLEEP: syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); break;
    case MADI_LEADS_ASLEEP: madi_session_moved(session); break;
    default: break;
    }
}

void madi_waiter_add(madi_waiters_t *list, madi_waiter_t *w)
{
    w->list = list;
    w->next = NULL;
    w->prev = list->last;
    *(w->prev ? &w->prev->next : &list->first) = w;
    list->last = w;
}

void madi_waiter_del(madi_waiter_t *w)
{
    *(w->prev ? &w->prev->next : &w->list->first) = w->next;
    *(w->next ? &w->next->prev : &w->list->last) = w->prev;
    w->list = NULL;
}

bool madi_waiters_wake_one(madi_waiters_t *list)
{
    madi_waiter_t *w = list->first;
    if (w)
        atomic_thread_fence(memory_order_seq_cst); /* who was woken before looks after its word says RUNNING */
    while (w && atomic_load_explicit(&w->word, memory_order_relaxed) == MADI_WOKEN)
        w = w->next;
    if (w)
        madi_waiter_wake(w);
    return w != NULL;
}

void madi_waiters_wake_all(madi_waiters_t *list)
{
    for (madi_waiter_t *w = list->first; w; w = w->next)
        madi_waiter_wake(w);
}

/* ---- Watchers ------------------------------------------------------------------------------------------------- */

void madi_watcher_add(madi_waiter_t *w)
{
    mad_session_t *session = w->session;
    madi_lock(&session->wait_lock);
    madi_waiter_add(&session->watchers, w);
    atomic_fetch_add_explicit(&session->n_watchers, 1, memory_order_relaxed);
    madi_unlock(&session->wait_lock);
    madi_barrier(); /* pairs with madi_watchers_wake */
}

void madi_watcher_del(madi_waiter_t *w)
{
    mad_session_t *session = w->session;
    madi_lock(&session->wait_lock);
    madi_waiter_del(w);
    atomic_fetch_sub_explicit(&session->n_watchers, 1, memory_order_relaxed);
    madi_unlock(&session->wait_lock);
}

void madi_watchers_wake(mad_session_t *session)
{
    madi_barrier_light(); /* pairs with madi_watcher_add */
    if (MADI_LIKELY(!atomic_load_explicit(&session->n_watchers, memory_order_relaxed)))
        return;
    madi_lock(&session->wait_lock);
    madi_waiters_wake_all(&session->watchers);
    madi_unlock(&session->wait_lock);
}

/* ---- Followers ------------------------------------------------------------------------------------------------ */

static void follower_add(mad_session_t *session, madi_waiter_t *w)
{
    madi_lock(&session->wait_lock);
    w->next_follower = session->followers;
    if (w->next_follower)
        w->next_follower->at_follower = &w->next_follower;
    w->at_follower = &session->followers;
    session->followers = w;
    atomic_fetch_add_explicit(&session->n_followers, 1, memory_order_seq_cst); /* before it looks for the leader */
    madi_unlock(&session->wait_lock);
}

/* Under wait_lock. */
static void follower_del(mad_session_t *session, madi_waiter_t *w)
{
    if (!w->at_follower)
        return;
    *w->at_follower = w->next_follower;
    if (w->next_follower)
        w->next_follower->at_follower = w->at_follower;
    w->at_follower = NULL;
    atomic_fetch_sub_explicit(&session->n_followers, 1, memory_order_relaxed);
}

/* False: the deadline has passed. */
static bool doze(_Atomic(uint32_t) *word, int64_t deadline)
{
    int64_t left = deadline == INT64_MAX ? 0 : deadline - madi_now();
    struct timespec t = {left / 1000000000, left % 1000000000};
    if (left < 0)
        return false;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, MADI_ASLEEP, deadline == INT64_MAX ? NULL : &t, NULL, 0);
    return true;
}

void madi_waiter_sleep(madi_waiter_t *w, int64_t deadline)
{
    mad_session_t *session = w->session;
    uint32_t running = MADI_RUNNING;

    follower_add(session, w); /* a leader that leaves from here on finds it */
    if (atomic_load_explicit(&session->leader, memory_order_seq_cst) != MADI_LED_BY_NOBODY &&
        atomic_compare_exchange_strong_explicit(&w->word, &running, MADI_ASLEEP, memory_order_seq_cst,
                                                memory_order_relaxed))
        while (atomic_load_explicit(&w->word, memory_order_relaxed) == MADI_ASLEEP && doze(&w->word, deadline))
            ;
    madi_lock(&session->wait_lock);
    follower_del(session, w);
    madi_unlock(&session->wait_lock);
    atomic_exchange_explicit(&w->word, MADI_RUNNING, memory_order_seq_cst); /* before it looks */
}

void madi_followers_wake(mad_session_t *session)
{
    madi_waiter_t *w;
    if (MADI_LIKELY(!atomic_load_explicit(&session->n_followers, memory_order_seq_cst)))
        return;
    madi_lock(&session->wait_lock);
    w = session->followers;
    if (w && atomic_load_explicit(&session->leader, memory_order_relaxed) == MADI_LED_BY_NOBODY) {
        follower_del(session, w);
        madi_waiter_wake(w); /* it cannot leave meanwhile: it takes the lock first */
    }
    madi_unlock(&session->wait_lock);
}
