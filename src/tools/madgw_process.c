/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_process.h"

#include "tools/madgw_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define RATE_FD 3
#define WORDS 16
#define CANNOT 126 /* exit code of a child that could not be set up; the child reports why */

typedef struct child {
    const madi_job_t *job;
    const madi_serve_options_t *options;
    int dir_fd, log_fd;
    pid_t parent;
    char path[PATH_MAX], rate[12], budget[40];
    const char *words[WORDS];
    char **env;
} child_t;

static void child_failed(const char *what)
{
    dprintf(STDERR_FILENO, "madgw: %s: %s\n", what, strerror(errno));
    _exit(CANNOT);
}

/* True for environment variables that a job's process inherits: knobs, except those that the job file or this process
 * sets. */
static bool is_passed(const char *pair)
{
    static const char *const names[] = {"PATH=", "LD_LIBRARY_PATH=", "LANG=", "LC_ALL=", "TZ="};
    static const char *const own[] = {"MAD_TOPOLOGY=", "MAD_FORWARD_BUDGET=", "MAD_BOOT_FD=", "MAD_GATEWAYS="};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strncmp(pair, own[i], strlen(own[i])))
            return false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(pair, names[i], strlen(names[i])))
            return true;
    return !strncmp(pair, "MAD_", 4);
}

static bool env_make(child_t *child)
{
    int n = 0, used = 0;
    while (environ[n])
        n++;
    child->env = calloc((size_t)n + 2, sizeof(char *));
    if (!child->env)
        return false;
    for (int i = 0; i < n; i++)
        if (is_passed(environ[i]))
            child->env[used++] = environ[i];
    snprintf(child->budget, sizeof child->budget, "MAD_FORWARD_BUDGET=%" PRId64,
             child->options->budget / child->options->jobs);
    child->env[used] = child->budget;
    return true;
}

static void words_make(child_t *child, bool by_descriptor)
{
    const madi_serve_options_t *o = child->options;
    int n = 0;
    snprintf(child->path, sizeof child->path, "%s/%s", o->dir, child->job->name);
    snprintf(child->rate, sizeof child->rate, "%d", RATE_FD);
    child->words[n++] = "madgw";
    child->words[n++] = "--join";
    child->words[n++] = by_descriptor ? "-" : child->path;
    child->words[n++] = "--rate-page";
    child->words[n++] = child->rate;
    if (o->verbose)
        child->words[n++] = "-v";
    if (o->no_filter)
        child->words[n++] = "--no-filter";
    child->words[n] = NULL;
}

/* Open a file that belongs to root and that the user of the process cannot open. */
static int file_open(const child_t *child)
{
    struct stat st;
    int fd = openat(child->dir_fd, child->job->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        child_failed("its file cannot be opened");
    if (st.st_ino != child->job->file.st_ino || st.st_uid != 0) {
        errno = ESTALE;
        child_failed("its file is another one now");
    }
    return fd;
}

static void gw_child_run(child_t *child)
{
    bool by_descriptor = geteuid() == 0 && child->job->file.st_uid == 0;
    char why[300];
    sigset_t none;
    int in, out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(child->log_fd, STDERR_FILENO);
    in = by_descriptor ? file_open(child) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(child->job->rate_fd, RATE_FD) < 0)
        child_failed("descriptors");
    words_make(child, by_descriptor);
    setsid();
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (madi_confine_user(child->job->uid, child->job->gid, why, sizeof why) != 0) {
        dprintf(STDERR_FILENO, "madgw: %s\n", why);
        _exit(CANNOT);
    }
    if (chdir("/") != 0)
        child_failed("/");
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* set after the change of user, which clears this setting */
    if (getppid() != child->parent)
        _exit(CANNOT);
    execve("/proc/self/exe", (char *const *)(uintptr_t)child->words, child->env);
    child_failed("it cannot be executed");
}

bool madi_process_start(madi_job_t *job, const madi_serve_options_t *options, int dir_fd)
{
    child_t child = {.job = job, .options = options, .dir_fd = dir_fd, .parent = getpid()};
    int ends[2], error;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    child.log_fd = ends[1];
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || !env_make(&child))
        goto fail;
    job->pid = fork();
    if (job->pid == 0)
        gw_child_run(&child);
    if (job->pid < 0)
        goto fail;
    free(child.env);
    close(ends[1]);
    if (job->log >= 0)
        close(job->log);
    job->log = ends[0];
    job->line_len = 0;
    return true;
fail:
    error = errno;
    job->pid = 0;
    free(child.env);
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return false;
}
