/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleep, and the conversion of POSIX deadlines. */
#include "marcel/sleep.h"
#include "base/clock.h"
#include "marcel/cancel.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>

#define SECOND INT64_C(1000000000)

static bool timespec_is_valid(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < SECOND;
}

static int64_t timespec_nanoseconds(const struct timespec *time)
{
    return time->tv_sec >= INT64_MAX / SECOND ? INT64_MAX : time->tv_sec * SECOND + time->tv_nsec;
}

int madi_deadline_of(clockid_t clock, const struct timespec *until, int64_t *deadline)
{
    struct timespec now;
    int64_t left;
    if (until->tv_nsec < 0 || until->tv_nsec >= SECOND || !madi_clock_known(clock))
        return EINVAL;
    if (until->tv_sec < 0) {
        *deadline = 0;
    } else if (clock == CLOCK_MONOTONIC) {
        *deadline = timespec_nanoseconds(until);
    } else {
        clock_gettime(clock, &now);
        left = timespec_nanoseconds(until) - timespec_nanoseconds(&now);
        *deadline = left > 0 ? madi_deadline(left) : 0;
    }
    return 0;
}

int madi_timed(int (*wait)(void *what, void *with, int64_t deadline), void *what, void *with, clockid_t clock,
               const struct timespec *until)
{
    int64_t deadline;
    int rc = madi_deadline_of(clock, until, &deadline);
    return rc ? rc : wait(what, with, deadline);
}

int marcel_nanosleep(const struct timespec *time, struct timespec *remaining)
{
    madi_party_t *self = madi_party_self();
    if (!timespec_is_valid(time))
        return EINVAL;
    if (self) {
        madi_cancel_point(self);
        if (madi_sleep_until(self, madi_deadline(timespec_nanoseconds(time))) == ECANCELED)
            madi_cancel_act(self);
    } else {
        nanosleep(time, NULL);
    }
    if (remaining)
        *remaining = (struct timespec){0, 0};
    return 0;
}

int marcel_usleep(unsigned long microseconds)
{
    struct timespec time = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    return marcel_nanosleep(&time, NULL);
}

int marcel_sleep(unsigned seconds)
{
    struct timespec time = {(time_t)seconds, 0};
    return marcel_nanosleep(&time, NULL);
}
