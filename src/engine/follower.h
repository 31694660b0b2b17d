/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits that sleep while another thread leads, and how a sleeping thread comes to lead.  For leader.c and follower.c. */
#ifndef MADI_FOLLOWER_H
#define MADI_FOLLOWER_H

#include "engine/leader.h"

/* State of one wait, on the stack of the waiting thread, which alone uses it. */
typedef struct madi_waiting {
    marceli_waiter_t *waiter;
    bool (*test)(void *arg);
    void *arg;
    int64_t deadline, spin_ns, yield_ns; /* ns; the deadline is madi_now's */
    madi_worker_t *worker; /* the idle worker that waits on its own stack; NULL if another kernel thread waits */
    bool leads;
    bool for_others; /* no thread of this worker waits: it leads for those of other workers */
    bool runs;       /* the progress thread: running the program's calls is its purpose */
    bool claims;     /* counted in madi_server.claimants */
    bool defers;     /* leads only if no thread has done so for a while */
    bool deputy;
    uint64_t terms; /* madi_server.terms when it became the deputy */
} madi_waiting_t;

/* True if a thread waits here that a leader elsewhere would have to wake. */
static inline bool madi_waits_itself(const madi_waiting_t *w)
{
    return !w->worker || w->worker->waiting;
}

static inline int madi_server_processes(void)
{
    return atomic_load_explicit(&madi_server.processes, memory_order_relaxed);
}

/* False before the first category: there is nothing to poll, and no epoll set. */
static inline bool madi_server_is_open(void)
{
    return atomic_load_explicit(&madi_server.epfd, memory_order_acquire) >= 0; /* pairs with server_start */
}

static inline int madi_led_by(void)
{
    return atomic_load_explicit(&madi_server.leader, memory_order_seq_cst);
}

/* True if no thread leads, or if the leader makes room for a thread that waits itself. */
static inline bool madi_follower_may_lead(void)
{
    int leader = madi_led_by();
    return leader == MADI_LED_BY_NOBODY || leader == MADI_LED_BY_OTHER;
}

/* True if a worker of which no thread waits should lead.  False while a thread claims the lead: that thread will lead, or
 * call madi_leader_wanted. */
static inline bool madi_other_may_lead(void)
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_seq_cst) && madi_led_by() == MADI_LED_BY_NOBODY &&
           !atomic_load_explicit(&madi_server.claimants, memory_order_seq_cst);
}

#pragma GCC visibility push(hidden)

/* If nobody leads, wake one sleeping thread to lead: one that waits itself, which no other thread serves; else an idle
 * worker, if user-level threads of others wait. */
void madi_leader_wanted(void);
/* True if the last leader is likely to come back, so that no other thread is woken yet.  So it is on oversubscribed cores,
 * where a wake-up costs as much as a message; unless the leader did not come back lately. */
bool madi_leader_may_return(void);
/* True if the thread may sleep: another thread leads, or none has to. */
bool madi_may_follow(const madi_waiting_t *w);
/* Sleep behind a leader until woken, to lead or for its own event, or until the deadline.  The thread claims nothing. */
void madi_follow(madi_waiting_t *w);
/* Become the deputy; false if another thread is.  Resign: no effect if it is not the deputy. */
bool madi_deputy_become(madi_waiting_t *w);
void madi_deputy_resign(madi_waiting_t *w);

#pragma GCC visibility pop

#endif
