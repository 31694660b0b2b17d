/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that is stopped, by a debugger or a signal, answers nothing, like one that is absent.  For a process of this
 * host the system can distinguish the two: it knows which process is at the other end of a socket, and its state. */
#include "base/ascii.h"
#include "base/clock.h"
#include "base/knob.h"
#include "base/log.h"
#include "core/connect/connect_gate.h"
#include "core/connect/stopped.h"
#include "core/object/gate.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

char madi_process_stopped(pid_t pid)
{
    char path[40], text[512], *end, state = 0;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1); /* without stdio, since the states of all processes of a host are read */
    close(fd);
    text[n > 0 ? n : 0] = 0;
    end = strrchr(text, ')'); /* the state follows the name, which may contain any characters */
    if (end && end[1] == ' ')
        state = end[2];
    return state == 'T' || state == 't' ? state : 0;
}

/* Write an address as /proc/net/tcp and tcp6 show it.  Return false if the address is of another family. */
static bool address_text(const struct sockaddr_storage *a, char text[48])
{
    const struct sockaddr_in *v4 = (const void *)a;
    const struct sockaddr_in6 *v6 = (const void *)a;
    uint32_t word[4];
    if (a->ss_family == AF_INET) {
        snprintf(text, 48, "%08X:%04X", v4->sin_addr.s_addr, ntohs(v4->sin_port));
        return true;
    }
    memcpy(word, &v6->sin6_addr, sizeof word);
    snprintf(text, 48, "%08X%08X%08X%08X:%04X", word[0], word[1], word[2], word[3], ntohs(v6->sin6_port));
    return a->ss_family == AF_INET6;
}

/* Return the inode of the socket at that address of this host, which listens or is the other end of this process's
 * socket.  Return 0 if there is no such socket. */
static unsigned long socket_at(bool is_v6, const char *its, const char *ours)
{
    char line[512], local[64], remote[64];
    FILE *f = fopen(is_v6 ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
    unsigned long found = 0, inode;
    unsigned state;
    while (f && !found && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %63s %63s %x %*s %*s %*s %*s %*s %lu", local, remote, &state, &inode) == 4 &&
            !strcmp(local, its) && (state == 0x0a || !strcmp(remote, ours)))
            found = inode; /* the inode is 0 if the connection exists but was not accepted yet */
    if (f)
        fclose(f);
    return found;
}

static bool has_socket(pid_t pid, const char *link)
{
    char path[40], to[64];
    struct dirent *e;
    bool has = false;
    DIR *d;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    d = opendir(path);
    while (d && !has && (e = readdir(d))) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        has = !strcmp(to, link);
    }
    if (d)
        closedir(d);
    return has;
}

void madi_stopped_find(madi_stopped_t *stopped)
{
    struct dirent *e;
    DIR *d = opendir("/proc");
    stopped->n = 0;
    while (d && stopped->n < MADI_STOPPED_MAX && (e = readdir(d))) {
        pid_t pid = madi_is_digit(e->d_name[0]) ? (pid_t)strtol(e->d_name, NULL, 10) : 0;
        if (pid && madi_process_stopped(pid))
            stopped->pids[stopped->n++] = pid;
    }
    if (d)
        closedir(d);
}

pid_t madi_stopped_behind(const madi_stopped_t *stopped, int fd)
{
    struct sockaddr_storage its = {0}, ours = {0};
    socklen_t n = sizeof its, m = sizeof ours;
    char its_text[48], our_text[48], link[40];
    unsigned long inode;
    if (!stopped->n || getpeername(fd, (struct sockaddr *)&its, &n) || getsockname(fd, (struct sockaddr *)&ours, &m) ||
        !address_text(&its, its_text) || !address_text(&ours, our_text))
        return 0;
    inode = socket_at(its.ss_family == AF_INET6, its_text, our_text);
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    for (int i = 0; inode && i < stopped->n; i++)
        if (has_socket(stopped->pids[i], link))
            return stopped->pids[i];
    return 0;
}

pid_t madi_process_near(int fd)
{
    struct sockaddr_storage own;
    struct ucred who;
    socklen_t len = sizeof own, size = sizeof who;
    if (getsockname(fd, (struct sockaddr *)&own, &len) || own.ss_family != AF_UNIX ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size))
        return 0;
    return who.pid;
}

void madi_stopped_postpone(pid_t process, madi_gate_t *gate, int64_t *deadline)
{
    char state = process > 0 && *deadline < INT64_MAX ? madi_process_stopped(process) : 0;
    if (!state)
        return;
    *deadline = madi_deadline(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT));
    if (!gate)
        return;
    gate->connect->deadline = *deadline;
    if (!gate->connect->stop_logged)
        madi_log(MADI_LOG_WARN, "core",
                 "peer %d does not answer: process %d of this host is stopped (state %c), by %s; it is "
                 "waited for until it goes on (logged once)",
                 gate->peer, (int)process, state, state == 't' ? "a debugger" : "a signal");
    gate->connect->stop_logged = true;
}
