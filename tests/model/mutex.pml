/* SPDX-License-Identifier: BSD-3-Clause */
/* The mutex (src/marcel/mutex.c): its word, its queue, and waiting threads whose deadline passes at any time.
 *
 * Three threads lock and unlock the mutex TIMES times each; the deadline of one of them may pass.  The word changes by
 * locked instructions, and the queue under its lock, so each change is one step here.  In the end the mutex is free, and no
 * thread waits. */
#define THREADS 3
#define TIMES 2
#define NOBODY 3

#define LOCKED 1
#define WAITERS 2
#define HANDOFF 4

#define WAITS 1 /* values of `wait`: party->wait, while the thread is in the queue */
#define TAKEN 2
#define WOKEN 3
#define LATE 4

byte word;
bool held;            /* lock of the queue */
byte queue[THREADS], length;
byte wait[THREADS];
byte owner = NOBODY;
byte inside;

inline add(me)
{
    d_step { queue[length] = me; length++; i = 0 }
}

inline add_first(me)
{
    d_step {
        i = length;
        do
        :: i > 0 -> queue[i] = queue[i - 1]; i--
        :: else -> break
        od;
        queue[0] = me;
        length++
    }
}

inline remove(me)
{
    d_step {
        i = 0;
        do
        :: i < length && queue[i] != me -> i++
        :: else -> break
        od;
        assert(i < length);
        do
        :: i + 1 < length -> queue[i] = queue[i + 1]; i++
        :: else -> break
        od;
        length--;
        queue[length] = 0;
        i = 0
    }
}

/* madi_waitq_take: take the first thread whose deadline has not passed.  After that, the deadline of this thread has no
 * effect. */
inline take(found)
{
    d_step {
        i = 0;
        do
        :: i < length && wait[queue[i]] != WAITS -> i++
        :: else -> break
        od;
        if
        :: i < length -> found = queue[i]; wait[found] = TAKEN
        :: else -> found = NOBODY
        fi;
        i = 0
    }
    if
    :: found != NOBODY -> remove(found)
    :: else
    fi
}

/* mutex_lock_wait: the thread gets the mutex, or its deadline passes */
inline lock_wait(me)
{
    again = false;
    do
    :: atomic { !held -> held = true }
       d_step { /* mutex_take_or_announce */
           if
           :: !(word & LOCKED) ->
#ifdef OTHERS_FORGOTTEN
               word = LOCKED;
#else
               word = LOCKED | (length -> WAITERS : 0);
#endif
               had = true
           :: else ->
               word = word | WAITERS;
               if
               :: again -> word = word | HANDOFF
               :: else
               fi
           fi
       }
       if
       :: had -> held = false; break
       :: else
       fi;
       if
       :: again -> add_first(me)
       :: else -> add(me)
       fi;
       d_step { wait[me] = WAITS; held = false }
       if
       :: wait[me] == WOKEN
       :: atomic { late_ever && wait[me] == WAITS -> wait[me] = LATE }
          atomic { !held -> held = true }
          remove(me);
          held = false;
          break
       fi;
       if
       :: owner == me -> owner = NOBODY; had = true; break
       :: else -> again = true
       fi
    od;
    wait[me] = 0
}

inline unlock_wake(me)
{
    do
    :: atomic { !held -> held = true }
       seen = word;
       take(party);
       if
       :: party == NOBODY ->
#ifndef BITS_LEFT
           seen = LOCKED;
           word = LOCKED;
#endif
           held = false;
           if
           :: atomic { word == seen -> word = 0 } break
           :: atomic { word != seen -> skip }
           fi
       :: else ->
           if
           :: seen & HANDOFF ->
#ifndef NOT_SAID_WHOSE
               owner = party;
#endif
#ifdef HANDED_AND_FORGOTTEN
               word = LOCKED;
#else
               word = LOCKED | (length -> WAITERS : 0);
#endif
           :: else -> word = 0
           fi;
           held = false;
           wait[party] = WOKEN;
           break
       fi
    od;
    seen = 0;
    party = 0
}

proctype thread(byte me; bool late_ever)
{
    byte i, party, seen, times;
    bool again, had;
    do
    :: times == TIMES -> break
    :: else ->
        times++;
        if
        :: atomic { word == 0 -> word = LOCKED; had = true }
        :: atomic { word != 0 -> skip }
           lock_wait(me)
        fi;
        if
        :: had ->
            d_step { inside++; assert(inside == 1) }
            d_step { inside--; had = false }
            if
            :: atomic { word == LOCKED -> word = 0 }
            :: atomic { word != LOCKED -> skip }
               unlock_wake(me)
            fi
        :: else
        fi
    od
}

init
{
    atomic {
        run thread(0, false);
        run thread(1, true);
        run thread(2, false)
    }
    _nr_pr == 1;
    assert(word == 0 && length == 0 && !held && owner == NOBODY)
}
