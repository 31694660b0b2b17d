/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the sockets of processes.
 *
 * A process in a container may have another /tmp, which is reached through /proc/PID/root.  The process may have another
 * process number; the number that it sees itself, which is part of the socket's name, is the last one of NSpid.  The process
 * may have another user number, so every madeleine-* directory is searched.  The process number that the kernel reports for
 * the listener proves that a socket belongs to the process. */
#include "tools/mad_info_query.h"

#include "base/unix.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- One process ------------------------------------------------------------------------------------------------ */

static bool is_owner(int fd, int pid)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid == pid;
}

static void find_in(void *arg, const char *dir)
{
    madi_target_t *t = arg;
    char start[24], path[1024];
    struct dirent *e;
    DIR *d = opendir(dir);
    snprintf(start, sizeof start, "ask-%d-", t->inner_pid);
    while (d && (e = readdir(d))) {
        int fd;
        if (strncmp(e->d_name, start, strlen(start)))
            continue;
        if (t->count == MADI_SESSIONS_MAX) {
            fprintf(stderr, "mad_info: process %d has more than %d sessions; the others are left out\n", t->pid,
                    MADI_SESSIONS_MAX);
            break;
        }
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        fd = madi_unix_connect(path);
        if (fd < 0)
            t->full |= errno == EAGAIN;
        else if (is_owner(fd, t->pid))
            t->fds[t->count++] = fd;
        else
            close(fd);
    }
    if (d)
        closedir(d);
}

/* Call fn for every user's socket directory below root. */
static void each_directory(const char *root, void (*fn)(void *arg, const char *dir), void *arg)
{
    char tmp[64], path[512];
    struct dirent *e;
    DIR *d;
    snprintf(tmp, sizeof tmp, "%s/tmp", root);
    d = opendir(tmp);
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, "madeleine-", 10)) {
            snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
            fn(arg, path);
        }
    if (d)
        closedir(d);
}

/* Read the first line of a file of /proc/PID that contains `text` or, if begins is set, that begins with it. */
static bool line_find(int pid, const char *file, const char *text, bool begins, char *line, int len)
{
    char path[48];
    bool found = false;
    FILE *f;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    f = fopen(path, "re");
    while (f && !found && fgets(line, len, f))
        found = begins ? !strncmp(line, text, strlen(text)) : strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

bool madi_status_line(int pid, const char *name, char *value, size_t len)
{
    char line[256];
    if (!line_find(pid, "status", name, true, line, sizeof line))
        return false;
    line[strcspn(line, "\n")] = 0;
    snprintf(value, len, "%s", line + strlen(name) + strspn(line + strlen(name), " \t"));
    return true;
}

static int inner_pid(int pid)
{
    char line[128], *last;
    if (!madi_status_line(pid, "NSpid:", line, sizeof line))
        return pid;
    last = strrchr(line, '\t');
    return atoi(last ? last + 1 : line);
}

static void find_sockets(madi_target_t *t)
{
    char root[32];
    t->inner_pid = inner_pid(t->pid);
    each_directory("", find_in, t);
    if (t->count)
        return;
    snprintf(root, sizeof root, "/proc/%d/root", t->pid);
    each_directory(root, find_in, t);
}

/* Explain why no socket was found. */
static void why_none(int pid, char *why)
{
    char line[512];
    if (line_find(pid, "maps", "libmadeleine", false, line, sizeof line))
        snprintf(why, MADI_INFO_WHY_MAX,
                 "process %d has no Madeleine session at the moment, or could not make its socket in /tmp: start it with "
                 "MAD_LOG=info to see why",
                 pid);
    else
        snprintf(why, MADI_INFO_WHY_MAX,
                 "process %d does not use Madeleine: give the number of a process that does "
                 "(not that of madrun or a shell)",
                 pid);
}

bool madi_target_find(madi_target_t *t, char *why)
{
    char root[32];
    struct stat st;
    struct passwd *user;
    snprintf(root, sizeof root, "/proc/%d", t->pid);
    if (stat(root, &st)) {
        snprintf(why, MADI_INFO_WHY_MAX, "there is no process %d (that this user can see)", t->pid);
        return false;
    }
    if (st.st_uid != geteuid() && geteuid() != 0) {
        user = getpwuid(st.st_uid);
        snprintf(why, MADI_INFO_WHY_MAX, "process %d belongs to %s: only that user, or root, can query it", t->pid,
                 user ? user->pw_name : "another user");
        return false;
    }
    find_sockets(t);
    if (!t->count && !t->full)
        why_none(t->pid, why);
    return t->count || t->full;
}

/* ---- All processes ---------------------------------------------------------------------------------------------- */

/* The process numbers, as seen by the processes themselves, of the sockets in this host's /tmp. */
typedef struct owners {
    int *pids, n;
} owners_t;

static void owners_in(void *arg, const char *dir)
{
    owners_t *o = arg;
    struct dirent *e;
    DIR *d = opendir(dir);
    int pid;
    while (d && (e = readdir(d))) {
        int *more = sscanf(e->d_name, "ask-%d-", &pid) == 1 ? realloc(o->pids, (size_t)(o->n + 1) * sizeof *more) : NULL;
        if (!more)
            continue;
        o->pids = more;
        o->pids[o->n++] = pid;
    }
    if (d)
        closedir(d);
}

/* True if the process sees the same /tmp as this one. */
static bool same_mounts(int pid)
{
    char path[48];
    struct stat here, there;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
    return !stat("/proc/self/ns/mnt", &here) && !stat(path, &there) && here.st_ino == there.st_ino;
}

/* True if the process may have a session. */
static bool may_be(const owners_t *owners, int pid)
{
    char path[32];
    struct stat st;
    int inner;
    snprintf(path, sizeof path, "/proc/%d", pid);
    if (stat(path, &st) || (st.st_uid != geteuid() && geteuid() != 0))
        return false;
    if (!same_mounts(pid))
        return true;
    inner = inner_pid(pid);
    for (int i = 0; i < owners->n; i++)
        if (owners->pids[i] == inner)
            return true;
    return false;
}

int madi_target_find_all(madi_target_t **targets)
{
    owners_t owners = {0};
    struct dirent *e;
    DIR *d = opendir("/proc");
    int n = 0;
    *targets = NULL;
    each_directory("", owners_in, &owners);
    while (d && (e = readdir(d))) {
        madi_target_t t = {.pid = atoi(e->d_name)}, *more;
        if (!isdigit((unsigned char)e->d_name[0]) || !may_be(&owners, t.pid))
            continue;
        find_sockets(&t);
        more = t.count || t.full ? realloc(*targets, (size_t)(n + 1) * sizeof *more) : NULL;
        if (!more)
            continue;
        *targets = more;
        more[n++] = t;
    }
    if (d)
        closedir(d);
    free(owners.pids);
    return n;
}
