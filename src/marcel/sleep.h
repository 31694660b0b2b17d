/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines as POSIX writes them. */
#ifndef MADI_SLEEP_H
#define MADI_SLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#pragma GCC visibility push(hidden)

/* The time `until` of that clock, which is CLOCK_MONOTONIC or CLOCK_REALTIME, in madi_now's nanoseconds (a step of the
 * real-time clock during the wait is not seen).  0 or EINVAL. */
int madi_deadline_of(clockid_t clock, const struct timespec *until, int64_t *deadline);

/* True if deadlines may be times of that clock. */
static inline bool madi_clock_known(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME;
}

/* The inside of every timed call: wait(what, with, the deadline), or EINVAL. */
int madi_timed(int (*wait)(void *what, void *with, int64_t deadline), void *what, void *with, clockid_t clock,
               const struct timespec *until);

#pragma GCC visibility pop

#endif
