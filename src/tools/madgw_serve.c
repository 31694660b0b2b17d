/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_serve.h"

#include "base/clock.h"
#include "tools/madgw_confine.h"
#include "tools/madgw_filter.h"
#include "tools/madgw_rate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOOK_MS 2000 /* ms between scans if the kernel reports no changes, for instance those that other hosts make on NFS */
#define FDS (2 + MADI_SERVE_JOBS_MAX)

typedef struct serve {
    const madi_serve_options_t *options;
    int signals, notes; /* notes: inotify's descriptor, -1: none */
    int end_signals;    /* number of received signals that request the end */
    bool scan;          /* something in the directory has changed */
    int64_t scanned, rated;
    struct pollfd fds[FDS];
    madi_job_t *of[FDS];
    int n;
} serve_t;

static void signals_read(serve_t *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        if (info.ssi_signo == SIGHUP && s->end_signals)
            continue;
        s->end_signals++;
        madi_jobs_signal(s->end_signals > 1 ? SIGKILL : SIGTERM);
    }
    madi_jobs_collect();
    s->scan = true; /* scan again, because a place is free or a job has left */
}

static void notes_read(serve_t *s)
{
    char notes[4096] __attribute__((aligned(8)));
    while (read(s->notes, notes, sizeof notes) > 0)
        s->scan = true;
}

static void serve_poll_set(serve_t *s)
{
    s->n = 0;
    s->fds[s->n++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    s->fds[s->n++] = (struct pollfd){.fd = s->notes, .events = POLLIN};
    for (madi_job_t *job = madi_jobs_first(); job && s->n < FDS; job = job->next)
        if (job->log >= 0) {
            s->of[s->n] = job;
            s->fds[s->n++] = (struct pollfd){.fd = job->log, .events = POLLIN};
        }
}

static bool some_run(void)
{
    for (madi_job_t *job = madi_jobs_first(); job; job = job->next)
        if (job->pid)
            return true;
    return false;
}

/* Do what is due, and return the ms until the next task. */
static int due_do(serve_t *s)
{
    int64_t now = madi_now();
    int next = LOOK_MS, later;
    if (s->scan || now - s->scanned >= LOOK_MS * INT64_C(1000000)) {
        s->scan = false;
        s->scanned = now;
        madi_jobs_scan();
    }
    later = madi_jobs_start_due();
    if (later >= 0 && later < next)
        next = later;
    if (!s->options->rate || !some_run())
        return next;
    if (now - s->rated >= MADI_RATE_MS * INT64_C(1000000)) {
        madi_rate_look((uint64_t)s->options->rate, now - s->rated);
        s->rated = now;
    }
    return next < MADI_RATE_MS ? next : MADI_RATE_MS;
}

static void serve_loop(serve_t *s)
{
    while (!s->end_signals || some_run()) {
        int wait = due_do(s);
        serve_poll_set(s);
        if (poll(s->fds, (nfds_t)s->n, wait) <= 0)
            continue;
        for (int i = 2; i < s->n; i++)
            if (s->fds[i].revents)
                madi_job_log(s->of[i]);
        if (s->fds[1].revents)
            notes_read(s);
        if (s->fds[0].revents)
            signals_read(s);
    }
}

/* Also receive SIGCHLD, which a process that serves only one job ignores. */
static int signals_add(int signals)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    return sigprocmask(SIG_BLOCK, &set, NULL) == 0 ? signalfd(signals, &set, 0) : -1;
}

int madi_serve(const madi_serve_options_t *options, int signals)
{
    serve_t s = {.options = options, .signals = signals, .scan = true};
    char why[300];
    if (madi_jobs_open(options, why, sizeof why) != 0 || signals_add(signals) < 0) {
        fprintf(stderr, "madgw: --serve %s: %s\n", options->dir, why);
        return 1;
    }
    s.notes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (s.notes < 0 || inotify_add_watch(s.notes, options->dir, IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_ATTRIB) < 0)
        fprintf(stderr, "madgw: --serve %s: the kernel reports no changes there: %s; scanned every %d s\n", options->dir,
                strerror(errno), LOOK_MS / 1000);
    madi_confine_serve();
    if (options->verbose)
        fprintf(stderr, "madgw: serves the jobs of %s\n", options->dir);
    s.rated = madi_now();
    serve_loop(&s);
    madi_jobs_close();
    if (s.notes >= 0)
        close(s.notes);
    return s.end_signals > 1 ? 128 + SIGTERM : 0;
}

void madi_serve_show(const madi_serve_options_t *o)
{
    const char *allow = getenv("MAD_TCP_ALLOW");
    printf("jobs               %d at once, %d of a user\n", o->jobs, o->user_jobs);
    printf("fragments          %lld bytes of each job, %lld of all\n", (long long)(o->budget / o->jobs),
           (long long)o->budget);
    if (o->rate)
        printf("bandwidth          %lld bytes/s of all, divided evenly among those that need it\n", (long long)o->rate);
    else
        printf("bandwidth          not limited (--rate)\n");
    printf("connections        to and from %s (--allow)\n", allow && *allow ? allow : "any address");
    if (o->no_filter)
        printf("system calls       any (--no-filter)\n");
    else
        madi_filter_show("system calls       ");
    printf("root's jobs        run as user %u\n", (unsigned)o->uid);
}
