/* SPDX-License-Identifier: BSD-3-Clause */
/* madgw: a process of a job that only forwards messages between networks.
 *
 *   madgw.c          this: the command line, a job, until told to end
 *   madgw_join.c     a job's file
 *   madgw_confine.c  rights and limits that are given away       madgw_filter.c  the filter of system calls
 *   src/gateway/daemon.h  what it does in between */
#include "gateway/daemon.h"
#include "tools/madgw_confine.h"
#include "tools/madgw_join.h"
#include "tools/memory_file.h"
#include "topology/range.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

typedef struct options {
    const char *join; /* NULL: the launcher's job */
    const char *user; /* whom root becomes; NULL: the job's owner */
    bool announce, tell, verbose, no_filter;
} options_t;

static void help(void)
{
    puts("usage: madgw [OPTION]...\n"
         "Forward messages between the networks that this host is on, as a process of a job but not one of its ranks.\n"
         "madrun --topology starts it where the topology file has gateways; by hand it joins a job that runs.\n"
         "\n"
         "  --join FILE      the job: a file that madrun --job-file has written; -: standard input\n"
         "  --tell           say on standard output what others that join are to know of this gateway: a line for the file\n"
         "  --host NAME      what the topology file calls this host; default: MAD_HOST, else its name\n"
         "  --cores LIST     run on these cores, as 0,2-3\n"
         "  --user NAME      whose rights it has when root starts it; default: the job file's owner, or nobody\n"
         "  --no-filter      let all system calls through (for debuggers)\n"
         "  --announce       connect to all processes within reach; always with --join\n"
         "  -v               say when it is ready, and why it ends\n"
         "  --help, --version\n"
         "\n"
         "SIGTERM: take no new streams, and end when none passes any more; again: end at once.");
}

static int core_take(void *arg, const char *name)
{
    unsigned long core = strtoul(name, NULL, 10);
    if (core >= CPU_SETSIZE)
        return -1;
    CPU_SET(core, (cpu_set_t *)arg);
    return 0;
}

static int cores_take(const char *list)
{
    char text[300], why[200] = "there are not so many";
    cpu_set_t set;
    CPU_ZERO(&set);
    if ((size_t)snprintf(text, sizeof text, "[%s]", list) >= sizeof text ||
        madi_range_expand(text, core_take, &set, why, sizeof why) != 0) {
        fprintf(stderr, "madgw: --cores '%s' is not valid (%s): give for example 0,2-3\n", list, why);
        return 2;
    }
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "madgw: --cores %s: %s; going on without\n", list, strerror(errno));
    return -1;
}

static int parse(options_t *o, int argc, char **argv)
{
    static const struct option table[] = {{"join", required_argument, NULL, 'j'},
                                          {"host", required_argument, NULL, 'H'},
                                          {"cores", required_argument, NULL, 'c'},
                                          {"user", required_argument, NULL, 'u'},
                                          {"no-filter", no_argument, NULL, 'F'},
                                          {"announce", no_argument, NULL, 'a'},
                                          {"tell", no_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    int option, code;
    argv[0] = (char *)"madgw"; /* how getopt's messages begin */
    while ((option = getopt_long(argc, argv, "v", table, NULL)) != -1)
        switch (option) {
        case 'j': o->join = optarg; break;
        case 'H': setenv("MAD_HOST", optarg, 1); break;
        case 'c':
            if ((code = cores_take(optarg)) >= 0)
                return code;
            break;
        case 'u': o->user = optarg; break;
        case 'F': o->no_filter = true; break;
        case 'a': o->announce = true; break;
        case 't': o->tell = true; break;
        case 'v': o->verbose = true; break;
        case 'h': help(); return 0;
        case 'V': printf("madgw (Madeleine) %s\n", PACKAGE_VERSION); return 0;
        default: fprintf(stderr, "madgw: 'madgw --help' lists the options\n"); return 2;
        }
    if (optind < argc) {
        fprintf(stderr, "madgw: '%s' is no option: 'madgw --help' lists them\n", argv[optind]);
        return 2;
    }
    return -1;
}

/* ---- Joining ----------------------------------------------------------------------------------------------------- */

typedef struct entry {
    int fd;            /* of the job's file; -1: the launcher's job */
    bool adds;         /* lines can be added to it */
    int topology;      /* of the topology's text, kept open; -1: none */
    uid_t uid;         /* of the user that root becomes */
    gid_t gid;
} entry_t;

/* Have MAD_TOPOLOGY name a copy in memory: the file may be one that only root can read.  0, or -1 with the reason in why. */
static int topology_copy(entry_t *in, char *why, size_t len)
{
    const char *path = getenv("MAD_TOPOLOGY");
    char *text = NULL, at[40];
    size_t used = 0, room = 0;
    FILE *file;
    if (!path || !*path || !strncmp(path, "hex:", 4) || geteuid() != 0)
        return 0;
    file = fopen(path, "re");
    if (!file) {
        snprintf(why, len, "MAD_TOPOLOGY: %s cannot be read: %s", path, strerror(errno));
        return -1;
    }
    if (getdelim(&text, &room, 0, file) >= 0)
        used = strlen(text);
    fclose(file);
    in->topology = madi_memory_file("topology", text, used, at);
    free(text);
    if (in->topology < 0) {
        snprintf(why, len, "no memory for the topology: %s", strerror(errno));
        return -1;
    }
    setenv("MAD_TOPOLOGY", at, 1);
    return 0;
}

/* The user that root becomes: the one that is named, else the owner of the job's file, else nobody. */
static int user_find(entry_t *in, const options_t *o, char *why, size_t len)
{
    struct stat st;
    if (!o->user && in->fd >= 0 && fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid != 0) {
        in->uid = st.st_uid;
        in->gid = madi_confine_group(st.st_uid);
        return 0;
    }
    return madi_confine_find(o->user ? o->user : MADI_CONFINE_NOBODY, &in->uid, &in->gid, why, len);
}

/* Open what only root may open, then give all rights away.  Nothing that others have written is read before. */
static int entry_open(entry_t *in, const options_t *o)
{
    char why[300] = "";
    *in = (entry_t){.fd = -1, .topology = -1};
    if (o->join && (in->fd = madi_job_file_open(o->join, &in->adds, why, sizeof why)) < 0) {
        fprintf(stderr, "madgw: --join %s: %s\n", o->join, why);
        return -1;
    }
    if (topology_copy(in, why, sizeof why) != 0 || user_find(in, o, why, sizeof why) != 0) {
        fprintf(stderr, "madgw: %s\n", why);
        return -1;
    }
    madi_confine_begin();
    if (madi_confine_user(in->uid, in->gid, why, sizeof why) != 0) {
        fprintf(stderr, "madgw: %s\n", why);
        return -1;
    }
    return 0;
}

static void entry_close(entry_t *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    if (in->topology >= 0)
        close(in->topology);
}

/* So that gateways that join later know of this one, though nobody is on the network between. */
static void file_add(madi_job_file_t *job, const entry_t *in, const options_t *o, mad_session_t *session)
{
    char why[200] = "it cannot be written";
    const void *address;
    size_t len;
    if (mad_address(session, &address, &len) != MAD_OK)
        return;
    if (o->tell && madi_job_file_line(stdout, address, len) != 0)
        perror("madgw: --tell");
    if (in->fd != STDIN_FILENO && (!in->adds || madi_job_file_add(job, in->fd, address, len, why, sizeof why) != 0))
        fprintf(stderr, "madgw: --join %s: %s; gateways that join later know of this one from common neighbours only\n",
                o->join, why);
}

/* The job of a file: a session with its key, topology and addresses. */
static mad_status_t file_join(const entry_t *in, const options_t *o, mad_session_t **session)
{
    madi_job_file_t job;
    char why[200], at[40];
    mad_status_t status;
    if (madi_job_file_read(&job, in->fd, why, sizeof why) != 0) {
        fprintf(stderr, "madgw: --join %s: %s\n", o->join, why);
        return MAD_ERR_CONFIG;
    }
    if (!getenv("MAD_TOPOLOGY") && job.topology_len && madi_memory_file("topology", job.topology, job.topology_len, at) >= 0)
        setenv("MAD_TOPOLOGY", at, 1);
    status = madi_gateway_open(job.key, job.key_len, session);
    if (!status) {
        madi_gateway_beside(*session, (int)madi_job_file_beside(&job) + 1);
        file_add(&job, in, o, *session);
    }
    for (size_t i = 0; i < job.addresses && !status; i++) {
        mad_peer_t peer;
        status = mad_peer_add(*session, job.address[i].bytes, job.address[i].len, &peer);
        if (status)
            fprintf(stderr, "madgw: --join %s: address %zu is not one: %s\n", o->join, i + 1, mad_status_text(status));
    }
    madi_job_file_free(&job);
    return status;
}

/* ---- Serving ------------------------------------------------------------------------------------------------------ */

/* It does nothing but forward: the bound on what may lie in it is not that of a gateway in a program, but part of the
 * host's memory, and a window for each stream of many fits into it.  It takes only what does lie there. */
static void knobs_set(void)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4);
    setenv("MAD_FORWARD_BUDGET", text, 0);
    setenv("MAD_SHM_DIRECT", "no", 0); /* a gateway has no memory that others are to look into */
}

static int signals_open(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* as first process of a container: the kernel collects what is left to us */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void reached(const char *host, int processes)
{
    fprintf(stderr, "madgw: host %s: reached %d processes\n", host, processes);
}

static int serve(const options_t *o, mad_session_t *session, int signals, const char *host)
{
    static const char *const why[] = {[MADI_GATEWAY_DRAINED] = "drained, ends",
                                      [MADI_GATEWAY_TOLD] = "told twice to end, ends at once",
                                      [MADI_GATEWAY_ABANDONED] = "all processes of the job have gone, ends"};
    madi_gateway_end_t end;
    bool calls = o->join || o->announce;
    int called = calls ? madi_gateway_announce(session) : 0;
    if (o->verbose && calls)
        fprintf(stderr, "madgw: host %s: ready, calls %d processes\n", host, called);
    else if (o->verbose)
        fprintf(stderr, "madgw: host %s: ready\n", host);
    end = madi_gateway_serve(session, signals, o->join, o->verbose && calls ? reached : NULL);
    if (o->verbose || end == MADI_GATEWAY_TOLD) {
        struct rusage usage = {0};
        getrusage(RUSAGE_SELF, &usage);
        fprintf(stderr, "madgw: host %s: %s; its memory was at most %.1f MiB\n", host, why[end],
                (double)usage.ru_maxrss / 1024);
    }
    return end == MADI_GATEWAY_TOLD ? 128 + SIGTERM : 0;
}

/* From here on this process can do what a gateway does, and nothing else. */
static void confine(const options_t *o)
{
    const char *traces = getenv("MAD_TRACE");
    madi_confine_memory(madi_gateway_budget());
    madi_confine_end(!o->no_filter, traces && *traces);
}

static int run(const options_t *o, int signals)
{
    entry_t in;
    mad_session_t *session = NULL;
    madi_boot_t *boot = NULL;
    const char *host = NULL;
    mad_status_t status;
    int code;
    if (entry_open(&in, o) != 0)
        return 1;
    status = o->join ? file_join(&in, o, &session) : madi_gateway_join(&session, &boot, &host);
    entry_close(&in);
    if (!status && o->join)
        status = madi_gateway_check(session, &host);
    if (!status)
        confine(o);
    code = status ? 1 : serve(o, session, signals, host);
    if (code == 128 + SIGTERM) /* at once: whoever is connected sees it */
        _exit(code);
    mad_exit(session);
    madi_gateway_leave(boot);
    return code;
}

int main(int argc, char **argv)
{
    options_t o = {0};
    int code = parse(&o, argc, argv), signals;
    if (code >= 0)
        return code;
    signals = signals_open(); /* before the session, whose threads are to have them blocked, too */
    if (signals < 0) {
        perror("madgw: signals");
        return 1;
    }
    knobs_set();
    return run(&o, signals);
}
