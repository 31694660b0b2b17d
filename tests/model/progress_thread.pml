/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread (src/engine/progress_thread.c), with the parts of leader.c and engine.c by which it leads.
 *
 * `program`, a thread of the application, leaves an operation pending that needs progress and has a callback, and then
 * computes for ever.  With LATER the operation is one that another process usually finishes: the progress thread serves it
 * only if no such operation began or ended between two of its periodic checks.  `insider`, another thread, waits in the
 * library for a while.  Meanwhile it leads, and completes what it finds; then it computes for ever, too.  `peer` answers at
 * any time, or never.  At the end, an operation that was answered is complete and its callback has run, `insider` has not
 * waited for the progress thread, and the progress thread sleeps.  If it was requested to stop, it has ended.
 *
 * POLLS: `program` polls for the operation, twice at most, and then computes; `insider` does not run.  `program` may count
 * as polling before its first poll.  The progress thread is then not woken while it checks periodically, and gives up the
 * lead if a poll finds it leading.
 * HANDED, with POLLS: `program` polls once at most, hands progress over, and then sleeps outside the library.  Nothing then
 * waits for the next periodic check.
 * RETURNS: both threads are expected to call the library again, so the progress thread is not woken while it checks
 * periodically.
 * LEFT: `insider` then begins an operation of its own, leaves a part of it to be sent, and computes.  It reports that part
 * by plain stores, like a thread that puts a gate on the list of work.
 *
 * Steps and the functions that they stand for (a comment at a step names those of other files):
 *
 *   progress          progress_thread_main
 *   needed            thread_is_needed
 *   look_for_calls    calls_wait
 *   rest, tick_or_go  thread_sleep
 *   say, unsay        sleep_announce, sleep_retract
 *   call              thread_request
 *   kick, kick_called thread_kick
 *   kick_later        marceli_progress_kick_later
 *   moved             marceli_leader_wake
 *   lead_once         madi_progress_thread_lead
 *   sleep_as_leader   madi_leader_sleep, and one round of progress
 *   poll, run_calls   madi_request_complete, madi_calls_run
 */
#define PROGRAM 0 /* numbers of threads */
#define INSIDE 1
#define PROGRESS 2
#define PEER 3
#define THREADS 4

/* variables in memory (memory.pml) */
#define ANSWER 0    /* the peer's answer has arrived in shared memory */
#define SLEEPING 1  /* marceli_leader_sleeps, and bell->asleep */
#define HAS_CALLS 2 /* session->has_calls; written under work_lock, and read without it */
#define SAYS 3      /* MADI_SLEEPS_THREAD in marceli_leader_sleeps: set by the thread that wakes the progress thread */
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
#define TICKS 1 /* MADI_TICKS: periodic checks after the end of the last operation that another process finishes */
#include "memory.pml"

#define RUNNING 0 /* marceli_waiter_state */
#define LEADS_ASLEEP 2
#define WOKEN 3

/* Changed by locked instructions only, so sequentially consistent. */
byte pending, inside, go, leader; /* progress.pending, madi_server.inside, progress.go, madi_server.leader */
byte later, changes;              /* progress.later, progress.moved */
byte said;                        /* progress.announced */
bool leading, stop, ticking, overdue, alive;
bool calls_left = true; /* progress.calls; initially set by a callback that has run since */
#ifdef POLLS
#define RETURNS /* needed only by periodic checks, and by the accesses that these checks read */
bool left, polled, polls; /* left: marceli_progress_left_at is not 0 */
#ifdef HANDED
bool handed;
#define POLLED 1
#else
#define POLLED 2
#endif
#endif
byte word[3];          /* the waiter words of INSIDE and PROGRESS */
bool bell, taken;      /* bell: wake_fd is readable; taken: the answer was polled, under session->lock */
bool calling, called, ended;

#define calls_wait(me) (load(me, HAS_CALLS) && !calling)

/* calls_wait: set `need` if callbacks are due.  A thread that finds no callback clears calls_left. */
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
    atomic { fence(me); go++ } /* with a futex wake */
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

/* thread_kick, as called by marceli_progress_kick and madi_progress_leave.  With RETURNS the calling thread, or another
 * thread of its worker, is expected to call the library again soon, but never does: so the progress thread is not woken
 * while it checks periodically. */
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
/* thread_kick(false), for a thread that is not expected to call the library again */
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

/* marceli_leader_wake.  The model loads the two bits one after the other, which allows all that one load of both allows. */
inline moved(me)
{
    if
    :: atomic { load(me, SLEEPING) || load(me, SAYS) && me != PROGRESS -> fence(me); bell = true } /* write to wake_fd */
    :: else
    fi
}

/* Poll the answer, under session->lock: the operation is complete, and its callback is due (madi_request_complete). */
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
    atomic { /* madi_gate_pump, under locks: sends the part that was left, and so completes the operation */
        if
        :: load(me, WORK) -> fence(me); memory[WORK] = 0; pending--
        :: else
        fi
    }
#else
    skip
#endif
}

/* madi_progress_thread_lead.  There are no followers in this model: INSIDE polls by itself while the progress thread
 * leads. */
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

/* madi_futex_wait in thread_sleep, with a deadline, which may pass at any time */
inline tick_or_go()
{
    if
    :: go != seen
    :: !inside -> ticked = true
    :: inside -> /* `insider` may stay in the library for many checks */
progress_tick:
        ticked = true
    fi
}

/* thread_sleep */
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

/* progress_thread_main */
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

/* The program begins an operation and leaves it pending: madi_request_new, madi_request_left.  Then it may call mad_exit
 * (madi_progress_thread_stop). */
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
    /* mad_progress, up to POLLED times: marceli_progress_polled, then a round */
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
    :: true -> poll(PROGRAM) /* a call that polls and runs no callbacks: one that opens a message, or cancels */
#endif
    fi;
    if
    :: skip
#if !defined(LEFT) && !defined(RETURNS)
    :: inside == 0 && called ->
        atomic { fence(PROGRAM); stop = true } /* madi_progress_thread_stop */
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

#ifndef POLLS /* with POLLS and `insider` there would be too many states */
/* marceli_wait, in a thread whose condition may become true at any time.  The thread then returns to the program. */
active proctype insider()
{
    bool new, rang, need, saying;
    atomic { fence(INSIDE); inside++ } /* madi_progress_enter */
#ifndef ENTERS_UNSEEN
    if
    :: leading -> /* marceli_waiter_wake: the progress thread gives up the lead */
        atomic { fence(INSIDE); rang = (word[PROGRESS] == LEADS_ASLEEP); word[PROGRESS] = WOKEN }
        if
        :: rang -> rang = false; moved(INSIDE)
        :: else
        fi
    :: else
    fi;
#endif
    atomic { leader == 0 -> fence(INSIDE); leader = 1 } /* madi_lead_take; until it succeeds, the thread polls and yields */
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

/* The peer, which answers the operation or not. */
active proctype peer()
{
    if
    :: skip /* the peer never answers */
#ifdef LATER
    :: later -> /* the operation has begun */
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
