/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between two methods for a block whose sender and receiver both wait.  The faster method depends on where
 * the two processes run, and processes move.  So the library learns the faster method from the durations of blocks, per
 * gate and class of lengths.  There are two such choices:
 *   the receiver's, under session->lock: a granted block is shared (each side moves a part of it from memory to memory), or
 *       sent through the link
 *   the sender's, under gate->tx_lock: where messages and answers alternate, a block is announced, or put into a packet.
 * Below, "shared" stands for the first of the two methods. */
#ifndef MADI_SHARE_H
#define MADI_SHARE_H

#include "base/base.h"
#include "base/clock.h"
#include "core/send/policy.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct madi_share_class {
    uint32_t took[2][MADI_SHARE_KEPT]; /* ns, scaled to the shortest block of the class; index 1: shared, 0: sent */
    uint32_t middle[2];                /* median of these durations, ns; 0 if not known yet */
    uint32_t left;                     /* number of blocks until the next trial of the method that is not in use */
    uint32_t run;                      /* number of blocks left in the present trial */
    uint8_t count[2];                  /* number of durations kept for each method */
    uint8_t oldest[2];                 /* index of the oldest duration of each method */
    uint8_t tried;                     /* number of methods tried so far, until all were tried */
    uint8_t rarer;                     /* log2 of the factor by which trials are rarer now than at first */
    bool shared;                       /* true if the method in use is sharing */
    bool trying;                       /* a trial of the other method is running */
} madi_share_class_t;

typedef struct madi_share {
    madi_share_class_t classes[MADI_SHARE_CLASSES];
    uint32_t lead;     /* n: sharing has to be faster by an n-th; blocks of MADI_SHARE_LONG and more: MADI_SHARE_LEAD_LONG */
    bool shared_first; /* true if, when blocks of a class are first sent, sharing is tried before the ring */
} madi_share_t;

/* True if the next block of that length is to be shared.  *timed: its duration is to be reported with madi_share_record.
 * Most blocks are not timed, because two reads of the clock take 2 % of the time of a block of 64 KiB. */
bool madi_share_next(madi_share_t *share, uint64_t len, bool *timed);
/* Report the duration of a block: from its grant to its end (receiver), or from its announcement to its end, or the duration
 * of sending the packet (sender). */
void madi_share_record(madi_share_t *share, uint64_t len, bool shared, int64_t ns);

/* A thread that sends a long block with a request may compute meanwhile, or poll for the block's end from the beginning.
 * An MPI library polls in this way in a blocking send.  The next send is assumed to behave like the last one.  Any
 * thread, no lock. */
typedef struct madi_share_habit {
    _Atomic int64_t begun; /* ns: when the last such send began; 0: the program has called for progress since */
    atomic_bool polls;     /* the last sender polled */
} madi_share_habit_t;

/* Record that a send begins now; true if its sender is expected to poll. */
bool madi_share_begun(madi_share_habit_t *habit, int64_t now);
/* Record that the program calls for progress now. */
void madi_share_polled(madi_share_habit_t *habit, int64_t now);

/* Call madi_share_polled with the present time, if a send is being observed. */
static inline void madi_share_poll(madi_share_habit_t *habit)
{
    if (MADI_UNLIKELY(atomic_load_explicit(&habit->begun, memory_order_relaxed) != 0))
        madi_share_polled(habit, madi_now());
}

#endif
