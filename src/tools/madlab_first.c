/* SPDX-License-Identifier: BSD-3-Clause */
/* The first process of a lab: makes the hosts and networks, starts the command, and performs the schedule. */
#include "tools/madlab_exec.h"
#include "tools/madlab_host.h"
#include "tools/madlab_kill.h"
#include "tools/madlab_net.h"
#include "tools/madlab_run.h"
#include "topology/value.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 5.0 /* s: time from the request to end until the command is killed */

typedef struct lab {
    const madi_lab_run_t *run;
    const sigset_t *mask;
    madi_lab_links_t links;
    pid_t *pid; /* process number of each host's first process; 0 if the host is down */
    int keeper, command, children;
    double begin; /* s (monotonic clock): start of the command */
    double end;   /* s: time at which the command is killed; 0 if no end was requested */
    int code;     /* exit code then */
} lab_t;

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- setup --- */

static madi_lab_host_setup_t setup_of(const lab_t *lab, int host)
{
    return (madi_lab_host_setup_t){lab->run->plan.host[host].name, lab->links.space[host], &lab->run->shares, lab->mask};
}

/* Write /etc/hosts of a host: the hosts that it shares a network with, and itself. */
static bool names_write(const madi_lab_plan_t *plan, int host)
{
    char *path = madi_lab_text("%s/hosts/%s", MADI_LAB_DIR, plan->host[host].name);
    bool *known = madi_lab_alloc((size_t)plan->hosts, sizeof(bool));
    FILE *out = fopen(path, "we");
    bool written = out != NULL;
    if (out)
        fprintf(out, "127.0.0.1 localhost\n::1 localhost\n");
    for (int i = 0; out && i < plan->ports; i++) {
        for (int j = 0; plan->port[i].host == host && j < plan->ports; j++) {
            const madi_lab_port_t *port = &plan->port[j];
            if (port->net != plan->port[i].net || known[port->host])
                continue;
            known[port->host] = true;
            fprintf(out, "%.*s %s\n", (int)strcspn(port->address, "/"), port->address, plan->host[port->host].name);
        }
    }
    if (out && !known[host])
        fprintf(out, "127.0.1.1 %s\n", plan->host[host].name);
    if (out && fclose(out) != 0)
        written = false;
    if (!written)
        madi_lab_say("%s: %s", path, strerror(errno));
    free(known);
    free(path);
    return written;
}

static bool script_write(const char *path, const char *text)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (!good)
        madi_lab_say("%s cannot be written: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return good;
}

/* Write the launch agents: one that takes words, and one that takes arguments like ssh (options without values, then a
 * command line for a shell). */
static bool agents_write(const char *self)
{
    if (!*self || symlink(self, MADI_LAB_DIR "/madlab") != 0) {
        madi_lab_say("%s/madlab cannot be made: %s", MADI_LAB_DIR, strerror(errno));
        return false;
    }
    return script_write(MADI_LAB_DIR "/agent", "#!/bin/sh\nexec " MADI_LAB_DIR "/madlab exec \"$@\"\n") &&
           script_write(MADI_LAB_DIR "/ssh", "#!/bin/sh\nwhile case $1 in -?*) ;; *) false ;; esac; do shift; done\n"
                                             "host=$1\nshift\n"
                                             "exec " MADI_LAB_DIR "/madlab exec \"$host\" -- sh -c \"$*\"\n");
}

static void environment_set(const madi_lab_plan_t *plan)
{
    char *list = NULL;
    size_t len;
    FILE *out = open_memstream(&list, &len);
    if (!out)
        abort();
    for (int i = 0, n = 0; i < plan->hosts; i++)
        if (strcmp(plan->host[i].name, MADI_LAB_LAUNCH) != 0)
            fprintf(out, "%s%s", n++ ? "," : "", plan->host[i].name);
    fclose(out);
    setenv("MADLAB_HOSTS", list, 1);
    setenv("MADLAB_AGENT", MADI_LAB_DIR "/agent", 1);
    setenv("MADLAB_SSH", MADI_LAB_DIR "/ssh", 1);
    setenv("MADLAB_TOPOLOGY", plan->path, 1);
    free(list);
}

static bool hosts_start(lab_t *lab)
{
    const madi_lab_plan_t *plan = &lab->run->plan;
    int *ready = madi_lab_alloc((size_t)plan->hosts, sizeof(int));
    bool fine = true;
    int started = 0;
    for (; fine && started < plan->hosts; started++) {
        const madi_lab_host_setup_t setup = setup_of(lab, started);
        lab->pid[started] = madi_lab_host_start(&setup, &ready[started]);
        fine = lab->pid[started] > 0;
    }
    for (int i = 0; fine && i < started; i++) {
        const madi_lab_host_setup_t setup = setup_of(lab, i);
        fine = madi_lab_host_wait(&setup, ready[i]) == 0;
    }
    free(ready);
    return fine;
}

static bool lab_make(lab_t *lab)
{
    const madi_lab_plan_t *plan = &lab->run->plan;
    char why[512];
    if (sethostname("madlab", 6) != 0 || !madi_lab_mounts_make(&lab->run->shares, true, why, sizeof(why))) {
        madi_lab_say("no lab can be made: %s", why);
        return false;
    }
    if (!agents_write(lab->run->self))
        return false;
    environment_set(plan);
    for (int i = 0; i < plan->hosts; i++)
        if (!names_write(plan, i))
            return false;
    if (!madi_lab_links_probe(&lab->links))
        return false;
    for (int i = 0; i < lab->run->events && !lab->links.tbf; i++) {
        if (lab->run->event[i].action == MADI_LAB_THROTTLE) {
            madi_lab_say("--at %s cannot be done: this kernel has no tbf (module sch_tbf)", lab->run->event[i].text);
            return false;
        }
    }
    return madi_lab_links_make(&lab->links, plan) == 0 && hosts_start(lab);
}

/* --- scheduled actions --- */

static int links_act(lab_t *lab, const madi_lab_event_t *event, int net, int port)
{
    switch (event->action) {
    case MADI_LAB_CUT: return madi_lab_links_cut(&lab->links, net, port);
    case MADI_LAB_RESTORE: return madi_lab_links_restore(&lab->links, net, port);
    default: return madi_lab_links_throttle(&lab->links, net, port, event->rate);
    }
}

static int links_event(lab_t *lab, const madi_lab_event_t *event, char *what, size_t len)
{
    const madi_lab_plan_t *plan = &lab->run->plan;
    char rate[MADI_VALUE_MAX] = "", where[256];
    int result = 0;
    if (event->host >= 0)
        snprintf(where, sizeof(where), "host '%s' on all its networks", plan->host[event->host].name);
    else if (event->port >= 0)
        snprintf(where, sizeof(where), "host '%s' on network '%s'", plan->host[plan->port[event->port].host].name,
                 plan->net[event->net].name);
    else
        snprintf(where, sizeof(where), "network '%s'", plan->net[event->net].name);
    if (event->action == MADI_LAB_THROTTLE)
        madi_value_bandwidth_text(event->rate, rate);
    snprintf(what, len, "%s is %s%s", where,
             event->action == MADI_LAB_CUT       ? "cut"
             : event->action == MADI_LAB_RESTORE ? "restored"
                                                 : "throttled to ",
             rate);
    if (event->host < 0)
        return links_act(lab, event, event->net, event->port);
    for (int i = 0; i < plan->ports; i++)
        if (plan->port[i].host == event->host && links_act(lab, event, plan->port[i].net, i) != 0)
            result = -1;
    return result;
}

static void host_kill(lab_t *lab, int host)
{
    if (lab->pid[host] == 0)
        return;
    kill(lab->pid[host], SIGKILL);
    while (waitpid(lab->pid[host], NULL, 0) < 0 && errno == EINTR)
        ;
    lab->pid[host] = 0;
}

static int processes_event(lab_t *lab, const madi_lab_event_t *event, char *what, size_t len)
{
    const char *name = lab->run->plan.host[event->host].name;
    madi_lab_host_setup_t setup = setup_of(lab, event->host);
    pid_t *pid = &lab->pid[event->host];
    int ready, count;

    if (event->action == MADI_LAB_START) {
        if (*pid) {
            snprintf(what, len, "host '%s' is up already", name);
            return 0;
        }
        snprintf(what, len, "host '%s' is started", name);
        *pid = madi_lab_host_start(&setup, &ready);
        if (*pid > 0 && madi_lab_host_wait(&setup, ready) == 0)
            return 0;
        if (*pid > 0)
            host_kill(lab, event->host);
        *pid = 0;
        return -1;
    }
    if (!*pid) {
        snprintf(what, len, "host '%s' is down already", name);
    } else if (!event->process) {
        snprintf(what, len, "host '%s' is killed", name);
        host_kill(lab, event->host);
    } else {
        count = madi_lab_kill(*pid, event->process);
        if (count > 0)
            snprintf(what, len, "%d process%s '%s' on host '%s' killed", count, count > 1 ? "es" : "", event->process, name);
        else
            snprintf(what, len, "there is no process '%s' on host '%s' to be killed", event->process, name);
    }
    return 0;
}

static void event_do(lab_t *lab, const madi_lab_event_t *event)
{
    char what[512];
    double at = seconds_now() - lab->begin;
    int result = event->action >= MADI_LAB_KILL ? processes_event(lab, event, what, sizeof(what))
                                                : links_event(lab, event, what, sizeof(what));
    if (result != 0)
        madi_lab_say("%.3f s: --at %s failed", at, event->text);
    else if (!lab->run->quiet)
        madi_lab_say("%.3f s: %s", at, what);
}

/* --- while the command runs --- */

/* Request the end of the command.  Kill it on a second request, or after the grace time. */
static void end_begin(lab_t *lab, unsigned char number, int code)
{
    if (lab->end > 0)
        exit(lab->code);
    lab->end = seconds_now() + GRACE_S;
    lab->code = code;
    if (write(lab->command, &number, 1) != 1)
        exit(code);
}

static void signal_take(lab_t *lab, unsigned char byte)
{
    const unsigned char number = byte & ~MADI_LAB_TERMINAL;
    if (lab->begin == 0)
        exit(128 + number);
    if (byte & MADI_LAB_TERMINAL) /* the terminal has already sent the signal to the command, which may handle it */
        return;
    if (number == SIGUSR1 || number == SIGUSR2) {
        if (write(lab->command, &number, 1) != 1)
            madi_lab_say("signal %d does not reach the command", number);
    } else {
        end_begin(lab, number, 128 + number);
    }
}

static void keeper_look(lab_t *lab)
{
    unsigned char byte;
    if (read(lab->keeper, &byte, 1) != 1)
        exit(1);
    signal_take(lab, byte);
}

static void children_look(lab_t *lab)
{
    struct signalfd_siginfo info;
    pid_t pid;
    while (read(lab->children, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        for (int i = 0; i < lab->run->plan.hosts; i++) {
            if (lab->pid[i] == pid) {
                lab->pid[i] = 0;
                madi_lab_say("host '%s' has ended by itself", lab->run->plan.host[i].name);
            }
        }
    }
}

/* Handle the end of the command, which is also the end of the lab. */
static void command_look(lab_t *lab, int events_left)
{
    int code;
    if (madi_lab_exec_code(lab->command, &code) != 0) {
        code = 128 + SIGKILL;
        madi_lab_say("host '%s', which ran the command, was killed", lab->run->plan.host[lab->run->on].name);
    }
    if (events_left > 0 && !lab->run->quiet)
        madi_lab_say("the command ended after %.3f s, before %d of the %d scheduled actions", seconds_now() - lab->begin,
                     events_left, lab->run->events);
    exit(lab->end > 0 ? lab->code : code);
}

static void lab_command_start(lab_t *lab, double begin)
{
    const madi_lab_plan_t *plan = &lab->run->plan;
    struct pollfd keeper = {.fd = lab->keeper, .events = POLLIN};
    int null;
    while (poll(&keeper, 1, 0) > 0) /* forward a signal that requests the end */
        keeper_look(lab);
    if (!lab->run->quiet)
        madi_lab_say("%d host%s, %d network%s made in %.2f s; '%s' runs on host '%s'", plan->hosts,
                     plan->hosts > 1 ? "s" : "", plan->nets, plan->nets > 1 ? "s" : "", seconds_now() - begin,
                     lab->run->argv[0], plan->host[lab->run->on].name);
    lab->command = madi_lab_exec_start(plan->host[lab->run->on].name, lab->run->argv, true);
    if (lab->command < 0)
        exit(MADI_LAB_FAILED);
    lab->begin = seconds_now();
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, 0); /* the command has its own copies of the descriptors */
    dup2(null, 1);
    close(null);
}

static _Noreturn void lab_watch(lab_t *lab)
{
    const madi_lab_run_t *run = lab->run;
    int next = 0;
    for (;;) {
        struct pollfd look[3] = {{.fd = lab->keeper, .events = POLLIN},
                                 {.fd = lab->command, .events = POLLIN},
                                 {.fd = lab->children, .events = POLLIN}};
        double until = lab->end > 0 ? lab->end : 1e18;
        if (lab->end == 0 && run->timeout > 0)
            until = lab->begin + run->timeout;
        if (next < run->events && lab->begin + run->event[next].at < until)
            until = lab->begin + run->event[next].at;
        double left = (until - seconds_now()) * 1000;
        int count = poll(look, 3, until == 1e18 ? -1 : left <= 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1);
        if (count > 0 && look[1].revents)
            command_look(lab, run->events - next);
        if (count > 0 && look[0].revents)
            keeper_look(lab);
        if (count > 0 && look[2].revents)
            children_look(lab);
        if (lab->end > 0 && seconds_now() >= lab->end)
            exit(lab->code);
        if (lab->end == 0 && run->timeout > 0 && seconds_now() - lab->begin >= run->timeout) {
            madi_lab_say("the command is ended: it took longer than the %g s of --timeout", run->timeout);
            end_begin(lab, SIGTERM, 124);
        }
        if (next < run->events && seconds_now() - lab->begin >= run->event[next].at)
            event_do(lab, &run->event[next++]);
    }
}

void madi_lab_first(const madi_lab_run_t *run, int keeper, const sigset_t *mask)
{
    lab_t lab = {.run = run, .mask = mask, .keeper = keeper};
    double begin = seconds_now();
    sigset_t set;
    char go;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    madi_lab_title("madlab-first", run->plan.path);
    /* the keeper was still alive after prctl, and has written this process's user map */
    if (read(keeper, &go, 1) != 1 || go != '+')
        exit(1);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    lab.children = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    lab.pid = madi_lab_alloc((size_t)run->plan.hosts, sizeof(pid_t));
    if (!lab_make(&lab))
        exit(MADI_LAB_FAILED);
    lab_command_start(&lab, begin);
    lab_watch(&lab);
}
