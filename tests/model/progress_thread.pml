/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread (progress_thread.c of libmarcel).
 *
 * A thread of the program leaves an operation that needs progress, with a callback, and computes for ever; or one that
 * another process finishes, as a rule (LATER), for which the thread is there only when nothing has moved from one tick of
 * its clock to the next.  Another one waits in the library for a while, leads meanwhile, and completes what it finds; it
 * does not come back either.  The peer's answer comes at any time, or never.  In the end an operation that was answered
 * is done and its callback was called, the one that waited was not held up, and the progress thread sleeps; or it has
 * ended, if it was told to.
 *
 * POLLS: who leaves the operation polls for it twice at most, and computes then (nobody waits); it may have been seen to poll
 * before.  It is not called while its clock ticks, and steps back where a poll finds it leading.
 * HANDED, with POLLS: who has polled, once at most, hands over then, and sleeps elsewhere: the thread's clock is not waited for.
 * RETURNS: both are expected back, and the thread is not called while its clock ticks.
 * LEFT: the one that waited then begins an operation of its own, of which something is left to be sent, and computes.
 * It says so by plain stores, as who adds to the list of work does. */
#define PROGRAM 0 /* threads */
#define INSIDE 1
#define PROGRESS 2
#define PEER 3
#define THREADS 4

/* memory */
#define ANSWER 0    /* the peer's answer, in shared memory */
#define SLEEPING 1  /* marceli_leader_sleeps, bell->asleep */
#define HAS_CALLS 2 /* session->has_calls; under work_lock, and looked at without */
#define SAYS 3      /* like SLEEPING, but set by the thread that wakes the progress thread */
#ifdef LEFT
#define WORK 4      /* session->has_work */
#define VARS 5
#else
#define VARS 4
#endif
#define NOT_ANNOUNCED 0 /* progress.announced */
#define ANNOUNCING 1
#define ANNOUNCED 2
#define IN_USE 3
#define TICKS 1 /* looks after the last one that another process finishes */
#include "memory.pml"

#define RUNNING 0 /* marceli_waiter_state */
#define LEADS_ASLEEP 2
#define WOKEN 3

/* These are sequentially consistent: locked instructions. */
byte pending, inside, go, leader;
byte later, changes;   /* progress.moved */
byte said;
bool leading, stop, ticking, overdue, alive;
bool calls_left = true; /* a note about one that was run since */
#ifdef POLLS
#define RETURNS /* of the thread: its clock, and what it sees of others */
bool left, polled, polls;
#ifdef HANDED
bool handed;
#define POLLED 1
#else
#define POLLED 2
#endif
#endif
byte word[3];          /* of INSIDE and PROGRESS */
bool bell, taken;      /* taken: the answer was polled, under session->lock */
bool calling, called, ended;

#define calls_wait(me) (load(me, HAS_CALLS) && !calling)

/* calls_left: to need; who finds that there are none unsays it */
inline look_for_calls(me)
{
    if
    :: calls_left ->
#ifdef NOT_ANNOUNCED_AFTER_LOOK
        need = calls_wait(me);
        if
        :: !need -> atomic { fence(me); calls_left = false }
        :: else
        fi
#else
        atomic { fence(me); calls_left = false }
        need = calls_wait(me);
        if
        :: need -> atomic { fence(me); calls_left = true }
        :: else
        fi
#endif
    :: else -> need = false
    fi
}

/* thread_is_needed */
inline needed()
{
    need = !inside;
    need = need && !stop;
#ifdef POLLS
    need = need && !polled;
#endif
    if
    :: need && (!pending || alive) && !(overdue && later) -> look_for_calls(PROGRESS)
    :: else
    fi
}

/* thread_request */
inline call(me)
{
    atomic { fence(me); go++ } /* and futex wake */
}

/* sleep_announce */
inline say(me)
{
    atomic {
        fence(me);
        if
        :: said == NOT_ANNOUNCED -> said = ANNOUNCING; saying = true
        :: else
        fi
    }
    if
    :: saying ->
        saying = false;
        atomic { fence(me); memory[SAYS] = 1 }
#ifndef LEFT_SAID_WITHOUT_BARRIER
        membarrier();
#endif
        atomic { fence(me); said = ANNOUNCED }
    :: else
    fi
}

/* sleep_retract */
inline unsay()
{
    atomic {
        fence(PROGRESS);
        if
        :: said == ANNOUNCED || said == IN_USE -> said = IN_USE; memory[SAYS] = 0
        :: else
        fi
    }
    atomic {
        fence(PROGRESS);
        if
        :: said == IN_USE -> said = NOT_ANNOUNCED
        :: else
        fi
    }
}

/* thread_kick, of marceli_progress_kick and madi_progress_leave.  RETURNS: somebody will be inside again soon, as far as can be seen, and
 * then is not: the thread is not called while it looks by the clock. */
inline kick(me)
{
    if
    :: !inside && !leading ->
        need = pending > 0;
        if
#ifndef CALLS_FORGOTTEN
        :: !need -> look_for_calls(me)
#endif
        :: else
        fi;
#ifdef RETURNS
        atomic { fence(me); changes = changes + need } /* marceli_progress_note_move */
        need = need && !ticking;
#endif
        if
        :: need -> need = false; say(me); call(me)
        :: else
        fi
    :: else
    fi
}

#ifdef POLLS
/* thread_kick, of a thread that is not expected back */
inline kick_called(me)
{
    if
    :: !inside && !leading && pending -> say(me); call(me)
    :: else
    fi
}
#endif

/* marceli_progress_kick_later */
inline kick_later(me)
{
    if
    :: !ticking && later -> call(me)
    :: else
    fi
}

/* marceli_leader_wake; of the two bits one is loaded after the other, which is no less than both at once */
inline moved(me)
{
    if
    :: atomic { load(me, SLEEPING) || load(me, SAYS) && me != PROGRESS -> fence(me); bell = true } /* a system call */
    :: else
    fi
}

/* A packet is polled, under session->lock: the operation is done, its callback is to be run (madi_request_complete) */
inline poll(me)
{
    atomic {
        if
        :: load(me, ANSWER) && !taken -> fence(me); taken = true; new = true
        :: else
        fi
    }
    if
    :: new ->
        new = false;
#ifdef LATER
        atomic { fence(me); changes++ } /* marceli_progress_count_later(-1) */
        atomic { fence(me); later-- }
#else
        atomic { fence(me); pending-- }
#endif
        store(me, HAS_CALLS, 1);
#ifndef CALL_RINGS_NOT
        moved(me);
#endif
#ifndef CALL_NOT_TOLD
        atomic { fence(me); calls_left = true } /* marceli_progress_has_calls */
        if
#ifdef POLLS
        :: !leading && !inside && !(polls && ticking) -> call(me)
#else
        :: !leading && !inside -> call(me)
#endif
        :: else
        fi
#endif
    :: else
    fi
}

/* madi_calls_run */
inline run_calls(me)
{
    atomic {
        if
        :: load(me, HAS_CALLS) && !calling -> fence(me); calling = true; new = true
        :: else
        fi
    }
    if
    :: new ->
        new = false;
        called = true;
        atomic { fence(me); memory[HAS_CALLS] = 0; calling = false }
    :: else
    fi
}

/* madi_leader_sleep */
inline sleep_as_leader(me)
{
    atomic {
        fence(me);
        if
        :: said == ANNOUNCED || said == IN_USE -> said = IN_USE; told = true
        :: else -> memory[SLEEPING] = 1
        fi
    }
    if
    :: told -> told = false
    :: else -> membarrier()
    fi;
    quiet = !(load(me, ANSWER) && !taken); /* arm */
#ifdef LEFT
    quiet = quiet && !load(me, WORK);
#endif
    atomic {
        fence(me);
        if
        :: word[me] == RUNNING -> word[me] = LEADS_ASLEEP
        :: else -> quiet = false
        fi
    }
#ifndef CALLS_NOT_LOOKED_AT
    quiet = quiet && !calls_wait(me); /* arm */
#endif
    needed();
    if
    :: quiet && need ->
end_epoll:
        bell;
        slept = true
    :: else
    fi;
    need = false;
    atomic { fence(me); word[me] = RUNNING }
    atomic {
        fence(me);
        memory[SLEEPING] = 0;
        bell = bell && !slept;
        slept = false;
        quiet = false
    }
    poll(me);
#ifdef LEFT
    atomic { /* madi_gate_pump, under locks: what was left is sent, and the operation with it */
        if
        :: load(me, WORK) -> fence(me); memory[WORK] = 0; pending--
        :: else
        fi
    }
#else
    skip
#endif
}

/* lead_once.  No follower: INSIDE polls by itself as long as this one leads. */
inline lead_once(me)
{
    atomic {
        fence(me);
        if
        :: leader == 0 -> leader = 2; led = true
        :: else
        fi
    }
    if
    :: led ->
        sleep_as_leader(me);
        atomic { fence(me); leader = 0; led = false }
        run_calls(me)
    :: else
    fi
}

/* rest, for now: the clock ticks at any time */
inline tick_or_go()
{
    if
    :: go != seen
    :: !inside -> ticked = true
    :: inside -> /* it may be there for many ticks */
progress_tick:
        ticked = true
    fi
}

/* rest */
inline rest()
{
    now = changes;
    overdue = false;
    alive = false;
    if
    :: later || now != last -> looks = TICKS
    :: else -> looks = (looks -> looks - 1 : 0)
    fi;
    last = now;
    now = 0;
#ifdef LATER_UNTICKED_LATE
    need = (looks || later);
    atomic { fence(PROGRESS); ticking = (looks > 0) }
#else
    atomic { fence(PROGRESS); ticking = (looks > 0) }
    need = (looks || later);
#endif
    if
    :: need ->
        need = false;
#ifdef HANDED
        assert(!handed || go != seen || !pending);
#endif
        tick_or_go();
        if
        :: ticked && later && changes == last -> overdue = true
#ifdef RETURNS
        :: ticked && changes != last -> alive = true
#endif
        :: else
        fi;
        ticked = false
    :: else ->
#ifdef RETURNS
#ifndef RETURNS_UNSEEN
        needed();
#endif
#endif
#ifdef POLLS
#ifndef POLLS_FORGOTTEN
        need = need || polled;
#endif
#endif
        if
        :: need -> need = false
        :: else ->
end_go:
            go != seen
        fi
    fi
}

/* run */
active proctype progress()
{
    bool new, quiet, slept, led, need, ticked, told;
    byte seen, now, last, looks;
next:
#ifdef STOP_BEFORE_GO
    if
    :: stop -> goto over
    :: else
    fi;
#endif
#ifndef GO_READ_LATE
    atomic { alive = alive && go == seen; seen = go }
#ifdef POLLS
    atomic { fence(PROGRESS); alive = alive || polled; polled = false }
#endif
#endif
#ifndef STOP_BEFORE_GO
    if
    :: stop -> goto over
    :: else
    fi;
#endif
    needed();
    if
    :: need ->
        need = false;
#ifndef NOT_SAID_TO_LEAD
        atomic { fence(PROGRESS); leading = true }
#endif
#ifdef POLLS
        atomic { fence(PROGRESS); left = true }
#endif
        lead_once(PROGRESS);
        atomic { fence(PROGRESS); leading = false }
#ifdef NO_LOOK_AFTERWARDS
end_unasked:
        go != seen
#endif
    :: else ->
#ifdef GO_READ_LATE
        seen = go;
#endif
        unsay();
        rest()
    fi;
    seen = (alive -> seen : 0);
    goto next;
over:
    unsay();
    ended = true
}

/* An operation is made and left: madi_request_new, madi_request_left.  Then perhaps mad_exit (madi_progress_thread_stop). */
active proctype program()
{
    bool new, quiet, need, saying;
#ifdef POLLS
    bool seen;
    byte times;
#endif
#ifdef LATER
#ifdef LATER_KICKED_UNCOUNTED
    kick_later(PROGRAM);
#endif
    atomic { fence(PROGRAM); changes++ } /* marceli_progress_count_later */
    atomic { fence(PROGRAM); later++ }
#ifndef LATER_KICKED_UNCOUNTED
#ifndef LATER_NO_KICK
    kick_later(PROGRAM);
#endif
#endif
#else
    atomic { fence(PROGRAM); pending++ }
#ifdef POLLS
    if
    :: polls = true
    :: polls = false
    fi;
    left = true;
    if
    :: polls -> kick(PROGRAM)
    :: else -> kick_called(PROGRAM)
    fi;
    /* mad_progress, as often */
    do
    :: times < POLLED ->
        times++;
        atomic { fence(PROGRAM); seen = left; left = false }
        if
        :: seen ->
            if
            :: polls = true
            :: polls = false
            fi;
            atomic { fence(PROGRAM); changes++ }
            if
            :: leading ->
                atomic { fence(PROGRAM); polled = true }
                atomic { fence(PROGRAM); quiet = (word[PROGRESS] == LEADS_ASLEEP); word[PROGRESS] = WOKEN }
                if
                :: quiet -> quiet = false; moved(PROGRAM)
                :: else
                fi
            :: else
            fi
        :: else
        fi;
        poll(PROGRAM);
        run_calls(PROGRAM)
    :: break
    od;
#ifdef HANDED /* marceli_progress_hand_over */
#ifndef HANDED_POLLED
    atomic { fence(PROGRAM); polled = false }
#endif
    kick_called(PROGRAM);
    handed = true
#else
    skip
#endif
#else
#ifndef NO_KICK
    kick(PROGRAM)
#endif
#endif
    skip
#endif
    if
    :: skip
#ifndef RETURNS
    :: true -> poll(PROGRAM) /* a call that runs no callbacks: it opens a message, it cancels */
#endif
    fi;
    if
    :: skip
#if !defined(LEFT) && !defined(RETURNS)
    :: inside == 0 && called ->
        atomic { fence(PROGRAM); stop = true }
#ifndef STOP_WITHOUT_WAKE
        atomic { fence(PROGRAM); quiet = (word[PROGRESS] == LEADS_ASLEEP); word[PROGRESS] = WOKEN }
        if
        :: quiet -> quiet = false; moved(PROGRAM)
        :: else
        fi;
#endif
        call(PROGRAM)
#endif
    fi
}

#ifndef POLLS /* it would be too many states */
/* marceli_wait, of a thread that has to wait until something that is there at any time; then it returns to the program */
active proctype insider()
{
    bool new, rang, need, saying;
    atomic { fence(INSIDE); inside++ }
#ifndef ENTERS_UNSEEN
    if
    :: leading -> /* marceli_waiter_wake: it makes room */
        atomic { fence(INSIDE); rang = (word[PROGRESS] == LEADS_ASLEEP); word[PROGRESS] = WOKEN }
        if
        :: rang -> rang = false; moved(INSIDE)
        :: else
        fi
    :: else
    fi;
#endif
    atomic { leader == 0 -> fence(INSIDE); leader = 1 } /* until then it polls and yields */
    if
    :: skip
    :: true -> poll(INSIDE)
    :: true -> poll(INSIDE); run_calls(INSIDE)
    fi;
    atomic { fence(INSIDE); leader = 0 } /* madi_lead_drop */
    atomic { fence(INSIDE); inside-- }  /* madi_progress_leave */
#ifndef LEAVES_UNSEEN
    kick(INSIDE);
#endif
#ifdef LEFT
    atomic { fence(INSIDE); pending++ }
    store(INSIDE, WORK, 1); /* madi_gate_work */
    moved(INSIDE);
    kick(INSIDE);
#endif
    skip
}
#endif

/* The other side of the operation */
active proctype peer()
{
    if
    :: skip /* it never answers */
#ifdef LATER
    :: later -> /* it has begun */
#else
    :: true ->
#endif
        store(PEER, ANSWER, 1);
        moved(PEER)
    fi
}

active proctype judge()
{
    timeout;
    assert(inside == 0 && leader != 1);
#ifdef LEFT
    assert(!memory[WORK]);
#endif
    assert(!memory[ANSWER] || called && pending == 0 && later == 0);
    assert(ended == stop)
}
