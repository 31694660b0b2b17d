/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of marcel.h about descriptors: fd [CASE...]. */
#include "fd.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

_Atomic(int) got;

bool pipe_make(int fd[2])
{
    return CHECK_EQ(pipe2(fd, O_CLOEXEC), 0);
}

void close_both(int fd[2])
{
    CHECK_EQ(marcel_close(fd[0]), 0);
    CHECK_EQ(marcel_close(fd[1]), 0);
}

void settle(void)
{
    for (int i = 0; i < 10; i++)
        marcel_yield();
    marcel_usleep(1000);
}

void *read_one(void *arg)
{
    char c;
    CHECK_EQ(marcel_read(*(int *)arg, &c, 1), 1);
    atomic_fetch_add(&got, 1);
    return NULL;
}

/* ---- An older kernel -------------------------------------------------------------------------------------------- */

static bool older; /* true: RWF_NOWAIT works for files only, as before Linux 6.5 */

/* Replaces the C library's function, for libmarcel too. */
ssize_t preadv2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (older && flags & RWF_NOWAIT)
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_preadv2, fd, blocks, count, (long)offset, 0L, flags);
}

ssize_t pwritev2(int fd, const struct iovec *blocks, int count, off_t offset, int flags)
{
    if (older && flags & RWF_NOWAIT)
        return errno = EOPNOTSUPP, -1;
    return syscall(SYS_pwritev2, fd, blocks, count, (long)offset, 0L, flags);
}

/* ---- All ---------------------------------------------------------------------------------------------------------- */

static const test_case_t cases[] = {
    {"bytes_go_both_ways", test_bytes_go_both_ways},
    {"waiting_threads_need_no_kernel_thread", test_waiting_threads_need_no_kernel_thread},
    {"waits_of_100000_threads_are_cheap", test_waits_of_100000_threads_are_cheap},
    {"descriptor_serves_several_threads", test_descriptor_serves_several_threads},
    {"gathered_read_fills_its_pieces", test_gathered_read_fills_its_pieces},
    {"long_write_is_completed", test_long_write_is_completed},
    {"listening_socket_serves_several_threads", test_listening_socket_serves_several_threads},
    {"wait_ends_with_event_or_deadline", test_wait_ends_with_event_or_deadline},
    {"every_kind_of_file_can_be_waited_for", test_every_kind_of_file_can_be_waited_for},
    {"errors_are_those_of_the_system", test_errors_are_those_of_the_system},
    {"close_ends_the_waits", test_close_ends_the_waits},
    {"others_run_while_a_thread_waits", test_others_run_while_a_thread_waits},
    {"sleep_lasts_its_time", test_sleep_lasts_its_time},
    {"cancel_ends_every_wait", test_cancel_ends_every_wait},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    setenv("MAD_MONITOR", "0", 1); /* the monitor opens files at any time, and could get a number that a case expects */
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    older = true;
    test_run(&(test_suite_t){.cases = cases, .seconds = 60, .suffix = ", older kernel"}, argc, argv);
    return test_over(end_now);
}
