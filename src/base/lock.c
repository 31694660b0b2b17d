/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <sched.h>
#include <time.h>

/* Spin for about one or two cache-line transfers, then yield, then sleep in growing steps: a holder that was preempted
 * (more threads than cores) gets its core back. */
void madi_lock_slow(madi_lock_t *lock)
{
    struct timespec nap = {0, 1000};
    for (unsigned round = 0;; round++) {
        for (int i = 0; i < 64; i++) {
            if (madi_trylock(lock))
                return;
            madi_relax();
        }
        if (round < 16) {
            sched_yield();
        } else {
            nanosleep(&nap, NULL);
            if (nap.tv_nsec < 1000000) /* a lock held this long waits for another thread, which needs the core */
                nap.tv_nsec *= 2;
        }
    }
}
