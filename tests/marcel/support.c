/* SPDX-License-Identifier: BSD-3-Clause */
#include "support.h"

#include <sched.h>

void in_thread(void *(*run)(void *), void *arg)
{
    marcel_t thread;
    if (CHECK_EQ(marcel_create(&thread, NULL, run, arg), 0))
        CHECK_EQ(marcel_join(thread, NULL), 0);
}

struct timespec after_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms % 1000 * MS;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

int kernel_threads(void)
{
    char line[128];
    int n = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

int fini_soon(void)
{
    int rc;
    while ((rc = marcel_fini()) == EBUSY)
        sched_yield();
    return rc;
}

void end_now(void)
{
    CHECK_EQ(marcel_fini(), 0);
}

void end_soon(void)
{
    CHECK_EQ(fini_soon(), 0);
}
