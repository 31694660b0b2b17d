/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls by their names of 0.1, for programs that were compiled with these names. */
#undef MAD_NO_OLD_NAMES
#include <marcel.h>

int marcel_workers(void)
{
    return marcel_worker_count();
}

int marcel_worker(void)
{
    return marcel_worker_index();
}

int marcel_poll_fd(int fd, int events, int clock, const struct timespec *until)
{
    return marcel_fd_wait(fd, events, clock, until);
}

int marcel_enter_blocking(void)
{
    return marcel_blocking_begin();
}

int marcel_leave_blocking(void)
{
    return marcel_blocking_end();
}
