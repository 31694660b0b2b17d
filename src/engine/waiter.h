/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiters: threads that wait for an event that comes through the polling server (engine.h), each on its own stack.
 *
 * A waiter enters a list of the object that it waits for (a channel, a connection), or its name there, before it looks
 * for the last time.  The thread that changes the object wakes it.  So an event wakes one thread and not all.
 *
 * Why no wake-up is lost: a waiter's word says whether it runs, sleeps, or was woken.  It goes to sleep only by
 * changing RUNNING into ASLEEP (or LEADS_ASLEEP, in epoll); the waker writes WOKEN, which makes that change fail, or
 * finds that the waiter sleeps and brings it back.
 *
 * A waiter is a user-level thread, which then leaves its worker to others, or a plain pthread, which sleeps on a futex. */
#ifndef MARCELI_WAITER_H
#define MARCELI_WAITER_H

#include "base/base.h"

struct madi_ult;
struct marceli_waiters;

enum marceli_waiter_state { MARCELI_RUNNING, MARCELI_ASLEEP, MARCELI_LEADS_ASLEEP, MARCELI_WOKEN };

typedef struct marceli_waiter {
    _Atomic(uint32_t) word; /* marceli_waiter_state; a futex */
    struct madi_ult *ult;   /* the thread; NULL: a plain pthread */
    int64_t expected;       /* ns that its wait is likely to take, and that it spins if it spins at all; 0 if not known */
    bool returns; /* the thread is likely to wait again soon: the progress thread is not woken for what it leaves */
    struct marceli_waiters *list;                        /* of an object; NULL: in none */
    struct marceli_waiter *next, *prev;                  /* in it, under the object's lock */
    struct marceli_waiter *next_follower, **at_follower; /* in a list of the server, under its lock */
} marceli_waiter_t;

/* Waiters of one object, the one that waits longest first; empty if zeroed.  The functions need the object's lock. */
typedef struct marceli_waiters {
    marceli_waiter_t *first, *last;
} marceli_waiters_t;

/* Initialize a waiter for the calling thread.  Needs no end: a waiter that is in no list can be dropped. */
void marceli_waiter_init(marceli_waiter_t *w);

/* Make the waiter look again.  Any lock but the server's own may be held.  The caller ensures that the waiter exists until
 * this returns. */
void marceli_waiter_wake(marceli_waiter_t *w);

/* Note that the calling thread will not look at this waiter of its own for a while, so marceli_waiters_wake_one passes it
 * over.  The caller looks once more after this.  The note ends with the next attempt to sleep, which fails. */
void marceli_waiter_occupied(marceli_waiter_t *w);

static inline bool marceli_waiter_is_woken(const marceli_waiter_t *w)
{
    return atomic_load_explicit(&((marceli_waiter_t *)w)->word, memory_order_relaxed) == MARCELI_WOKEN;
}

/* Append a waiter to the list. */
void marceli_waiters_add(marceli_waiters_t *list, marceli_waiter_t *w);
void marceli_waiters_del(marceli_waiter_t *w);
/* Wake the first waiter that is not awake; false if there is none.  After a thousand that are awake it does not look
 * further.  A waiter that has found what it waited for, and leaves the list, wakes the next one if there is more. */
bool marceli_waiters_wake_one(marceli_waiters_t *list);
void marceli_waiters_wake_all(marceli_waiters_t *list);

#endif
