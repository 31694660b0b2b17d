/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait decisions that depend on the server's state: number of cores, waiting threads, MAD_SPIN. */
#include "engine/wait_policy.h"
#include "engine/leader.h"

#include <limits.h>

bool madi_oversubscribed(int processes, int waiting)
{
    /* host_cores, because the launcher may bind each process to cores of its own */
    int cores = processes > 1 ? madi_server.host_cores : madi_server.cores;
    return (int64_t)processes * waiting > cores;
}

int marceli_processes_equivalent(int sharers)
{
    int64_t n = ((int64_t)sharers * madi_server.host_cores + madi_server.cores - 1) / madi_server.cores;
    return n < INT_MAX ? (int)n : INT_MAX;
}

int marceli_processes_per_core(int processes)
{
    return processes / madi_server.host_cores;
}

bool marceli_oversubscribed(int processes)
{
    return madi_oversubscribed(processes, 1);
}

/* Return the spin time: MAD_SPIN if set; else longer than twice the wake-up latency if every waiting thread has a
 * core; else 0, so that only the first polls spin (1 us). */
int64_t madi_spin_ns(int processes, int waiting)
{
    if (madi_server.spin_ns >= 0)
        return madi_server.spin_ns;
    return madi_oversubscribed(processes, waiting) ? 0 : MADI_SPIN_NS;
}

int marceli_spins(int processes)
{
    int64_t spins = madi_spin_ns(processes, 1) / MADI_SPIN_LOOK_NS;
    return (int)(spins < MADI_SPINS_MAX ? spins : MADI_SPINS_MAX);
}

int64_t madi_yield_ns(int64_t spin_ns)
{
    return madi_server.spin_ns >= 0 ? 0 : MADI_SPIN_NS - spin_ns;
}

int64_t madi_ban_until(int64_t before, int64_t after)
{
    int64_t ban = (after - before) * MADI_YIELD_BAN;
    return after + (ban < MADI_YIELD_BAN_MAX ? ban : MADI_YIELD_BAN_MAX);
}

bool madi_yield_was_slow(int64_t before, int64_t after, int64_t slow, int64_t *banned)
{
    if (MADI_LIKELY(after - before <= slow))
        return false;
    *banned = madi_ban_until(before, after);
    return true;
}
