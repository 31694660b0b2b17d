/* SPDX-License-Identifier: BSD-3-Clause */
/* Is a block whose two sides wait moved by both, each a part of it from memory to memory (shared), or sent through the
 * link as others are?  Which is quicker depends on where the two processes run, and that changes; so it is learned, per
 * gate and class of lengths, from how long granted blocks take.  Under session->lock. */
#ifndef MADI_SHARE_H
#define MADI_SHARE_H

#include "base/base.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define MADI_SHARE_CLASSES 9 /* from 32 KiB on, by powers of two; the last one has all longer ones */
#define MADI_SHARE_KEPT 5    /* times that are kept of each way: what counts is the one in the middle */

typedef struct madi_share_class {
    uint32_t took[2][MADI_SHARE_KEPT]; /* ns, as if for the shortest block of the class; [1]: shared */
    uint32_t middle[2];                /* of these; 0: not known yet */
    uint32_t left;                     /* blocks until the way that is not used is tried again */
    uint32_t run;                      /* blocks left of a try */
    uint8_t count[2];                  /* of the times that are kept */
    uint8_t oldest[2];
    uint8_t tried; /* at the beginning: ways that have been */
    uint8_t rarer; /* so much rarer are tries than at first */
    bool shared;   /* what is used */
    bool trying;   /* the other one, meanwhile */
} madi_share_class_t;

typedef struct madi_share {
    madi_share_class_t classes[MADI_SHARE_CLASSES];
} madi_share_t;

/* Shall the next block of that length be shared?  *timed: how long it takes is to be told; of most it is not, for reading the
 * clock twice is two parts in a hundred of 64 KiB. */
bool madi_share_next(madi_share_t *share, uint64_t len, bool *timed);
/* One took so long, from its grant to its end here. */
void madi_share_took(madi_share_t *share, uint64_t len, bool shared, int64_t ns);

/* Who sends a long block with a request computes beside it, or polls for its end from the beginning on, as an MPI library
 * does in a send that blocks.  That is not said, but is likely to be as it was the last time.  Any thread, no lock. */
typedef struct madi_share_habit {
    _Atomic int64_t begun; /* when the last one was; 0: there was progress since */
    atomic_bool polls;
} madi_share_habit_t;

/* One is begun now: will its sender poll? */
bool madi_share_begun(madi_share_habit_t *habit, int64_t now);
/* The program calls for progress now. */
void madi_share_polled(madi_share_habit_t *habit, int64_t now);

/* The same by the clock, if there is something to be learned. */
static inline void madi_share_poll(madi_share_habit_t *habit)
{
    if (MADI_UNLIKELY(atomic_load_explicit(&habit->begun, memory_order_relaxed) != 0))
        madi_share_polled(habit, madi_now());
}

#endif
