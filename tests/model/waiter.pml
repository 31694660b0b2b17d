/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait for a message, each of which is woken alone (src/engine/waiter.c; open.c and ready.c of the core).
 *
 * Two threads wait, each for a message of any peer or of peer A; one of them may give up.  A third thread polls and delivers
 * messages, and a fourth one opens a message without waiting.  One of the first two threads may begin to run the program's
 * code, which may never return.  In the end no thread sleeps while there is a message for it.  No thread is woken after it
 * has left. */
#define WAITERS 2
#define POLLER 2 /* number of the polling thread */
#define THIEF 3
#define THREADS 4
#define MESSAGES 2

/* variables in memory (memory.pml) */
#define LOCK 0  /* session->lock */
#define READY 1 /* channel->n_ready */
#define VARS 2
#include "memory.pml"

#define RUNNING 0 /* values of `word`: marceli_waiter_state.  The leader's sleep is in leader.pml */
#define ASLEEP 1
#define WOKEN 2

#define A 0 /* peers, and lists of the threads that open a message of that peer */
#define B 1
#define ANY 2 /* list of the threads that open a message of any peer */

byte openers[3 * WAITERS]; /* three lists under LOCK, in each the longest waiting thread first */
byte n_openers[3];
byte ready[2];         /* by peer: number of messages that can be opened; under LOCK */
byte word[WAITERS];    /* by thread: word of its waiter, changed by locked instructions only */
bool left[WAITERS];    /* by thread: the memory of its waiter has another use now */
bool asleep[WAITERS];  /* by thread: it sleeps; for `judge` */
byte source[WAITERS];
bool occupied;         /* a thread runs the program's code, or has run it */

/* marceli_waiters_wake_one: wake the longest waiting thread that is not awake; none: there is no such thread.  A fence
 * stands between the changed condition and the reads of the words. */
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

/* Change channel->n_ready, under LOCK. */
inline count(me, by)
{
    n_ready = load(me, READY) + by;
    store(me, READY, n_ready);
    n_ready = 0
}

/* madi_rx_take_from and channel_take, under LOCK. */
inline take(me, from)
{
    if
    :: from != B && ready[A] -> ready[A]--; count(me, -1); found = true
    :: from != A && ready[B] -> ready[B]--; count(me, -1); found = true
    :: else
    fi
}

/* open_test: check without the lock, and then once with it */
inline open_test(me)
{
    if
    :: load(me, READY) -> atomic { lock(me, LOCK); take(me, source[me]); unlock(me, LOCK) }
    :: else
    fi
}

/* message_offer and madi_rx_make_ready */
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

/* open_try, in a thread that does not wait */
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

/* marceli_waiters_del and openers_wake_next */
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

/* open_wait_enlisted, whose thread waits like a follower (marceli_wait, madi_follow, madi_park) */
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
    :: atomic { !found && !occupied -> occupied = true } /* calls_run_here */
#ifndef OCCUPIED_UNMARKED
        atomic { fence(me); word[me] = WOKEN } /* a message that arrives from now on wakes the other thread */
#endif
#ifndef OCCUPIED_WITHOUT_LOOK
        open_test(me); /* a message that arrived before does not wait for the program's code */
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
    :: word[me] != ASLEEP /* the kernel compares the word again; a waking thread has changed the word before */
    :: me == 1 -> late = true
    fi;
awake:
    atomic { fence(me); asleep[me] = false; word[me] = RUNNING } /* before the thread tests its condition */
    if
    :: late -> open_test(me) /* the last test of marceli_wait */
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
