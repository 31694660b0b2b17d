/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait for a message, each woken by itself (waiter.c of libmarcel; open.c and deliver.c of the core).
 *
 * Two wait, each for a message of any peer or of peer A; one of them may give up.  A third polls and delivers, a fourth
 * opens a message without waiting.  One of the two may come to run the program's code meanwhile, which may never return.
 * In the end nobody sleeps while there is a message for him, and nobody was woken who had left. */
#define WAITERS 2
#define POLLER 2 /* thread */
#define THIEF 3
#define THREADS 4
#define MESSAGES 2

/* memory */
#define LOCK 0  /* session->lock */
#define READY 1 /* channel->n_ready */
#define VARS 2
#include "memory.pml"

#define RUNNING 0 /* marceli_waiter_state; the leader's sleep is in leader.pml */
#define ASLEEP 1
#define WOKEN 2

#define A 0 /* peers; openers of their connections */
#define B 1
#define ANY 2 /* openers of the channel */

byte openers[3 * WAITERS]; /* lists, each the longest waiting first; under LOCK */
byte n_openers[3];
byte ready[2];         /* messages of each connection; under LOCK */
byte word[WAITERS];    /* changed by locked instructions only */
bool left[WAITERS];    /* the waiter's memory is used for something else */
bool asleep[WAITERS];  /* for the judge */
byte source[WAITERS];
bool occupied;         /* one runs the program's code, or did */

/* marceli_waiters_wake_one: the longest waiting that is not awake; none: there is none.  A fence stands between what has
 * changed and the look at the words. */
inline wake_one(me, l)
{
#ifndef LOOK_WITHOUT_FENCE
    fence(me);
#endif
    none = true;
    i = 0;
    do
    :: atomic {
        none && i < n_openers[l] ->
        w = openers[(l) * WAITERS + i];
        assert(!left[w]);
        if
        :: word[w] != WOKEN -> none = false
        :: else
        fi;
#ifdef ONLY_THE_FIRST
        none = false;
#endif
        i++
    }
    :: else -> break
    od;
    if
    :: !none -> atomic { fence(me); assert(!left[w]); word[w] = WOKEN } /* marceli_waiter_wake */
    :: else
    fi;
    i = 0;
    w = 0
}

/* madi_openers_wake */
inline openers_wake(me, peer)
{
    wake_one(me, peer);
    if
    :: none -> wake_one(me, ANY)
    :: else
    fi;
    none = false
}

/* channel->n_ready changes.  Under LOCK. */
inline count(me, by)
{
    n_ready = load(me, READY) + by;
    store(me, READY, n_ready);
    n_ready = 0
}

/* madi_rx_take_from, channel_take.  Under LOCK. */
inline take(me, from)
{
    if
    :: from != B && ready[A] -> ready[A]--; count(me, -1); found = true
    :: from != A && ready[B] -> ready[B]--; count(me, -1); found = true
    :: else
    fi
}

/* open_test: a look without the lock, and one with it */
inline open_test(me)
{
    if
    :: load(me, READY) -> atomic { lock(me, LOCK); take(me, source[me]); unlock(me, LOCK) }
    :: else
    fi
}

/* message_offer, madi_rx_make_ready */
active proctype poller()
{
    byte i, w, n_ready, n, peer;
    bool none;
    do
    :: n < MESSAGES ->
        atomic {
            if
            :: peer = A
            :: peer = B
            fi;
            lock(POLLER, LOCK);
            ready[peer]++;
            count(POLLER, 1)
        }
        openers_wake(POLLER, peer);
        unlock(POLLER, LOCK);
        n++
    :: else -> break
    od
}

/* open_try, by a thread that does not wait */
active proctype thief()
{
    byte n_ready;
    bool found;
    atomic { lock(THIEF, LOCK); take(THIEF, ANY); unlock(THIEF, LOCK) }
}

inline waiter_add(me, l)
{
    atomic {
        lock(me, LOCK);
        openers[(l) * WAITERS + n_openers[l]] = me;
        n_openers[l]++;
        unlock(me, LOCK)
    }
}

/* marceli_waiters_del, openers_wake_next */
inline waiter_leave(me, l)
{
    atomic {
        lock(me, LOCK);
        if
        :: n_openers[l] == 2 && openers[(l) * WAITERS] == me -> openers[(l) * WAITERS] = openers[(l) * WAITERS + 1]
        :: else
        fi;
        n_openers[l]--;
        openers[(l) * WAITERS + n_openers[l]] = 0
    }
#ifndef NO_PASS_ON
    if
    :: ready[A] -> openers_wake(me, A)
    :: else
    fi;
    if
    :: ready[B] -> openers_wake(me, B)
    :: else
    fi;
#endif
    unlock(me, LOCK)
}

/* open_wait_enlisted, with the waiting of a follower (marceli_wait, follow, madi_park) */
proctype waiter(byte me)
{
    byte i, w, n_ready;
    bool none, found, late;

    if
    :: source[me] = A
    :: source[me] = ANY
    fi;
#ifdef LISTED_AFTER_LOOK
    open_test(me);
    if
    :: found -> goto gone
    :: else
    fi;
#endif
    waiter_add(me, source[me]);
#ifdef LISTED_AFTER_LOOK
    goto sleep;
#endif
look:
    open_test(me);
    if
    :: found -> goto leave
    :: !found
    :: atomic { !found && !occupied -> occupied = true } /* run_calls of leader.c */
#ifndef OCCUPIED_UNMARKED
        atomic { fence(me); word[me] = WOKEN } /* a message that comes from here on wakes another */
#endif
#ifndef OCCUPIED_WITHOUT_LOOK
        open_test(me); /* one that came before does not wait for the program */
        if
        :: found -> goto leave
        :: else
        fi;
#endif
        if
        :: skip
        :: goto gone
        fi
    fi;
sleep:
    atomic {
        fence(me);
        if
#ifndef SLEEPS_ANYWAY
        :: word[me] != RUNNING -> goto awake
        :: else -> word[me] = ASLEEP
#else
        :: word[me] = ASLEEP
#endif
        fi;
        asleep[me] = true
    }
end_asleep:
    if
    :: word[me] != ASLEEP /* doze: the kernel looks once more, and is called after the word is changed */
    :: me == 1 -> late = true
    fi;
awake:
    atomic { fence(me); asleep[me] = false; word[me] = RUNNING } /* before it looks */
    if
    :: late -> open_test(me) /* the last one, in marceli_wait */
    :: else -> goto look
    fi;
leave:
#ifdef LEFT_BEFORE_LIST
    left[me] = true;
#endif
    waiter_leave(me, source[me]);
    left[me] = true;
gone:
    skip
}

init {
    atomic {
        run waiter(0);
        run waiter(1)
    }
}

active proctype judge()
{
    timeout;
    assert(memory[LOCK] == 0);
    assert(!(asleep[0] && word[0] == ASLEEP) || !(ready[A] || source[0] == ANY && ready[B]));
    assert(!(asleep[1] && word[1] == ASLEEP) || !(ready[A] || source[1] == ANY && ready[B]))
}
