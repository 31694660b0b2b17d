/* SPDX-License-Identifier: BSD-3-Clause */
/* The leader: which thread polls for all that wait, how the leader sleeps, and which thread leads next (src/engine/leader.c,
 * follower.c, engine.c and waiter.c).
 *
 * Three threads wait, each for a message of its own; one of them may give up.  A fourth thread sends these messages, and one
 * message for a handler, by plain stores without a fence, and sometimes makes progress.  A handler may run for ever.  In the
 * end each thread whose message was sent has received it, except a thread that runs the handler. */
#ifndef WAITERS
#define WAITERS 3
#endif
#define SENDER WAITERS /* number of the sending thread */
#define THREADS (WAITERS + 1)
#ifndef MESSAGES
#define MESSAGES (WAITERS + 1) /* one for each waiting thread, and one for the handler; if fewer, for some */
#endif
#define HANDLER WAITERS /* destination of the message for the handler */

/* variables in memory (memory.pml) */
#define SENT 0     /* number of messages in the ring, which pure_poll reads */
#define SLEEPING 1 /* marceli_leader_sleeps, and bell->asleep of shm */
#define LEADER 2   /* madi_server.leader; 0: none, 1: a waiting thread */
#define VARS 3
#include "memory.pml"

#define RUNNING 0 /* values of `word`: marceli_waiter_state */
#define ASLEEP 1
#define LEADS_ASLEEP 2
#define WOKEN 3

byte ring[MESSAGES];    /* by message: its destination */
byte polled;            /* number of messages that were polled, under session->lock */
bool done[WAITERS];     /* by thread: its message was polled; `test` reads this */
byte word[WAITERS];     /* by thread: word of its waiter, changed by locked instructions only */
bool follower[WAITERS]; /* by thread: in madi_server.followers, under that list's lock */
byte n_followers;
bool bell;              /* wake_fd is readable */
bool rung;              /* wake_fd was written since the last sleep began */
bool has_calls, calling;
bool given_up;          /* a thread has given up */
bool left[WAITERS];     /* by thread: it no longer waits; for `judge` */
bool occupied[WAITERS + 1]; /* by thread: it runs the handler for ever */

#define calls_wait() (has_calls && !calling)

/* marceli_leader_wake, which reads the flag by a plain load */
inline moved(me)
{
    if
    :: load(me, SLEEPING) ->
        atomic {
            fence(me);
            if
#if WAITERS == 2
            :: !rung -> rung = true; rings = true
#else
            :: !rung -> rung = true; bell = true
#endif
            :: else
            fi
        }
#if WAITERS == 2
        if
        :: rings -> rings = false; bell = true
        :: else
        fi
#endif
    :: else
    fi
}

/* marceli_waiter_wake, under the lock of the list in which the waiter was found */
inline wake(me, w)
{
    fence(me);
    was = word[w];
    word[w] = WOKEN
}

/* madi_server_poll: poll one message, and wake its thread.  This one step stands for a source's turn under session->lock. */
inline poll(me)
{
    was = RUNNING;
    atomic {
        if
        :: polled < load(me, SENT) ->
            whom = ring[polled];
            polled++;
            if
            :: whom == HANDLER -> has_calls = true
            :: whom != HANDLER && !left[whom] -> done[whom] = true; wake(me, whom)
            :: else
            fi;
            whom = 0
        :: else
        fi
    }
    if
    :: was == LEADS_ASLEEP -> moved(me)
    :: else
    fi;
    was = 0
}

/* madi_leader_wanted.  The order of the followers makes no difference. */
inline followers_wake(me)
{
    if
    :: n_followers ->
        atomic { /* under the server's lock */
            fence(me);
            if
            :: load(me, LEADER) == 0 && follower[0] -> follower[0] = false; n_followers--; wake(me, 0)
            :: load(me, LEADER) == 0 && follower[1] -> follower[1] = false; n_followers--; wake(me, 1)
            :: WAITERS > 2 && load(me, LEADER) == 0 && follower[WAITERS - 1] ->
                follower[WAITERS - 1] = false; n_followers--; wake(me, WAITERS - 1)
            :: else
            fi
        }
        was = 0
    :: else
    fi
}

/* madi_lead_take */
inline lead(me)
{
    atomic {
        if
        :: !leads && load(me, LEADER) == 0 -> fence(me); leads = (memory[LEADER] == 0); memory[LEADER] = 1
        :: else
        fi
    }
}

/* madi_lead_drop */
inline lead_no_more(me)
{
    leads = false;
#ifdef LEADER_WITHOUT_FENCE
    store(me, LEADER, 0);
#else
    atomic { fence(me); memory[LEADER] = 0 }
#endif
#ifndef NO_HAND_OVER
    followers_wake(me)
#endif
}

/* wait_run_calls, madi_server_calls_run and madi_calls_run: one thread runs callbacks, and the others continue */
inline run_calls(me)
{
    if
    :: calls_wait() ->
#ifndef OCCUPIED_LEADS
        if
        :: leads -> lead_no_more(me)
#ifndef OCCUPIED_HANDS_NOTHING_OVER
        :: !leads -> followers_wake(me) /* the thread may have been woken to lead */
#else
        :: !leads
#endif
        fi;
#endif
        atomic {
            if
            :: calls_wait() -> fence(me); calling = true
            :: else -> goto_on = true
            fi
        }
        if
        :: goto_on -> goto_on = false
        :: !goto_on && WAITERS == 2 -> has_calls = false; calling = false
        :: !goto_on -> occupied[me] = true; goto gone
        fi
    :: else
    fi
}

/* madi_leader_sleep, with sources_arm and epoll_until */
inline sleep_as_leader(me)
{
#ifdef LOOK_BEFORE_SLEEPING
    quiet = (load(me, SENT) == polled);
#endif
#ifndef RUNG_FOR_EVER
    atomic { fence(me); rung = false }
#endif
    atomic { fence(me); memory[SLEEPING] = 1 }
#ifndef NO_MEMBARRIER
    membarrier();
#endif
#ifndef LOOK_BEFORE_SLEEPING
    quiet = (load(me, SENT) == polled); /* sources_arm */
#endif
    atomic {
        fence(me);
        if
#ifndef SLEEPS_ANYWAY
        :: word[me] != RUNNING -> quiet = false
        :: else -> word[me] = LEADS_ASLEEP
        fi
    }
    quiet = quiet && !done[me];
#else
        :: word[me] = LEADS_ASLEEP
        fi
    }
#endif
    if
    :: !quiet || calls_wait()
    :: quiet && !calls_wait() ->
end_epoll:
        if
        :: bell
        :: atomic { WAITERS == 2 && !given_up -> given_up = true; late = true }
        fi;
        quiet = true
    fi;
    atomic { fence(me); word[me] = RUNNING } /* before the thread tests its condition */
    atomic { /* disarm; the next thread that arms takes the same lock */
        fence(me);
        memory[SLEEPING] = 0;
        bell = bell && !quiet;
        quiet = false
    }
    poll(me)
}

/* madi_follow and madi_park, of a plain pthread */
inline sleep_as_follower(me)
{
#ifdef FOLLOWER_LOOKS_FIRST
    quiet = load(me, LEADER);
#endif
    atomic { fence(me); follower[me] = true; n_followers++ }
#ifndef FOLLOWER_LOOKS_FIRST
    quiet = load(me, LEADER);
#endif
    if
    :: quiet ->
        atomic {
            fence(me);
            if
            :: word[me] == RUNNING -> word[me] = ASLEEP
            :: else
            fi
        }
end_follower:
        if
        :: word[me] != ASLEEP
        :: atomic { WAITERS == 2 && !given_up -> given_up = true; late = true }
        fi
    :: else
    fi;
    atomic {
        quiet = false;
        if
        :: follower[me] -> follower[me] = false; n_followers--
        :: else
        fi
    }
    atomic { fence(me); word[me] = RUNNING } /* before the thread tests its condition */
}

/* wait_on_kernel_thread, with wait_spin and wait_poll */
proctype waiter(byte me)
{
    byte was, whom;
    bool leads, quiet, late, goto_on, rings;

look:
    atomic {
        if
        :: done[me] || late -> goto leave
        :: !done[me] && !late && (leads || load(me, LEADER) == 0) && polled < load(me, SENT) -> goto hit
        :: else
        fi
    }
    lead(me);
    if
    :: leads -> sleep_as_leader(me); run_calls(me)
    :: !leads && load(me, LEADER) -> sleep_as_follower(me)
    :: else
    fi;
    goto look;
hit:
    poll(me);
    run_calls(me);
    goto look;
leave:
    if
    :: leads -> lead_no_more(me)
#ifndef NOT_PASSED_ON
    :: !leads -> followers_wake(me) /* the thread may have been woken to lead */
#else
    :: !leads
#endif
    fi;
    left[me] = true;
    word[me] = RUNNING;
gone:
    skip
}

/* The short path of a send, and mad_progress in the same thread. */
active proctype sender()
{
    byte n, was, whom, to;
    bool goto_on, leads, handler, rings;
    do
    :: n < MESSAGES ->
        atomic {
            if
            :: to < WAITERS && (WAITERS == 2 || to != 1 || handler) -> ring[n] = to; to++ /* any of the threads may lead */
            :: !handler && (WAITERS == 2 || to == 1) -> ring[n] = HANDLER; handler = true
            fi;
            n++
        }
#if WAITERS == 2
        store(SENDER, SENT, n);
#else /* a job with more processes than cores, whose senders execute a fence */
        atomic { fence(SENDER); memory[SENT] = n }
#endif
        moved(SENDER);
        if
        :: skip
        :: WAITERS == 2 && n == MESSAGES -> poll(SENDER);
#ifdef BELL_READ_BY_ALL
            bell = false;
#endif
            run_calls(SENDER)
        fi
    :: else -> break
    od;
gone:
    skip
}

init {
    atomic {
        run waiter(0);
        run waiter(1);
#if WAITERS > 2
        run waiter(2)
#endif
    }
}

active proctype judge()
{
    byte w;
    timeout;
    w = 0;
    do
    :: w < polled -> assert(ring[w] == HANDLER || left[ring[w]] || occupied[ring[w]]); w++
    :: else -> break
    od;
    /* Messages that no thread has polled.  The thread of each of them has left, or runs the handler. */
    do
    :: w < memory[SENT] -> assert(ring[w] == HANDLER || left[ring[w]] || occupied[ring[w]]); w++
    :: else -> break
    od
}
