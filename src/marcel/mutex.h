/* SPDX-License-Identifier: BSD-3-Clause */
/* The structure of a mutex: a word that is 0 or 1 most of the time, and a queue.
 *
 * Bits of the word: LOCKED; WAITERS: a thread is in the queue, or was until recently; HANDOFF: the first thread in the
 * queue was woken once and found the mutex taken again, so the next unlock gives the mutex to it; TYPED: recursive or
 * errorcheck.  WAITERS and HANDOFF are set under the lock of the queue, and cleared by the thread that unlocks.  A
 * woken waiter competes again, because a running thread may take the mutex meanwhile without a switch.  A waiter that
 * loses goes to the front of the queue, and sets HANDOFF.
 *
 * Every waiter that tries again either takes the mutex or sets WAITERS, under the queue's lock.  So the holder wakes
 * the next waiter, and none is forgotten. */
#ifndef MADI_MUTEX_H
#define MADI_MUTEX_H

#include "marcel/waitq.h"

#include <marcel.h>

enum { MADI_MUTEX_LOCKED = 1, MADI_MUTEX_WAITERS = 2, MADI_MUTEX_HANDOFF = 4, MADI_MUTEX_TYPED = 8 };

typedef struct madi_mutex {
    atomic_uint word;
    unsigned type;
    madi_waitq_t queue;
    /* holder of a typed mutex; in a normal one, only the waiter that was given it by HANDOFF, until that waiter has
     * noticed */
    _Atomic(madi_party_t *) owner;
    unsigned long depth; /* recursive: number of locks by the owner beyond the first */
} madi_mutex_t;

_Static_assert(sizeof(madi_mutex_t) <= sizeof(marcel_mutex_t), "a public mutex holds one");
_Static_assert(MARCEL_MUTEX_NORMAL == 0 && MADI_MUTEX_TYPED == 8, "the initializers of marcel.h");

static inline madi_mutex_t *madi_mutex_of(marcel_mutex_t *mutex)
{
    return (madi_mutex_t *)(void *)mutex;
}

#endif
