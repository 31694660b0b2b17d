/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds children in /proc; a child that madrun has not started itself is an orphan.  (Waiting for any child
 * would also reap ranks, which must stay zombies until the last one has ended; see madrun_local.c.) */
#include "tools/madrun_orphans.h"

#include "base/clock.h"
#include "tools/madrun_guard.h"
#include "tools/madrun_local.h"
#include "tools/madrun_loop.h"
#include "tools/madrun_remote.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_NS 100000000LL /* ns: shortest interval between scans of /proc */
#define REAP_PART 20        /* least interval, as a multiple of the duration of a scan */
#define ROUNDS_MAX 1000     /* scans: limit for marked processes that keep starting others */

/* A process as described in /proc. */
typedef struct orphan_entry {
    const char *name; /* directory in /proc; if /proc is of another PID namespace, so is this number */
    pid_t pid;        /* number of the process in our namespace */
    bool zombie;
} orphan_entry_t;

typedef bool act_t(const orphan_entry_t *entry, void *arg); /* returns true if the process is to be counted */

static pid_t *strangers; /* children that existed before madrun began */
static size_t stranger_count;
static madi_run_timer_t timer;
static int64_t pause_ns = REAP_NS;

/* ---- /proc ------------------------------------------------------------------------------------------------------ */

static bool orphan_file_read(const char *name, const char *file, madi_run_buffer_t *to)
{
    char path[300], part[16384];
    ssize_t n;
    int fd;
    snprintf(path, sizeof(path), "/proc/%s/%s", name, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while ((n = read(fd, part, sizeof(part))) > 0)
        madi_run_buffer_add(to, part, (size_t)n);
    madi_run_buffer_add(to, "", 1);
    close(fd);
    return to->len > 1;
}

/* Return the text that follows "\nFIELD:\t" in a status file; "" if the field is missing. */
static const char *field(const char *status, const char *name)
{
    const char *at = strstr(status, name);
    return at ? at + strlen(name) : "";
}

/* Return a process's number in this process's PID namespace.  A process's numbers are listed from the outermost namespace
 * inwards, and depth is this process's level. */
static pid_t number_here(const char *numbers, int depth)
{
    char *end = NULL;
    long pid = -1;
    for (int i = 0; i < depth; i++, numbers = end) {
        pid = strtol(numbers, &end, 10);
        if (end == numbers)
            return -1;
    }
    return (pid_t)pid;
}

/* Return this process's level of nested PID namespaces, as seen in /proc. */
static int depth_here(void)
{
    madi_run_buffer_t status = {0};
    int depth = 0;
    if (orphan_file_read("self", "status", &status)) {
        const char *at = field(madi_run_buffer_at(&status), "\nNSpid:");
        char *end;
        while (strtol(at, &end, 10) > 0 && end != at)
            depth++, at = end;
    }
    madi_run_buffer_free(&status);
    return depth ? depth : 1;
}

/* Call act for each process, or only for each child of this process.  Return the number of processes counted. */
static int processes_each(bool children, act_t *act, void *arg)
{
    char self[32] = "";
    ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
    int depth = depth_here(), count = 0;
    DIR *dir = n > 0 ? opendir("/proc") : NULL;
    for (struct dirent *found; dir && (found = readdir(dir)) != NULL;) {
        madi_run_buffer_t status = {0};
        if (isdigit((unsigned char)found->d_name[0]) && orphan_file_read(found->d_name, "status", &status)) {
            const char *text = madi_run_buffer_at(&status);
            const orphan_entry_t entry = {found->d_name, number_here(field(text, "\nNSpid:"), depth),
                                          *field(text, "\nState:\t") == 'Z'};
            if (entry.pid > 0 && (!children || atoi(field(text, "\nPPid:")) == atoi(self)))
                count += act(&entry, arg);
        }
        madi_run_buffer_free(&status);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* True if the initial environment of a process contains mark, a "NAME=VALUE". */
static bool has_mark(const char *name, const char *mark)
{
    madi_run_buffer_t all = {0};
    size_t len = strlen(mark) + 1;
    bool found = false;
    if (orphan_file_read(name, "environ", &all)) {
        const char *at = madi_run_buffer_at(&all), *end = at + all.len;
        for (; !found && at < end; at += strlen(at) + 1)
            found = (size_t)(end - at) >= len && memcmp(at, mark, len) == 0;
    }
    madi_run_buffer_free(&all);
    return found;
}

/* ---- Children --------------------------------------------------------------------------------------------------- */

static bool stranger_add(const orphan_entry_t *entry, void *arg)
{
    (void)arg;
    if ((stranger_count & (stranger_count - 1)) == 0) {
        pid_t *more = madi_run_alloc(stranger_count ? 2 * stranger_count : 1, sizeof(*more));
        if (stranger_count)
            memcpy(more, strangers, stranger_count * sizeof(*more));
        free(strangers);
        strangers = more;
    }
    strangers[stranger_count++] = entry->pid;
    return true;
}

static bool is_stranger(pid_t pid)
{
    for (size_t i = 0; i < stranger_count; i++)
        if (strangers[i] == pid)
            return true;
    return false;
}

static bool process_is_ours(pid_t pid)
{
    return madi_run_guard_is(pid) || madi_run_local_has(pid) || madi_run_remote_has(pid);
}

static bool collect(const orphan_entry_t *entry, void *arg)
{
    (void)arg;
    return entry->zombie && !process_is_ours(entry->pid) && waitpid(entry->pid, NULL, WNOHANG) == entry->pid;
}

static bool orphan_end(const orphan_entry_t *entry, void *arg)
{
    if (process_is_ours(entry->pid) || collect(entry, arg) || is_stranger(entry->pid) ||
        has_mark(entry->name, MADI_RUN_OF_AGENT))
        return false;
    return kill(entry->pid, SIGKILL) == 0 && waitpid(entry->pid, NULL, WNOHANG) == 0;
}

static void reap(void)
{
    int64_t begin = madi_now(), took;
    processes_each(true, collect, NULL);
    took = madi_now() - begin;
    pause_ns = REAP_PART * took > REAP_NS ? REAP_PART * took : REAP_NS;
}

void madi_run_orphans_init(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    processes_each(true, stranger_add, NULL);
}

void madi_run_orphans_reap(void)
{
    if (timer.at == 0)
        madi_run_timer_set(&timer, pause_ns, reap);
}

int madi_run_orphans_kill(void)
{
    siginfo_t any;
    if (waitid(P_ALL, 0, &any, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD)
        return 0;
    return processes_each(true, orphan_end, NULL);
}

/* ---- For the guard ---------------------------------------------------------------------------------------------- */

static bool end_marked(const orphan_entry_t *entry, void *arg)
{
    return !entry->zombie && has_mark(entry->name, arg) && kill(entry->pid, SIGKILL) == 0;
}

void madi_run_orphans_kill_marked(const char *mark)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%s", mark);
    for (int i = 0; i < ROUNDS_MAX && processes_each(false, end_marked, copy) > 0; i++)
        ;
}
