/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time. */
#ifndef MADI_CLOCK_H
#define MADI_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Return the monotonic time in nanoseconds; without a system call where the vDSO provides it. */
static inline int64_t madi_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Return the deadline of a time-out in nanoseconds that begins now.  MAD_FOREVER (-1) gives INT64_MAX; other negative
 * times give a deadline in the past. */
static inline int64_t madi_deadline(int64_t timeout_ns)
{
    int64_t now;
    if (timeout_ns == -1)
        return INT64_MAX;
    now = madi_now();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

#endif
