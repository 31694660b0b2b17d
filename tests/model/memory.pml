/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as x86 has it.  A store waits in the buffer of its thread until it reaches memory, after that thread's earlier
 * stores.  The thread itself sees its store at once; other threads see the store when it has reached memory.  A fence, a
 * locked instruction, and a membarrier of any thread empty the buffer.  A model defines THREADS and VARS before it includes
 * this file.
 *
 * Only variables that are read without a lock and written by plain stores are in `memory`.  A variable that is changed by
 * locked instructions alone is an ordinary variable, and changes in an atomic step that begins with fence().  So is a
 * variable that is read and written under a lock. */
#define STORES 2 /* maximum number of stores in a buffer; a further store waits until the oldest one has reached memory */

byte memory[VARS];
byte queued[THREADS];             /* by thread: number of stores in its buffer */
byte where[THREADS * STORES];     /* variables that the stores change, the oldest store first */
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

/* The oldest store of thread t reaches memory.  Used within one step. */
inline drain(t)
{
    memory[where[(t) * STORES]] = value[(t) * STORES];
    where[(t) * STORES] = where[(t) * STORES + 1];
    value[(t) * STORES] = value[(t) * STORES + 1];
    where[(t) * STORES + 1] = 0;
    value[(t) * STORES + 1] = 0;
    queued[t]--
}

/* The buffer of thread t is emptied, within an atomic step or as one. */
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

/* A lock.  An exchange takes it, and a plain store releases it (madi_lock, madi_unlock). */
inline lock(me, x)
{
    atomic { memory[x] == 0 -> fence(me); memory[x] = 1 }
}
inline unlock(me, x)
{
    store(me, x, 0)
}
