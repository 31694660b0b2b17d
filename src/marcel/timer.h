/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of one worker: a pairing heap whose nodes are embedded in the waiting objects, so that arming a timer never
 * fails.  Only the worker touches its heap. */
#ifndef MADI_TIMER_H
#define MADI_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct madi_timer {
    int64_t deadline;                /* madi_now's nanoseconds */
    struct madi_timer *child;        /* the first child; all children are due later */
    struct madi_timer *next, **back; /* siblings; back: the pointer that points to this timer, NULL if not armed */
} madi_timer_t;

typedef struct madi_timers {
    madi_timer_t *first; /* the timer that is due first; NULL if none */
} madi_timers_t;

#pragma GCC visibility push(hidden)

void madi_timer_arm(madi_timers_t *timers, madi_timer_t *timer, int64_t deadline);
/* Disarm a timer; no effect if it is not armed (back is NULL). */
void madi_timer_disarm(madi_timers_t *timers, madi_timer_t *timer);
/* Remove and return a timer that is due at `now` (madi_now's ns); NULL if none. */
madi_timer_t *madi_timer_due(madi_timers_t *timers, int64_t now);

#pragma GCC visibility pop

static inline bool madi_timer_passed(const madi_timers_t *timers, int64_t now)
{
    return timers->first && timers->first->deadline <= now;
}

#endif
