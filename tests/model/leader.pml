/* SPDX-License-Identifier: BSD-3-Clause */
/* The leader: who polls for all that wait, how it sleeps, and who comes after it (leader.c, follower.c, engine.c and waiter.c
 * of libmarcel).
 *
 * Three threads wait, each for a message of its own; one may give up.  A fourth sends these messages, and one for a
 * handler, by plain stores without a fence, and makes progress now and then.  A handler may take for ever.  In the end
 * whose message was sent has it, unless he runs the handler. */
#ifndef WAITERS
#define WAITERS 3
#endif
#define SENDER WAITERS /* thread */
#define THREADS (WAITERS + 1)
#ifndef MESSAGES
#define MESSAGES (WAITERS + 1) /* one for each, and one for a handler; fewer: some of them */
#endif
#define HANDLER WAITERS /* a message's destination that is no waiter */

/* memory */
#define SENT 0     /* messages in the ring: what pure_poll looks at */
#define SLEEPING 1 /* marceli_leader_sleeps, and bell->asleep of shm */
#define LEADER 2   /* madi_server.leader: 0 none, 1 a thread that waits */
#define VARS 3
#include "memory.pml"

#define RUNNING 0 /* marceli_waiter_state */
#define ASLEEP 1
#define LEADS_ASLEEP 2
#define WOKEN 3

byte ring[MESSAGES];    /* destinations */
byte polled;            /* under session->lock: number of them that were polled */
bool done[WAITERS];     /* it has its message; what test looks at */
byte word[WAITERS];     /* changed by locked instructions only */
bool follower[WAITERS]; /* madi_server.followers, under its lock */
byte n_followers;
bool bell;              /* wake_fd */
bool rung;              /* since the last sleep began */
bool has_calls, calling;
bool given_up;          /* one of them has */
bool left[WAITERS];     /* for the judge: it waits no more */
bool occupied[WAITERS + 1]; /* it runs the handler for ever */

#define calls_wait() (has_calls && !calling)

/* marceli_leader_wake, the flag looked at by a plain load */
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

/* marceli_waiter_wake; with the lock under which it was found */
inline wake(me, w)
{
    fence(me);
    was = word[w];
    word[w] = WOKEN
}

/* madi_server_poll: a packet, and whom it is for.  The source's turn, the session's lock are held for this one step. */
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

/* leader_wanted; in which order they stand does not matter */
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

/* wait_run_calls, madi_server_calls_run, madi_calls_run: one thread at a time, the others go on */
inline run_calls(me)
{
    if
    :: calls_wait() ->
#ifndef OCCUPIED_LEADS
        if
        :: leads -> lead_no_more(me)
#ifndef OCCUPIED_HANDS_NOTHING_OVER
        :: !leads -> followers_wake(me) /* it may have been woken to lead */
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
    atomic { fence(me); word[me] = RUNNING } /* before it looks */
    atomic { /* disarm; who arms next takes the same lock */
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
    atomic { fence(me); word[me] = RUNNING } /* before it looks */
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
    :: !leads -> followers_wake(me) /* it may have been woken to lead */
#else
    :: !leads
#endif
    fi;
    left[me] = true;
    word[me] = RUNNING;
gone:
    skip
}

/* A sender's short path, and mad_progress of the same thread */
active proctype sender()
{
    byte n, was, whom, to;
    bool goto_on, leads, handler, rings;
    do
    :: n < MESSAGES ->
        atomic {
            if
            :: to < WAITERS && (WAITERS == 2 || to != 1 || handler) -> ring[n] = to; to++ /* who of them leads is not said */
            :: !handler && (WAITERS == 2 || to == 1) -> ring[n] = HANDLER; handler = true
            fi;
            n++
        }
#if WAITERS == 2
        store(SENDER, SENT, n);
#else /* a job with more processes than cores: senders fence */
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
    /* What nobody has polled: nobody is left to do it, but whom it is not for, and who are in the handler. */
    do
    :: w < memory[SENT] -> assert(ring[w] == HANDLER || left[ring[w]] || occupied[ring[w]]); w++
    :: else -> break
    od
}
