/* SPDX-License-Identifier: BSD-3-Clause */
/* The keeper: the process outside a lab that starts it and waits for its end. */
#include "tools/madlab_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000 /* ms: time that the first process gets to end by itself */

static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static long number_in(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 ? atol(text) : -1;
}

/* Report why namespaces are unavailable, with a remedy. */
static void refused_say(int error)
{
    if (error == ENOSPC)
        madi_lab_say("namespaces cannot be made: there are as many as the limits in /proc/sys/user permit");
    else if (geteuid() == 0)
        madi_lab_say("namespaces cannot be made: %s: root has not the capability SYS_ADMIN here; in a container, start it "
                     "with --cap-add SYS_ADMIN --cap-add NET_ADMIN, and a seccomp profile that permits unshare and mount",
                     strerror(error));
    else if (number_in("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        madi_lab_say("namespaces cannot be made: users other than root may not: run madlab as root, or let root do: "
                     "sysctl -w kernel.unprivileged_userns_clone=1");
    else if (number_in("/proc/sys/user/max_user_namespaces") == 0)
        madi_lab_say("namespaces cannot be made: users other than root may not: run madlab as root, or let root do: "
                     "sysctl -w user.max_user_namespaces=10000");
    else
        madi_lab_say("namespaces cannot be made: %s: run madlab as root", strerror(error));
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Map the calling user to root in the namespace. */
static bool map_users(pid_t pid)
{
    char path[64], map[64];
    snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
    write_text(path, "deny"); /* does not exist before Linux 3.19 */
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
    snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)geteuid());
    if (!write_text(path, map))
        return false;
    snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
    snprintf(map, sizeof(map), "0 %u 1\n", (unsigned)getegid());
    return write_text(path, map);
}

static pid_t first_start(const madi_lab_run_t *run, const int fds[2], int signals, const sigset_t *mask)
{
    const unsigned long flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID | SIGCHLD;
    bool user = geteuid() != 0;
    pid_t pid = -1;
    if (!user) {
        pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL); /* like fork */
        user = pid < 0 && errno == EPERM;
    }
    if (user)
        pid = (pid_t)syscall(SYS_clone, flags | CLONE_NEWUSER, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        close(fds[1]);
        close(signals);
        madi_lab_first(run, fds[0], mask);
    }
    if (pid < 0) {
        refused_say(errno);
        return -1;
    }
    if (!user && !run->quiet)
        madi_lab_say(
            "root runs this lab, which is no sandbox: its processes are root's on this machine, and change its files");
    if (user && !map_users(pid)) {
        madi_lab_say("the user cannot be made root of the lab: %s: run madlab as root", strerror(errno));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return -1;
    }
    return pid;
}

static int wait_end(pid_t pid, int pipe, int signals)
{
    struct signalfd_siginfo info;
    bool ending = false;
    pid_t ended;
    int status;
    for (;;) {
        struct pollfd look = {.fd = signals, .events = POLLIN};
        if (poll(&look, 1, ending ? PATIENCE_MS : -1) == 0)
            kill(pid, SIGKILL);
        if (!look.revents || read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
            continue;
        if (info.ssi_signo != SIGCHLD) {
            unsigned char byte = (unsigned char)(info.ssi_signo | (info.ssi_code == SI_KERNEL ? MADI_LAB_TERMINAL : 0));
            if (write(pipe, &byte, 1) != 1) /* the pipe is full, because the process does not read it */
                kill(pid, SIGKILL);
            ending = ending || (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2 && info.ssi_code != SI_KERNEL);
            continue;
        }
        do /* if this is the first process of a container, it must also reap orphans */
            ended = waitpid(-1, &status, WNOHANG);
        while (ended > 0 && ended != pid);
        if (ended != pid)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        madi_lab_say("the lab was killed (signal %d)", WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
}

int madi_lab_run(const madi_lab_run_t *run)
{
    int fds[2], signals, code = MADI_LAB_FAILED;
    sigset_t set, mask;
    pid_t pid;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        sigaddset(&set, passed[i]);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, &mask);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (signals < 0 || pipe2(fds, O_CLOEXEC) != 0) {
        madi_lab_say("no lab can be made: %s", strerror(errno));
        return MADI_LAB_FAILED;
    }
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    fflush(NULL);
    pid = first_start(run, fds, signals, &mask);
    close(fds[0]);
    signal(SIGPIPE, SIG_IGN); /* the first process may have ended */
    if (pid > 0 && write(fds[1], "+", 1) == 1)
        code = wait_end(pid, fds[1], signals);
    close(fds[1]);
    close(signals);
    return code;
}
