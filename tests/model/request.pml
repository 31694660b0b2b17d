/* SPDX-License-Identifier: BSD-3-Clause */
/* A request: completion, callback, and a thread that waits for it meet in one variable (request.c and calls.c of the core).
 *
 * One thread completes it.  Its owner waits for it, with or without a limit, alone or for any of several, or gives it up
 * with a callback, before or after it has waited in vain.  Another thread runs callbacks.  In the end it is freed, once,
 * and whoever asked for it was told; nobody touches it, or the waiter on the owner's stack, when it is gone. */
#define COMPLETER 0 /* threads */
#define OWNER 1
#define RUNNER 2
#define THREADS 3

/* memory */
#define WATCHERS 0 /* session->n_watchers: changed by locked instructions, looked at without a fence */
#define LET_GO 1   /* request->let_go */
#define STATUS 2   /* request->status */
#define SENT 3     /* everything is: what else is watched for; a plain store */
#define VARS 4
#include "memory.pml"

#define PENDING 0 /* request->state */
#define DONE 1
#define CALLBACK 2
#define WAITER 3 /* the owner's */

byte state;       /* changed by locked instructions only, or under session->lock: one step, here as there */
bool freed;
bool callback;    /* request->callback is set */
byte called;      /* how often it was */
bool queued_call; /* in session->callbacks, under work_lock */
bool waiter;      /* the owner's marceli_waiter_t exists */
bool watcher;     /* it stands in session->watchers, under wait_lock */
bool woken;       /* its word */
bool dozes;       /* for the judge */

bool for_sent;    /* the owner waits for that */
#define test() (for_sent -> load(OWNER, SENT) : state == DONE)

#define use() assert(!freed)

/* take, or the end of madi_calls_run's round */
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
    store(COMPLETER, SENT, 1); /* something else; madi_progress_after */
    watchers_wake(COMPLETER)
}

/* marceli_wait: until it is done or, if late may be, the deadline has passed */
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
        atomic { fence(OWNER); woken = false } /* before it looks */
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
    :: waits -> waiter = false; woken = false; goto again /* MAD_ERR_TIMEOUT */
    :: else
    fi;
#ifndef NO_LET_GO
    use();
    load(OWNER, LET_GO);
#endif
    waiter = false;
    goto take;

wait_any: /* mad_request_wait_any: madi_watch_for */
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
