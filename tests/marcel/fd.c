/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors, as marcel.h promises: fd [CASE...]. */
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

static bool older; /* RWF_NOWAIT is known for files only, as before Linux 6.5 */

/* In place of the C library's, for libmarcel too. */
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
    {"to_and_fro", test_to_and_fro},
    {"many", test_many},
    {"crowd", test_crowd},
    {"shared", test_shared},
    {"pieces", test_pieces},
    {"big", test_big},
    {"connections", test_connections},
    {"poll", test_poll},
    {"kinds", test_kinds},
    {"errors", test_errors},
    {"close", test_close},
    {"others", test_others},
    {"sleep", test_sleep},
    {"cancel", test_cancel},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    setenv("MAD_MONITOR", "0", 1); /* it opens files as it likes: a number that is to be another's next would be its own */
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    older = true;
    test_run(&(test_suite_t){.cases = cases, .seconds = 60, .suffix = ", older kernel"}, argc, argv);
    return test_over(end_now);
}
