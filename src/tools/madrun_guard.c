/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_guard.h"

#include "tools/madrun_orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t guard;
static int guard_fd = -1;
static char mark[40]; /* "" before the first use */

static ssize_t read_group(int fd, pid_t *group)
{
    ssize_t n;
    do
        n = read(fd, group, sizeof(*group));
    while (n < 0 && errno == EINTR);
    return n;
}

static _Noreturn void guard_run(int fd)
{
    pid_t *groups = NULL, group;
    size_t count = 0, room = 0;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid(); /* signals to madrun's process group must not reach the guard */
    prctl(PR_SET_NAME, "madrun-guard");
    dup2(fd, 0); /* keep no other descriptor open, since another process may wait for its end */
    close_range(1, ~0u, 0);
    while (read_group(0, &group) == (ssize_t)sizeof(group)) {
        if (group == 0)
            _exit(0);
        if (count == room) {
            pid_t *more = realloc(groups, (room = 2 * room + 64) * sizeof(pid_t));
            if (!more)
                break;
            groups = more;
        }
        groups[count++] = group;
    }
    for (size_t i = 0; i < count; i++)
        kill(-groups[i], SIGKILL);
    madi_run_orphans_kill_marked(mark);
    _exit(0);
}

void madi_run_guard_start(void)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    madi_run_guard_mark();
    guard = fork();
    if (guard == 0) {
        close(fds[1]);
        guard_run(fds[0]);
    }
    close(fds[0]);
    guard_fd = fds[1];
    if (guard < 0) {
        close(guard_fd);
        guard_fd = -1;
        guard = 0;
    }
}

void madi_run_guard_add(pid_t group)
{
    if (guard_fd >= 0 && write(guard_fd, &group, sizeof(group)) != (ssize_t)sizeof(group)) {
        close(guard_fd);
        guard_fd = -1;
    }
}

bool madi_run_guard_is(pid_t pid)
{
    return guard > 0 && pid == guard;
}

const char *madi_run_guard_mark(void)
{
    uint64_t number;
    if (!mark[0] && getrandom(&number, sizeof(number), 0) == (ssize_t)sizeof(number))
        snprintf(mark, sizeof(mark), "MADRUN_JOB=%016" PRIx64, number);
    return mark;
}

void madi_run_guard_end(void)
{
    madi_run_guard_add(0);
    if (guard_fd >= 0)
        close(guard_fd);
    guard_fd = -1;
    while (guard > 0 && waitpid(guard, NULL, 0) < 0 && errno == EINTR)
        ;
    guard = 0;
}
