/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines as POSIX writes them. */
#ifndef MADI_SLEEP_H
#define MADI_SLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#pragma GCC visibility push(hidden)

/* Convert the time `until` of a clock, CLOCK_MONOTONIC or CLOCK_REALTIME, to madi_now's nanoseconds.  A later step of the
 * real-time clock has no effect.  Return 0 or EINVAL. */
int madi_deadline_of(clockid_t clock, const struct timespec *until, int64_t *deadline);

/* True if deadlines may be times of that clock. */
static inline bool madi_clock_known(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
}

/* Common part of all timed calls: return wait(what, with, the deadline), or EINVAL. */
int madi_timed(int (*wait)(void *what, void *with, int64_t deadline), void *what, void *with, clockid_t clock,
               const struct timespec *until);

#pragma GCC visibility pop

#endif
