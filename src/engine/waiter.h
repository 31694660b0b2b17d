/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiters: threads that wait for an event that comes through the polling server (engine.h), each on its own stack.
 *
 * A waiter stands in a list of the object that it waits for (a channel, a connection), or is named there, before it
 * looks for the last time; the thread that changes the object wakes it.  So an event wakes one thread and not all.
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
    _Atomic(uint32_t) word;                  /* marceli_waiter_state; a futex */
    struct madi_ult *ult;                    /* the thread; NULL: a plain pthread */
    int64_t expected; /* ns that its wait is likely to take: if it spins at all it spins so long; 0: not known */
    bool returns; /* its thread waits again in a moment, as a rule: the progress thread is not called for what it leaves */
    struct marceli_waiters *list;            /* of an object; NULL: in none */
    struct marceli_waiter *next, *prev;      /* in it, under the object's lock */
    struct marceli_waiter *next_follower, **at_follower; /* the server's */
} marceli_waiter_t;

/* Those that wait for an object, the longest first; zeroed: nobody.  Its functions want the object's lock. */
typedef struct marceli_waiters {
    marceli_waiter_t *first, *last;
} marceli_waiters_t;

/* For the calling thread; ends without a call, when it stands nowhere. */
void marceli_waiter_init(marceli_waiter_t *w);

/* Make the waiter look again.  Any lock but the server's own may be held; the caller sees to it that the waiter exists
 * until this returns. */
void marceli_waiter_wake(marceli_waiter_t *w);

/* By the waiter's own thread: it will not look for a while, so that marceli_waiters_wake_one passes it over.  It looks once
 * more after this.  Over when it next tries to sleep, which it then does not. */
void marceli_waiter_occupied(marceli_waiter_t *w);

static inline bool marceli_waiter_is_woken(const marceli_waiter_t *w)
{
    return atomic_load_explicit(&((marceli_waiter_t *)w)->word, memory_order_relaxed) == MARCELI_WOKEN;
}

void marceli_waiters_add(marceli_waiters_t *list, marceli_waiter_t *w); /* as the last */
void marceli_waiters_del(marceli_waiter_t *w);
/* Wake the first that is not awake; false if there is none, or if a thousand before it are awake.  A waiter that has
 * found what it waited for, and leaves the list, has to wake the next if there is more. */
bool marceli_waiters_wake_one(marceli_waiters_t *list);
void marceli_waiters_wake_all(marceli_waiters_t *list);

#endif
