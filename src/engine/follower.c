/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that sleep while another thread leads: their lists, the choice of the next leader, the deputy. */
#include "engine/follower.h"
#include "base/clock.h"
#include "engine/park.h"
#include "engine/wait_policy.h"
#include "marcel/marcel.h"

/* ---- Lists ---------------------------------------------------------------------------------------------------- */

static void waiter_enlist(marceli_waiter_t **list, _Atomic(int) *n, marceli_waiter_t *w)
{
    madi_lock(&madi_server.lock);
    w->next_follower = *list;
    if (w->next_follower)
        w->next_follower->at_follower = &w->next_follower;
    w->at_follower = list;
    *list = w;
    atomic_fetch_add_explicit(n, 1, memory_order_seq_cst); /* counted before the caller checks whether a thread leads */
    madi_unlock(&madi_server.lock);
}

/* Called with the lock held. */
static void waiter_delist(_Atomic(int) *n, marceli_waiter_t *w)
{
    if (!w->at_follower)
        return;
    *w->at_follower = w->next_follower;
    if (w->next_follower)
        w->next_follower->at_follower = w->at_follower;
    w->at_follower = NULL;
    atomic_fetch_sub_explicit(n, 1, memory_order_relaxed);
}

static bool waiter_is_listed(const marceli_waiter_t *w)
{
    bool listed;
    madi_lock(&madi_server.lock);
    listed = w->at_follower;
    madi_unlock(&madi_server.lock);
    return listed;
}

static void waiter_wake_first(marceli_waiter_t **list, _Atomic(int) *n, bool (*may_lead)(void))
{
    marceli_waiter_t *w;
    madi_lock(&madi_server.lock);
    w = *list;
    if (w && may_lead()) {
        waiter_delist(n, w);
        marceli_waiter_wake(w); /* w still exists: its thread takes the lock before it leaves */
    }
    madi_unlock(&madi_server.lock);
}

bool madi_leader_may_return(void)
{
    int workers = atomic_load_explicit(&madi_marcel.n_workers, memory_order_relaxed);
    return madi_oversubscribed(madi_server_processes(), workers > 2 ? workers : 2) &&
           madi_now() >= atomic_load_explicit(&madi_server.prompt_until, memory_order_relaxed);
}

void madi_leader_wanted(void)
{
    if (atomic_load_explicit(&madi_server.n_followers, memory_order_seq_cst))
        waiter_wake_first(&madi_server.followers, &madi_server.n_followers, madi_follower_may_lead);
    else if (atomic_load_explicit(&madi_server.n_idle, memory_order_seq_cst) && madi_other_may_lead() &&
             !(atomic_load_explicit(&madi_server.deputy, memory_order_seq_cst) && madi_leader_may_return()))
        waiter_wake_first(&madi_server.idle, &madi_server.n_idle, madi_other_may_lead);
}

void madi_leader_wanted_elsewhere(madi_worker_t *worker)
{
    if (worker->n_near && atomic_load_explicit(&madi_server.blocked, memory_order_relaxed) &&
        atomic_load_explicit(&madi_server.leader, memory_order_seq_cst) == MADI_LED_BY_NOBODY)
        madi_leader_wanted();
}

/* ---- The deputy ----------------------------------------------------------------------------------------------- */

static uint64_t leader_terms_count(void)
{
    return atomic_load_explicit(&madi_server.terms, memory_order_relaxed);
}

bool madi_deputy_become(madi_waiting_t *w)
{
    w->deputy = w->deputy || !atomic_exchange_explicit(&madi_server.deputy, 1, memory_order_seq_cst);
    w->terms = leader_terms_count();
    return w->deputy;
}

void madi_deputy_resign(madi_waiting_t *w)
{
    if (w->deputy)
        atomic_store_explicit(&madi_server.deputy, 0, memory_order_seq_cst);
    w->deputy = false;
}

/* Called when the deputy wakes: it leads if no thread has led since it fell asleep.  If that happens often, idle workers
 * are woken immediately for a while. */
static void deputy_check(madi_waiting_t *w)
{
    static _Atomic(int) returns;
    int n = atomic_load_explicit(&returns, memory_order_relaxed);
    if (leader_terms_count() != w->terms) {
        n += n < MADI_RETURNS_KEPT;
    } else if (madi_other_may_lead()) {
        w->defers = false;
        n -= MADI_RETURNS_OF_ONE;
    }
    if (n < 0) {
        n = 0;
        atomic_store_explicit(&madi_server.prompt_until, madi_now() + MADI_DEPUTY_BAN_NS, memory_order_relaxed);
    }
    atomic_store_explicit(&returns, n, memory_order_relaxed);
}

/* True if the thread is to sleep as the deputy: no thread leads though threads wait, or other threads have led and left
 * since its last check. */
static bool deputy_is_needed(madi_waiting_t *w)
{
    bool others_came = w->deputy && leader_terms_count() != w->terms;
    madi_deputy_resign(w); /* must precede the check for a leader: a leader that leaves checks for a deputy afterwards */
    return w->defers && (madi_other_may_lead() || others_came) && madi_deputy_become(w);
}

/* ---- Sleep ---------------------------------------------------------------------------------------------------- */

bool madi_may_follow(const madi_waiting_t *w)
{
    if (!madi_server_is_open() || (w->defers && madi_leader_may_return()))
        return true;
    return madi_waits_itself(w) ? !madi_follower_may_lead() : !madi_other_may_lead();
}

/* Sleep until an event or a wake-up.  As the deputy, sleep again as long as other threads lead now and then. */
static void worker_follow(madi_waiting_t *w)
{
    int64_t now, until;
    do {
        until = w->deadline;
        if (deputy_is_needed(w) && (now = madi_now()) < until - MADI_DEPUTY_NS)
            until = now + MADI_DEPUTY_NS;
        if (w->test(w->arg) || !madi_may_follow(w))
            return;
        /* a thread asleep here does not lead; madi_leader_wanted wakes it if user-level threads wait */
        madi_progress_leave(false);
        madi_park(w->waiter, until);
        madi_progress_enter();
        w->defers = true;
        if (until == w->deadline || madi_now() < until)
            return;
        deputy_check(w);
    } while (w->defers && waiter_is_listed(w->waiter) && madi_worker_is_idle(w->worker));
}

void madi_follow(madi_waiting_t *w)
{
    marceli_waiter_t **list = w->worker ? &madi_server.idle : &madi_server.followers;
    _Atomic(int) *n = w->worker ? &madi_server.n_idle : &madi_server.n_followers;
    if (w->worker)
        madi_worker_sleeps(w->worker, true);
    waiter_enlist(list, n, w->waiter); /* a leader that leaves after this finds the waiter */
    if (!w->worker) {
        if (madi_may_follow(w))
            madi_park(w->waiter, w->deadline);
    } else {
        worker_follow(w);
    }
    madi_lock(&madi_server.lock);
    waiter_delist(n, w->waiter);
    madi_unlock(&madi_server.lock);
    if (w->worker)
        madi_worker_awake(w->worker);
}
