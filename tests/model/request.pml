/* SPDX-License-Identifier: BSD-3-Clause */
/* A request: its completion, its callback, and a thread that waits for it meet in one variable (request.c and callbacks.c in
 * src/core/api).
 *
 * One thread completes the request.  The request's owner waits for it, with or without a deadline, alone or together with
 * other requests.  Or the owner detaches the request with a callback, before or after a wait in vain.  Another thread runs
 * callbacks.  In the end the request has been freed once, and its owner has seen the completion or the callback has run.  No
 * thread uses the request after that, nor the waiter on the owner's stack when it is gone. */
#define COMPLETER 0 /* numbers of threads */
#define OWNER 1
#define RUNNER 2
#define THREADS 3

/* variables in memory (memory.pml) */
#define WATCHERS 0 /* session->n_watchers: changed by locked instructions, read without a fence */
#define LET_GO 1   /* request->let_go */
#define STATUS 2   /* request->status */
#define SENT 3     /* stands for another condition that a thread may wait for; a plain store */
#define VARS 4
#include "memory.pml"

#define PENDING 0 /* values of `state`: request->state */
#define DONE 1
#define CALLBACK 2
#define WAITER 3 /* with the owner's waiter */

byte state;       /* changed by locked instructions only, or under session->lock: one step here, too */
bool freed;
bool callback;    /* request->callback is set */
byte called;      /* number of calls of the callback */
bool queued_call; /* the request is in session->callbacks, under work_lock */
bool waiter;      /* the owner's marceli_waiter_t exists */
bool watcher;     /* the owner's waiter is in session->watchers, under wait_lock */
bool woken;       /* the word of the owner's waiter is WOKEN */
bool dozes;       /* the owner sleeps; for `judge` */

bool for_sent;    /* the owner waits for SENT instead of the request */
#define test() (for_sent -> load(OWNER, SENT) : state == DONE)

#define use() assert(!freed)

/* Free the request: at `take`, or at the end of a round of madi_calls_run. */
inline free(me)
{
    atomic {
        use();
        assert(state == DONE && load(me, STATUS) == 1);
        freed = true
    }
}

/* queue_callback */
inline queue_callback(me)
{
    atomic { fence(me); use(); assert(!queued_call); queued_call = true }
}

/* madi_watchers_wake */
inline watchers_wake(me)
{
#ifndef WATCHERS_BEFORE_DONE
    if
    :: load(me, WATCHERS) ->
        atomic { /* under wait_lock */
            fence(me);
            if
            :: watcher -> assert(waiter); woken = true
            :: else
            fi
        }
    :: else
    fi
#endif
    skip
}

/* madi_request_complete */
active proctype completer()
{
    byte before;
    use();
    store(COMPLETER, STATUS, 1);
#ifdef WATCHERS_BEFORE_DONE
    if
    :: load(COMPLETER, WATCHERS) -> atomic { if :: watcher -> woken = true :: else fi }
    :: else
    fi;
#endif
#ifdef CALLBACK_LOOKED_AT
    before = state;
    atomic { fence(COMPLETER); use(); state = DONE }
#else
    atomic { fence(COMPLETER); use(); before = state; state = DONE }
#endif
#ifdef TOUCHED_AFTER_DONE
    use();
#endif
    if
    :: before == CALLBACK -> queue_callback(COMPLETER)
    :: before == WAITER ->
        atomic { fence(COMPLETER); assert(waiter); woken = true } /* marceli_waiter_wake */
        use();
        store(COMPLETER, LET_GO, 1)
    :: else
    fi;
    watchers_wake(COMPLETER);
    store(COMPLETER, SENT, 1); /* another condition becomes true: madi_progress_after */
    watchers_wake(COMPLETER)
}

/* marceli_wait: return when the condition is true or, unless `forever`, when the deadline has passed */
inline wait(forever)
{
    do
    :: test() -> use(); break
    :: else ->
        use();
        dozes = true;
end_asleep:
        if
        :: woken
        :: !forever -> late = true
        fi;
        dozes = false;
        atomic { fence(OWNER); woken = false } /* before the thread tests its condition */
        if
        :: late -> late = false; break
        :: else
        fi
    od
}

active proctype owner()
{
    bool forever, late, waits, asked;
    byte rounds;
again:
    if
    :: rounds < 2 -> rounds++; forever = false
    :: forever = true
    fi;
    if
    :: goto wait_one
    :: goto wait_any
    :: goto give_up
    :: forever && !asked -> asked = true; for_sent = true; goto wait_any
    fi;

wait_one: /* mad_request_wait */
    waiter = true;
    atomic {
        fence(OWNER);
        use();
        if
        :: state == PENDING -> state = WAITER; waits = true
        :: else -> waits = false
        fi
    }
    if
    :: !waits -> waiter = false; goto take
    :: else
    fi;
    wait(forever);
    atomic {
        fence(OWNER);
        use();
#ifdef LEAVES_WITHOUT_EXCHANGE
        if
        :: state == WAITER -> waits = true
        :: else -> waits = false
        fi
#else
        if
        :: state == WAITER -> state = PENDING; waits = true
        :: else -> waits = false
        fi
#endif
    }
    if
    :: waits -> waiter = false; woken = false; goto again /* the call returns MAD_ERR_TIMEOUT */
    :: else
    fi;
#ifndef NO_LET_GO
    use();
    load(OWNER, LET_GO);
#endif
    waiter = false;
    goto take;

wait_any: /* mad_request_wait_any, with madi_watch_for */
    waiter = true;
#ifdef WATCHES_AFTER_LOOK
    if
    :: state == DONE -> waiter = false; goto take
    :: else
    fi;
#endif
    atomic { fence(OWNER); watcher = true; memory[WATCHERS] = 1 }
#ifndef NO_MEMBARRIER
    membarrier();
#endif
#ifdef WATCHES_AFTER_LOOK
    dozes = true;
    if
    :: woken
    :: !forever
    fi;
    dozes = false;
#endif
    wait(forever);
    atomic { fence(OWNER); watcher = false; memory[WATCHERS] = 0 }
    waiter = false;
    woken = false;
    if
    :: for_sent -> for_sent = false; goto again
    :: !for_sent && state == DONE -> goto take
    :: else -> goto again
    fi;

take:
    free(OWNER);
    goto gone;

give_up: /* mad_request_detach */
    use();
    callback = true;
    atomic {
        fence(OWNER);
        use();
        if
        :: state == PENDING -> state = CALLBACK; waits = true
        :: else -> waits = false
        fi
    }
#ifndef CALLBACK_TOO_LATE
    if
    :: !waits -> queue_callback(OWNER)
    :: else
    fi;
#endif
gone:
    skip
}

/* madi_calls_run */
active proctype runner()
{
end_runner:
    atomic { queued_call -> queued_call = false }
    use();
    assert(callback && load(RUNNER, STATUS) == 1);
    called++;
    free(RUNNER)
}

active proctype judge()
{
    timeout;
    assert(state == DONE && freed && !dozes);
    assert(called == callback)
}
