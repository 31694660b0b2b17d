/* SPDX-License-Identifier: BSD-3-Clause */
/* A deadline of a thread that may move (timer_shared.h of libmarcel): of the workers that sleep one sleeps only until then.
 *
 * Worker 0 arms it and computes from then on.  The others go to sleep, may be called for something else, and then compute,
 * or have nothing to do after all.  All is sequentially consistent.  In the end nobody sleeps past the deadline. */
#define WORKERS 3
#define CALLS 2 /* for something else */

bool first;          /* it is armed, and has not passed */
bool until[WORKERS]; /* it sleeps only until then */
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

/* madi_share_wake: the first that sleeps; who changes idle counts */
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
       :: atomic { !idle[me] -> skip } /* called */
          if
          :: skip ->
#ifndef NOT_PASSED_ON
              elsewhere(me);
#endif
              break /* it computes */
          :: skip /* there was nothing for it */
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
