/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiters: threads that wait for an event that comes through the polling server (engine.h), each on its own stack.
 *
 * A waiter enters a list of the object that it waits for (a channel, a connection), or stores its address there, before
 * its last check.  The thread that changes the object wakes the waiter.  So an event wakes one thread and not all.
 *
 * Why no wake-up is lost: a waiter's word says whether it runs, sleeps, or was woken.  A thread falls asleep only by
 * changing RUNNING into ASLEEP (or LEADS_ASLEEP, in epoll).  The waking thread writes WOKEN, which either makes that
 * change fail, or shows that the waiter sleeps and has to be woken.
 *
 * A waiter belongs to a user-level thread, which leaves its worker to other threads, or to a plain pthread, which sleeps
 * on a futex. */
#ifndef MARCELI_WAITER_H
#define MARCELI_WAITER_H

#include "base/base.h"

struct madi_ult;
struct marceli_waiters;

enum marceli_waiter_state { MARCELI_RUNNING, MARCELI_ASLEEP, MARCELI_LEADS_ASLEEP, MARCELI_WOKEN };

typedef struct marceli_waiter {
    _Atomic(uint32_t) word; /* marceli_waiter_state; a futex */
    struct madi_ult *ult;   /* the user-level thread that waits; NULL: a plain pthread */
    int64_t expected;       /* ns: likely duration of the wait, and limit of its spinning; 0 if unknown */
    bool returns; /* the thread is likely to wait again soon: do not wake the progress thread for what it leaves pending */
    struct marceli_waiters *list;                        /* list of the object that it waits for; NULL if it is in none */
    struct marceli_waiter *next, *prev;                  /* neighbours in `list`, under the object's lock */
    struct marceli_waiter *next_follower, **at_follower; /* place in a list of the server, under the server's lock */
} marceli_waiter_t;

/* Waiters of one object, the longest waiting first; empty if zeroed.  The functions need the object's lock. */
typedef struct marceli_waiters {
    marceli_waiter_t *first, *last;
} marceli_waiters_t;

/* Initialize a waiter for the calling thread.  No cleanup is needed: a waiter that is in no list can be dropped. */
void marceli_waiter_init(marceli_waiter_t *w);

/* Wake the waiter, so that it checks again.  Any lock but the server's own may be held.  The caller ensures that the
 * waiter exists until this returns. */
void marceli_waiter_wake(marceli_waiter_t *w);

/* Record that the calling thread will not check this waiter of its own for a while, so that marceli_waiters_wake_one
 * skips the waiter.  The caller checks once more after this call.  The record ends with the next attempt to sleep,
 * which fails. */
void marceli_waiter_occupied(marceli_waiter_t *w);

static inline bool marceli_waiter_is_woken(const marceli_waiter_t *w)
{
    return atomic_load_explicit(&((marceli_waiter_t *)w)->word, memory_order_relaxed) == MARCELI_WOKEN;
}

static inline bool marceli_waiters_none(const marceli_waiters_t *list)
{
    return !list->first;
}

/* Append a waiter to the list. */
void marceli_waiters_add(marceli_waiters_t *list, marceli_waiter_t *w);
void marceli_waiters_del(marceli_waiter_t *w);
/* Wake the first waiter that is not awake; return false if there is none.  The search ends after a thousand waiters that
 * are awake.  A waiter that has found what it waited for, and leaves the list, wakes the next one if there is more. */
bool marceli_waiters_wake_one(marceli_waiters_t *list);
void marceli_waiters_wake_all(marceli_waiters_t *list);

#endif
