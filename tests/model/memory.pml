/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as x86 has it: a store waits in the buffer of its thread until it reaches memory, some time later, after the
 * thread's earlier ones; the thread itself sees it at once, the others do not.  A fence, a locked instruction, and
 * somebody else's membarrier empty the buffer.  THREADS and VARS are defined before this is included.
 *
 * Only variables that are read without a lock and written by plain stores live here.  What is changed by locked
 * instructions alone is an ordinary variable, changed in one atomic step that begins with fence(); what is read and
 * written under a lock too. */
#define STORES 2 /* in a buffer; a further one waits until the oldest has left */

byte memory[VARS];
byte queued[THREADS];             /* stores in each buffer */
byte where[THREADS * STORES];     /* they go, the oldest first */
byte value[THREADS * STORES];

#define load(me, x) (queued[me] == 2 && where[(me) * STORES + 1] == (x) -> value[(me) * STORES + 1] : \
                    (queued[me] && where[(me) * STORES] == (x) -> value[(me) * STORES] : memory[x]))

inline store(me, x, what)
{
    atomic {
        queued[me] < STORES;
        where[(me) * STORES + queued[me]] = x;
        value[(me) * STORES + queued[me]] = what;
        queued[me]++
    }
}

/* The oldest store reaches memory.  In one step. */
inline drain(t)
{
    memory[where[(t) * STORES]] = value[(t) * STORES];
    where[(t) * STORES] = where[(t) * STORES + 1];
    value[(t) * STORES] = value[(t) * STORES + 1];
    where[(t) * STORES + 1] = 0;
    value[(t) * STORES + 1] = 0;
    queued[t]--
}

/* Within an atomic step, or as one. */
inline fence(t)
{
    d_step {
        do
        :: queued[t] -> drain(t)
        :: else -> break
        od
    }
}

/* Every thread executes a fence before it returns. */
inline membarrier()
{
    d_step {
        fence(0);
        fence(1);
#if THREADS > 2
        fence(2);
#endif
#if THREADS > 3
        fence(3);
#endif
        skip
    }
}

active proctype hardware()
{
end:
    do
    :: d_step { queued[0] -> drain(0) }
    :: d_step { queued[1] -> drain(1) }
#if THREADS > 2
    :: d_step { queued[2] -> drain(2) }
#endif
#if THREADS > 3
    :: d_step { queued[3] -> drain(3) }
#endif
    od
}

/* A lock: an exchange takes it, a plain store gives it back (madi_lock, madi_unlock). */
inline lock(me, x)
{
    atomic { memory[x] == 0 -> fence(me); memory[x] = 1 }
}
inline unlock(me, x)
{
    store(me, x, 0)
}
