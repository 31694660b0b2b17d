/* SPDX-License-Identifier: BSD-3-Clause */
/* madgw: a process of a job that only forwards messages between networks.
 *
 *   madgw.c          serving one job until it has to end       madgw_options.c  the command line
 *   madgw_join.c     the job file
 *   madgw_serve.c    serving several jobs: one process each, started and ended as files of a directory come and go
 *   madgw_jobs.c     these files                               madgw_process.c  these processes
 *   madgw_rate.c     division of the bandwidth among jobs
 *   madgw_confine.c  giving up privileges, setting limits      madgw_filter.c   the filter of system calls
 *   src/gateway/daemon.h  the forwarding itself */
#include "gateway/daemon.h"
#include "tools/madgw_confine.h"
#include "tools/madgw_join.h"
#include "tools/madgw_options.h"
#include "tools/madgw_serve.h"
#include "tools/memory_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Joining ---------------------------------------------------------------------------------------------------- */

typedef struct madgw_entry {
    int fd;       /* descriptor of the job file; -1 for the launcher's job */
    bool adds;    /* true if lines can be appended to the file */
    int topology; /* descriptor of the topology's text, which stays open; -1 if there is no topology */
    uid_t uid;    /* user that root becomes */
    gid_t gid;
} madgw_entry_t;

/* Make MAD_TOPOLOGY name a copy in memory, since the file may be readable only by root.  Return 0, or -1 with the
 * reason in why. */
static int topology_copy(madgw_entry_t *in, char *why, size_t len)
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
    /* this fails if there is no other user to change to; this process then stays the owner */
    (void)!fchown(in->topology, in->uid, in->gid);
    setenv("MAD_TOPOLOGY", at, 1);
    return 0;
}

/* Determine the user that root changes to: the given one, else the owner of the job file, else nobody. */
static int user_find(madgw_entry_t *in, const madi_gw_options_t *o, char *why, size_t len)
{
    struct stat st;
    if (!o->user && in->fd >= 0 && fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid != 0) {
        in->uid = st.st_uid;
        in->gid = madi_confine_group(st.st_uid);
        return 0;
    }
    return madi_confine_find(o->user ? o->user : MADI_CONFINE_NOBODY, &in->uid, &in->gid, why, len);
}

/* Open what only root may open, then give up all privileges.  Before that, read nothing that other users have written. */
static int entry_open(madgw_entry_t *in, const madi_gw_options_t *o)
{
    char why[300] = "";
    *in = (madgw_entry_t){.fd = -1, .topology = -1};
    if (o->join && (in->fd = madi_job_file_open(o->join, &in->adds, why, sizeof why)) < 0) {
        fprintf(stderr, "madgw: --join %s: %s\n", o->join, why);
        return -1;
    }
    if (user_find(in, o, why, sizeof why) != 0 || topology_copy(in, why, sizeof why) != 0) {
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

static void entry_close(madgw_entry_t *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    if (in->topology >= 0)
        close(in->topology);
}

/* Append this gateway's address to the job file, so that gateways that join later can find it even without a common
 * neighbour. */
static void file_add(madi_job_file_t *job, const madgw_entry_t *in, const madi_gw_options_t *o, mad_session_t *session)
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

/* Join the job of a file: open a session with its key, topology and addresses. */
static mad_status_t file_join(const madgw_entry_t *in, const madi_gw_options_t *o, mad_session_t **session)
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
        madi_gateway_share(*session, (int)madi_job_file_beside(&job) + 1);
        file_add(&job, in, o, *session);
    }
    for (size_t i = 0; i < job.addresses && !status; i++) {
        mad_peer_t peer;
        status = mad_peer_add(*session, job.address[i].bytes, job.address[i].len, &peer);
        if (status)
            fprintf(stderr, "madgw: --join %s: address %zu is invalid: %s\n", o->join, i + 1, mad_status_text(status));
    }
    madi_job_file_free(&job);
    return status;
}

/* ---- Serving ---------------------------------------------------------------------------------------------------- */

/* Set knobs for a process that only forwards.  The memory limit of the process is a share of the host's memory, large
 * enough for the windows of many streams.  Only memory for fragments that it currently holds is used. */
static void knobs_set(const madi_gw_options_t *o)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)o->serve.budget);
    setenv("MAD_FORWARD_BUDGET", text, 0);
    setenv("MAD_SHM_DIRECT", "no", 0); /* a gateway has no memory that peers should access directly */
}

static int signals_open(bool launched)
{
    sigset_t set;
    if (launched)
        signal(SIGHUP, SIG_DFL); /* reset, because the launcher may run under nohup, and ends gateways by this signal */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN); /* madgw may be a container's first process: the kernel then reaps orphans */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void reached_report(const char *host, int processes)
{
    fprintf(stderr, "madgw: host %s: reached %d processes\n", host, processes);
}

static int gateway_serve(const madi_gw_options_t *o, mad_session_t *session, int signals, const char *host)
{
    static const char *const why[] = {[MADI_GATEWAY_DRAINED] = "drained, ends",
                                      [MADI_GATEWAY_STOPPED] = "received a second signal to end, ends at once",
                                      [MADI_GATEWAY_ABANDONED] = "all processes of the job have gone, ends"};
    madi_gateway_end_t end;
    bool calls = o->join || o->announce;
    int called = calls ? madi_gateway_announce(session) : 0;
    if (o->verbose && calls)
        fprintf(stderr, "madgw: host %s: ready, connects to %d processes\n", host, called);
    else if (o->verbose)
        fprintf(stderr, "madgw: host %s: ready\n", host);
    end = madi_gateway_serve(session, signals, o->join, o->verbose && calls ? reached_report : NULL);
    if (o->verbose || end == MADI_GATEWAY_STOPPED) {
        struct rusage usage = {0};
        getrusage(RUSAGE_SELF, &usage);
        fprintf(stderr, "madgw: host %s: %s; its memory was at most %.1f MiB\n", host, why[end],
                (double)usage.ru_maxrss / 1024);
    }
    return end == MADI_GATEWAY_STOPPED ? 128 + SIGTERM : 0;
}

/* Restrict this process to what a gateway does. */
static void gateway_confine(const madi_gw_options_t *o)
{
    const char *traces = getenv("MAD_TRACE");
    madi_confine_memory(madi_gateway_budget());
    madi_confine_end(!o->no_filter, traces && *traces);
}

/* Apply the bandwidth limit in a page that another process writes. */
static mad_status_t limit_use(const madi_gw_options_t *o, mad_session_t *session)
{
    void *page;
    if (o->rate_page < 0)
        return MAD_OK;
    page = mmap(NULL, sizeof(madi_gateway_rate_t), PROT_READ | PROT_WRITE, MAP_SHARED, o->rate_page, 0);
    if (page == MAP_FAILED) {
        fprintf(stderr, "madgw: --rate-page %d: %s; madgw --serve sets this option\n", o->rate_page, strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    close(o->rate_page);
    return madi_gateway_limit(session, page);
}

static int gateway_run(const madi_gw_options_t *o, int signals)
{
    madgw_entry_t in;
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
        status = limit_use(o, session);
    if (!status)
        gateway_confine(o);
    code = status ? 1 : gateway_serve(o, session, signals, host);
    if (code == 128 + SIGTERM) /* end at once: connected processes notice */
        _exit(code);
    mad_exit(session);
    madi_gateway_leave(boot);
    return code;
}

int main(int argc, char **argv)
{
    madi_gw_options_t o;
    int code = madi_gw_options(&o, argc, argv), signals;
    if (code >= 0)
        return code;
    if (o.show) {
        madi_serve_show(&o.serve);
        return 0;
    }
    /* open these before the session, so that the session's threads block the signals too */
    signals = signals_open(!o.join && !o.serve.dir);
    if (signals < 0) {
        perror("madgw: signals");
        return 1;
    }
    if (o.serve.dir)
        return madi_serve(&o.serve, signals);
    knobs_set(&o);
    return gateway_run(&o, signals);
}
