/* SPDX-License-Identifier: BSD-3-Clause */
/* A wait that sleeps while another one leads, and how one that sleeps comes to lead.  Between leader.c and follower.c. */
#ifndef MADI_FOLLOWER_H
#define MADI_FOLLOWER_H

#include "engine/leader.h"

/* On the stack of the waiting thread. */
typedef struct madi_waiting {
    marceli_waiter_t *waiter;
    bool (*test)(void *arg);
    void *arg;
    int64_t deadline, spin_ns, yield_ns;
    madi_worker_t *worker; /* idle, on its own stack; NULL: not one */
    bool leads, for_others; /* and then no thread of its own waits */
    bool runs;              /* calls are what it is there for */
    bool asks;              /* counted in askers */
    bool defers;            /* leads only if nobody has done so for a while */
    bool deputy;
    uint64_t terms;         /* when it became that */
} madi_waiting_t;

/* True if a thread waits here that would have to be woken if another one led. */
static inline bool madi_waits_itself(const madi_waiting_t *w)
{
    return !w->worker || w->worker->waiting;
}

static inline int madi_processes(void)
{
    return atomic_load_explicit(&madi_server.processes, memory_order_relaxed);
}

/* Before the first category there is nothing to poll, and no epoll. */
static inline bool madi_can_lead(void)
{
    return atomic_load_explicit(&madi_server.epfd, memory_order_acquire) >= 0; /* pairs with start */
}

static inline int madi_led_by(void)
{
    return atomic_load_explicit(&madi_server.leader, memory_order_seq_cst);
}

/* True if no thread leads, or one that makes room. */
static inline bool madi_follower_may_lead(void)
{
    int leader = madi_led_by();
    return leader == MADI_LED_BY_NOBODY || leader == MADI_LED_BY_OTHER;
}

/* True if a worker shall lead that does not wait itself.  A thread that asks for that place will lead, or call
 * madi_leader_wanted. */
static inline bool madi_other_may_lead(void)
{
    return atomic_load_explicit(&madi_server.blocked, memory_order_seq_cst) && madi_led_by() == MADI_LED_BY_NOBODY &&
           !atomic_load_explicit(&madi_server.askers, memory_order_seq_cst);
}

#pragma GCC visibility push(hidden)

/* If nobody leads, wake one sleeping thread to lead: one that waits itself, which no other thread serves; else an idle
 * worker, if user-level threads of others wait. */
void madi_leader_wanted(void);
/* True if it is worth while to see whether the last leader comes back, before another one is woken.  On crowded cores,
 * where that costs as much as a message; unless it was in vain lately. */
bool madi_patient(void);
/* True if the thread may sleep: its events come to it, or another thread leads, or none has to. */
bool madi_may_follow(const madi_waiting_t *w);
/* Sleep behind a leader: until woken, to lead or for its own; or the deadline has passed.  It asks for nothing. */
void madi_follow(madi_waiting_t *w);
/* One that defers is the deputy, or need not be since another one is; no more: it is none, if it was. */
bool madi_deputy_become(madi_waiting_t *w);
void madi_deputy_no_more(madi_waiting_t *w);

#pragma GCC visibility pop

#endif
