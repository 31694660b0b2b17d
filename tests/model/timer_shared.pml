/* SPDX-License-Identifier: BSD-3-Clause */
/* The deadline of a thread that may move (src/marcel/timer_shared.h): one of the sleeping workers sleeps only until then.
 *
 * Worker 0 arms the deadline, and computes from then on.  The other workers go to sleep, and may be woken for another
 * reason.  Each of them then computes, or finds no work.  All accesses are sequentially consistent.  In the end no worker
 * sleeps past the deadline. */
#define WORKERS 3
#define CALLS 2 /* number of wakes for another reason */

bool first;          /* the deadline is armed, and has not passed */
bool until[WORKERS]; /* by worker: it sleeps only until the deadline */
bool idle[WORKERS];
byte n_asleep;

/* madi_timer_shared_left_alone */
inline look(me)
{
    alone = first;
    o = 0;
    do
    :: o == WORKERS || !alone -> break
    :: else ->
        if
        :: o != me && idle[o] -> alone = !until[o]
        :: o == me || !idle[o]
        fi;
        o++
    od;
    o = 0
}

/* madi_share_wake: wake the first worker that sleeps.  The thread that changes `idle` also changes `n_asleep`. */
inline wake(me)
{
    o = 0;
    do
    :: o == WORKERS -> break
    :: else ->
        if
        :: atomic { o != me && idle[o] -> idle[o] = false; n_asleep-- } break
        :: atomic { o == me || !idle[o] -> o++ }
        fi
    od;
    o = 0
}

/* madi_timer_shared_elsewhere */
inline elsewhere(me)
{
    if
    :: n_asleep > 0 ->
        look(me);
        if
        :: alone -> wake(me)
        :: else
        fi
    :: else
    fi
}

inline awake(me)
{
    if
    :: atomic { idle[me] -> idle[me] = false; n_asleep-- }
    :: atomic { !idle[me] -> skip }
    fi
}

proctype armer()
{
    byte o;
    bool alone;
    first = true;
#ifndef NOBODY_TOLD
    elsewhere(0)
#endif
}

proctype sleeper(byte me)
{
    byte o;
    bool alone, knows;
    do
    :: look(me);
       knows = alone;
       until[me] = knows;
       idle[me] = true;
       n_asleep++;
#ifndef NO_LAST_LOOK
       look(me);
       if
       :: alone && !knows -> awake(me); goto again
       :: else
       fi;
#endif
endasleep:
       if
       :: atomic { !idle[me] -> skip } /* the worker was woken */
          if
          :: skip ->
#ifndef NOT_PASSED_ON
              elsewhere(me);
#endif
              break /* the worker computes */
          :: skip /* the worker finds no work */
          fi
       :: atomic { knows && idle[me] -> first = false } /* the deadline has passed */
          awake(me);
          break
       fi;
again: skip
    od
}

proctype caller()
{
    byte times, o;
    do
    :: times == CALLS -> break
    :: else -> times++; wake(WORKERS)
    od
}

proctype end()
{
    timeout;
    assert(!first || (!idle[1] && !idle[2]))
}

init
{
    atomic {
        run armer();
        run sleeper(1);
        run sleeper(2);
        run caller();
        run end()
    }
}
