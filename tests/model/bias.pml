/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues whose lock one worker has to itself (src/marcel/bias.h).  The worker enters its section without a locked
 * instruction, while one thread takes the bias away, and another thread cancels the thread that waits in the queue.
 *
 * The worker's stores stay in a buffer until the hardware, or a barrier of all threads, makes them visible. */
#define LOCKED 1
#define BIAS 2

#define OPEN 1 /* values of `wait`, which stands for party->wait */
#define WOKEN 2
#define CANCELLED 3

#define POSTS 3

byte word = BIAS;
bool holds;                    /* the worker's flag, as the other threads see it */
bool holds_written, buffered;  /* the flag as the worker has written it; true: that store is still in the buffer */
byte inside;                   /* number of threads in the section or with the lock: at most 1 */
bool busy;                     /* the canceller's BUSY in thread->cancel */
byte wait;
bool queued;
byte values;                   /* number of posts that no thread has taken and that have woken no thread */
byte woken, cancels, posts;
bool over;

inline holds_set(v) { d_step { holds_written = v; buffered = true } }
inline barrier_all() {
#ifndef NO_BARRIER
    d_step { if :: buffered -> holds = holds_written; buffered = false :: else fi }
#else
    skip
#endif
}

/* A store in the buffer may become visible at any time. */
proctype hardware()
{
    do
    :: d_step { buffered -> holds = holds_written; buffered = false }
    :: over -> break
    od
}

inline enter()
{
    biased = false;
#ifndef NOTHING_SAID
    holds_set(true);
#endif
    if
    :: word == BIAS -> biased = true
    :: else ->
        holds_set(false);
        atomic { word == 0 -> word = LOCKED; holds = holds_written; buffered = false } /* an exchange empties the buffer */
    fi;
    d_step { inside++; assert(inside == 1) }
}

inline leave()
{
    d_step { inside-- };
    if
    :: biased -> holds_set(false)
    :: else -> d_step { word = 0; if :: buffered -> holds = holds_written; buffered = false :: else fi }
    fi
}

/* A thread of the worker waits; another thread of the worker posts. */
proctype worker()
{
    byte i, seen;
    bool biased, plain;
    enter();
    d_step { wait = OPEN; queued = true };
    leave();
    do
    :: i == POSTS -> break
    :: else ->
        i++;
        enter();
        if
        :: queued ->
#ifdef BUSY_NOT_SEEN
            plain = biased;
#else
            plain = biased && !busy;
#endif
            if
            :: plain ->
                seen = wait;
                if
                :: seen == OPEN -> wait = WOKEN; woken++; queued = false
                :: else -> values++
                fi
            :: else ->
                if
                :: atomic { wait == OPEN -> wait = WOKEN } woken++; queued = false
                :: atomic { wait != OPEN -> values++ }
                fi
            fi
        :: else -> values++
        fi;
        posts++;
        leave()
    od
}

inline lock_other()
{
    atomic { word != LOCKED -> old = word; word = LOCKED };
    if
    :: old == BIAS ->
        barrier_all();
        !holds
    :: else
    fi;
    d_step { inside++; assert(inside == 1) }
}

inline unlock_other()
{
    d_step { inside--; word = 0 }
}

/* Take a post, if there is one. */
proctype other()
{
    byte old;
    lock_other();
    if
    :: values > 0 -> values--; posts--
    :: else
    fi;
    unlock_other()
}

proctype canceller()
{
    byte old;
    bool won;
    busy = true;
    barrier_all();
#ifndef NOT_WAITED
    if
    :: !holds
    fi;
#endif
    if
    :: atomic { wait == OPEN -> wait = CANCELLED; won = true }
    :: atomic { wait != OPEN -> skip }
    fi;
    if
    :: won ->
        lock_other();
        assert(queued);
        queued = false;
        cancels++;
        unlock_other()
    :: else
    fi;
    busy = false
}

init
{
    atomic { run hardware(); run worker(); run other(); run canceller() }
    _nr_pr == 2; /* only the hardware and this process are left */
    over = true;
    assert(woken + cancels <= 1);
    assert(woken + cancels == 1 || queued);
    assert(woken + values == posts)
}
