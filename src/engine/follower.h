/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits that sleep while another thread leads, and how a sleeping thread becomes the leader.  For leader.c and
 * follower.c. */
#ifndef MADI_FOLLOWER_H
#define MADI_FOLLOWER_H

#include "engine/leader.h"

/* State of one wait.  The state lies on the stack of the waiting thread; no other thread uses it. */
typedef struct madi_waiting {
    marceli_waiter_t *waiter;
    bool (*test)(void *arg);
    void *arg;
    int64_t deadline, spin_ns, yield_ns; /* ns; the deadline is a time of madi_now */
    madi_worker_t *worker; /* the idle worker that waits on its own stack; NULL if another kernel thread waits */
    bool leads;
    bool for_others; /* no thread of this worker waits: the worker leads for threads of others */
    bool runs;       /* the wait is the progress thread's, which exists to run the program's calls */
    bool claims;     /* counted in madi_server.claimants */
    bool defers;     /* this thread leads only if no other thread has led for a while */
    bool deputy;
    uint64_t terms; /* value of madi_server.terms when this thread became the deputy */
} madi_waiting_t;

/* True if the thread that waits runs on this kernel thread, which a leader on another one would have to wake. */
static inline bool madi_waits_itself(const madi_waiting_t *w)
{
    return !w->worker || w->worker->waiting;
}

static inline int madi_server_processes(void)
{
    return atomic_load_explicit(&madi_server.processes, memory_order_relaxed);
}

/* True if categories may exist.  Before the first one there is nothing to poll, and no epoll set. */
static inline bool madi_server_is_open(void)
{
    return atomic_load_explicit(&madi_server.epfd, memory_order_acquire) >= 0; /* pairs with server_start */
}

static inline int madi_led_by(void)
{
    return atomic_load_explicit(&madi_server.leader, memory_order_seq_cst);
}

/* True if no thread leads, or if the leader gives way to a thread that waits itself. */
static inline bool madi_follower_may_lead(void)
{
    int leader = madi_led_by();
    return leader == MADI_LED_BY_NOBODY || leader == MADI_LED_BY_OTHER;
}

/* True if a worker none of whose threads waits should lead.  False while a thread claims the lead: that thread will lead,
 * or call madi_leader_wanted. */
static inline bool madi_other_may_lead(void)
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_seq_cst) && madi_led_by() == MADI_LED_BY_NOBODY &&
           !atomic_load_explicit(&madi_server.claimants, memory_order_seq_cst);
}

#pragma GCC visibility push(hidden)

/* If no thread leads, wake one sleeping thread to lead.  The first choice is a thread that waits itself, which no other
 * thread would serve; otherwise an idle worker, if user-level threads of other workers wait. */
void madi_leader_wanted(void);
/* True if the last leader is likely to wait again soon, so that no other thread is woken yet.  A leader is likely to
 * return on oversubscribed cores, where a wake-up costs as much as a message, unless leaders recently failed to return. */
bool madi_leader_may_return(void);
/* True if the thread may sleep: another thread leads, or no thread has to lead. */
bool madi_may_follow(const madi_waiting_t *w);
/* Sleep behind a leader until woken (to lead, or for the waiter's own event), or until the deadline.  The thread has no
 * claim to the lead. */
void madi_follow(madi_waiting_t *w);
/* Become the deputy; return false if another thread is the deputy.  madi_deputy_resign has no effect if the thread is not
 * the deputy. */
bool madi_deputy_become(madi_waiting_t *w);
void madi_deputy_resign(madi_waiting_t *w);

#pragma GCC visibility pop

#endif
