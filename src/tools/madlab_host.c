/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_host.h"

#include "tools/madlab_exec.h"
#include "tools/madlab_base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_line(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, text, strlen(text)) < 0) { /* this kernel has no such setting */
        }
        close(fd);
    }
}

/* Disable forwarding between a host's interfaces.  A new namespace may inherit the machine's settings. */
static void forwarding_stop(void)
{
    write_line("/proc/sys/net/ipv4/ip_forward", "0");
    write_line("/proc/sys/net/ipv6/conf/all/forwarding", "0");
    /* an interface must not answer for the address of another one */
    write_line("/proc/sys/net/ipv4/conf/all/arp_ignore", "1");
    write_line("/proc/sys/net/ipv4/conf/all/arp_announce", "2");
}

static bool host_prepare(const madi_lab_host_setup_t *setup, char *why, size_t len)
{
    char *hosts = madi_lab_text("%s/hosts/%s", MADI_LAB_DIR, setup->name);
    if (setns(setup->space, CLONE_NEWNET) != 0 || sethostname(setup->name, strlen(setup->name)) != 0) {
        snprintf(why, len, "%s", strerror(errno));
        return false;
    }
    if (!madi_lab_mounts_make(setup->shares, false, why, len))
        return false;
    madi_lab_mounts_replace("/etc/hosts", hosts);
    free(hosts);
    forwarding_stop();
    setenv("HOSTNAME", setup->name, 1);
    setenv("MADLAB_HOST", setup->name, 1);
    return true;
}

/* Serve until the host is killed. */
static _Noreturn void host_serve(const madi_lab_host_setup_t *setup, int listener)
{
    struct signalfd_siginfo info;
    sigset_t set;
    int signals;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    for (;;) {
        struct pollfd look[2] = {{.fd = listener, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
        if (poll(look, 2, -1) < 0)
            continue;
        if (look[1].revents) {
            while (read(signals, &info, sizeof(info)) > 0)
                ;
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        }
        if (look[0].revents) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0 && fork() == 0) {
                close(listener);
                close(signals);
                madi_lab_exec_serve(fd, setup->name, setup->mask);
            }
            close(fd);
        }
    }
}

static _Noreturn void host_run(const madi_lab_host_setup_t *setup, int ready)
{
    char why[512] = "";
    int listener, null = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    madi_lab_title("madlab-host", setup->name);
    if (host_prepare(setup, why, sizeof(why))) {
        listener = madi_lab_exec_listen(setup->name);
        if (listener >= 0) {
            for (int i = 0; i < 3; i++)
                dup2(null, i);
            listener = fcntl(listener, F_DUPFD, 10); /* a number from 10 on, because 3 and 4 are needed */
            ready = fcntl(ready, F_DUPFD, 10);
            dup2(listener, 3);
            dup2(ready, 4);
            close_range(5, ~0u, 0);
            fcntl(3, F_SETFD, FD_CLOEXEC);
            if (write(4, "+", 1) != 1)
                _exit(1);
            close(4);
            host_serve(setup, 3);
        }
        snprintf(why, sizeof(why), "it cannot listen: %s", strerror(errno));
    }
    if (write(ready, why, strlen(why)) < 0)
        _exit(1);
    _exit(1);
}

pid_t madi_lab_host_start(const madi_lab_host_setup_t *setup, int *ready)
{
    const unsigned long flags = CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | SIGCHLD;
    int fds[2];
    pid_t pid;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        madi_lab_say("host '%s' cannot be made: %s", setup->name, strerror(errno));
        return -1;
    }
    pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL); /* like fork */
    if (pid == 0)
        host_run(setup, fds[1]);
    close(fds[1]);
    if (pid < 0) {
        madi_lab_say("host '%s' cannot be made: %s%s", setup->name, strerror(errno),
                     errno == ENOSPC ? ": the limits in /proc/sys/user are too low" : "");
        close(fds[0]);
        return -1;
    }
    *ready = fds[0];
    return pid;
}

int madi_lab_host_wait(const madi_lab_host_setup_t *setup, int ready)
{
    char text[512];
    ssize_t n = read(ready, text, sizeof(text) - 1);
    close(ready);
    if (n == 1 && text[0] == '+')
        return 0;
    text[n > 0 ? n : 0] = 0;
    madi_lab_say("host '%s' cannot be made: %s", setup->name, n > 0 ? text : "its first process ended");
    return -1;
}
