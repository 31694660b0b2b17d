/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <sched.h>
#include <time.h>

/* Sleep, because the lock or section is held so long that its holder probably waits for a core. */
static void nap(unsigned n)
{
    struct timespec time = {0, 1000L << (n < 10 ? n : 10)};
    nanosleep(&time, NULL);
}

/* Spin for about one or two cache-line transfers, then yield, then sleep in growing steps, so that a preempted holder
 * (more threads than cores) gets its core back. */
void madi_pause(unsigned n)
{
    unsigned round = n / 64;
    if (n % 64 != 63)
        madi_relax();
    else if (round < 16)
        sched_yield();
    else
        nap(round - 16);
}

void madi_lock_slow(madi_lock_t *lock)
{
    for (unsigned n = 0; !madi_trylock(lock); n++)
        madi_pause(n);
}
