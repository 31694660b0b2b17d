/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_gateways.h"

#include "base/clock.h"
#include "tools/madrun_job.h"
#include "tools/madrun_output.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_remote.h"
#include "tools/madrun_signals.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS 2000000000LL /* ns from SIGTERM to SIGKILL, and until agents that do not answer are ended */
#define SOON_NS 100000000LL   /* ns: first pause before a gateway is restarted */
#define LATE_NS 30000000000LL /* ns: longest pause; the pause doubles if the gateway soon failed again (LIVED) */
#define LIVED 10 /* a gateway failed "soon" if it lived less than this many times the last pause after it had joined */
#define AGAIN_NS 1000000000LL /* ns: first pause for a gateway that did not join the job; doubles each time */
#define TRIES_MAX 5

typedef struct gateway {
    const madi_run_gateway_t *what;
    madi_run_remote_t *remote;
    bool joined;   /* true if the gateway has joined since its last start */
    bool announce; /* true if the ranks do not know the gateway's address */
    bool spoken;   /* true if the reason of the gateway's failure was reported */
    int64_t since; /* ns: time at which the gateway joined */
    int64_t pause; /* ns: last pause before a restart of a gateway that had joined; 0: none */
    int tries;     /* consecutive starts without joining */
    int64_t again; /* ns: time of the gateway's next start; 0 if none is planned */
    char host[300], **env;
    char *argv[8];
} gateway_t;

static const madi_run_options_t *options;
static madi_run_spec_t ranks; /* spec of the ranks, on which those of the gateways are based; wdir is a copy of our own */
static sigset_t mask;
static gateway_t *gateways;
static int count, left;
static char program[PATH_MAX];
static bool ending, released;
static madi_run_timer_t restart, grace;
static const madi_run_events_t events;

static gateway_t *gateway_numbered(int number)
{
    int i = number - ranks.size;
    return i >= 0 && i < count ? &gateways[i] : NULL;
}

static void gateway_start(gateway_t *g)
{
    madi_run_spec_t spec = ranks;
    int number = ranks.size + (int)(g - gateways), words = 0;
    g->argv[words++] = program;
    if (g->announce)
        g->argv[words++] = (char *)(uintptr_t) "--announce";
    if (options->verbose)
        g->argv[words++] = (char *)(uintptr_t) "-v";
    if (g->what->cores[0]) {
        g->argv[words++] = (char *)(uintptr_t) "--cores";
        g->argv[words++] = (char *)(uintptr_t)g->what->cores;
    }
    g->argv[words] = NULL;
    spec.first = number;
    spec.count = 1;
    spec.size = number + 1;
    spec.bind = MADI_RUN_BIND_NONE;
    spec.stdin_rank = -1;
    spec.verbose = false;
    spec.env = g->env;
    spec.argv = g->argv;
    spec.beside = true;
    g->joined = g->spoken = false;
    g->again = 0;
    left++;
    madi_run_pmi_again(number);
    g->remote = madi_run_remote_start(
        g->what->host, madi_run_job_here(options, g->what->host) ? MADI_RUN_HERE : options->agent, &spec, &events, &mask);
}

static void start_due(void)
{
    int64_t now = madi_now(), first = INT64_MAX;
    for (int i = 0; i < count && !ending; i++) {
        if (gateways[i].again && gateways[i].again <= now)
            gateway_start(&gateways[i]);
        else if (gateways[i].again && gateways[i].again < first)
            first = gateways[i].again;
    }
    if (first != INT64_MAX)
        madi_run_timer_set(&restart, first - now, start_due);
}

/* Determine the pause before the next start, so that a gateway that fails repeatedly is not restarted too fast.  Return
 * an explanation; NULL if there is nothing to explain. */
static const char *pause_of(gateway_t *g)
{
    static char text[120];
    int64_t lived = madi_now() - g->since;
    if (!g->joined)
        return NULL;
    if (!g->pause || lived >= LIVED * g->pause) {
        g->pause = SOON_NS;
        return NULL;
    }
    g->pause = 2 * g->pause < LATE_NS ? 2 * g->pause : LATE_NS;
    snprintf(text, sizeof(text), " in %.1f s, because it had joined only %.1f s before; the pauses grow up to %.0f s",
             (double)g->pause / 1e9, (double)lived / 1e9, (double)LATE_NS / 1e9);
    return text;
}

/* Handle the end of a gateway, or a failed start, and report `text`.  meant: the gateway was ended on purpose. */
static void gateway_failed(gateway_t *g, const char *text, bool meant)
{
    const char *late = NULL;
    bool again;
    if (ending || released || g->again)
        return;
    g->tries = g->joined ? 0 : g->tries + 1;
    again = !meant && g->tries <= TRIES_MAX && strcmp(options->gateways, "restart") == 0;
    if (again)
        late = pause_of(g);
    if (!g->spoken)
        madi_run_say("%s; %s%s", text, again ? "starting it again" : "going on without it", late ? late : "");
    g->spoken = true;
    if (!again)
        return;
    g->announce = true;
    g->again = madi_now() + (g->tries ? AGAIN_NS << (g->tries - 1) : g->pause);
    madi_run_timer_set(&restart, 0, start_due);
}

static void gateway_on_line(int number, const char *line)
{
    gateway_t *g = gateway_numbered(number);
    if (g && !g->joined && strncmp(line, "cmd=barrier_in", 14) == 0) {
        g->joined = true;
        g->since = madi_now();
    }
    madi_run_pmi_line(number, line);
}

static void gateway_on_taken(int number, size_t len)
{
    (void)number;
    (void)len;
}

static void gateway_on_ended(int number, int status)
{
    gateway_t *g = gateway_numbered(number);
    char text[400];
    madi_run_pmi_ended(number);
    if (!g)
        return;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "the gateway on host '%s' was ended by signal %d (%s)", g->what->host, WTERMSIG(status),
                 madi_run_signal_name(WTERMSIG(status)));
    else
        snprintf(text, sizeof(text), "the gateway on host '%s' ended with exit code %d", g->what->host, WEXITSTATUS(status));
    /* a gateway that was ended on purpose has one of these exit codes */
    gateway_failed(g, text, WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 128 + SIGTERM));
}

static void gateway_on_failed(int number, int code, const char *text)
{
    gateway_t *g = gateway_numbered(number);
    (void)code;
    if (g)
        gateway_failed(g, text, false);
}

static void gateway_on_done(void)
{
    left--;
}

static const madi_run_events_t events = {gateway_on_line,  madi_run_output,   gateway_on_taken,
                                         gateway_on_ended, gateway_on_failed, gateway_on_done};

/* ---- Interface for the job -------------------------------------------------------------------------------------- */

/* Find madgw, which is in madrun's directory, on this host and on others. */
static void find_program(void)
{
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;
    program[n > 0 ? n : 0] = 0;
    slash = strrchr(program, '/');
    snprintf(slash ? slash + 1 : program, sizeof(program) - (size_t)(slash ? slash + 1 - program : 0), "madgw");
}

static void prepare(gateway_t *g, const madi_run_gateway_t *what)
{
    int n = 0;
    g->what = what;
    while (ranks.env[n])
        n++;
    g->env = madi_run_alloc((size_t)n + 2, sizeof(char *));
    memcpy(g->env, ranks.env, (size_t)n * sizeof(char *));
    snprintf(g->host, sizeof(g->host), "MAD_HOST=%s", madi_run_topology_name(what->host));
    g->env[n] = g->host;
}

void madi_run_gateways_start(const madi_run_options_t *asked, const madi_run_gateway_t *list, int n,
                             const madi_run_spec_t *spec, const sigset_t *signals)
{
    char label[300];
    options = asked;
    ranks = *spec;
    ranks.wdir = madi_run_strdup(spec->wdir);
    mask = *signals;
    count = n;
    gateways = madi_run_alloc((size_t)n, sizeof(*gateways));
    find_program();
    for (int i = 0; i < n; i++) {
        prepare(&gateways[i], &list[i]);
        snprintf(label, sizeof(label), "[gateway %s] ", madi_run_topology_name(list[i].host));
        madi_run_output_label(ranks.size + i, label);
        if (options->verbose)
            madi_run_say("host %s: a gateway%s%s", list[i].host, list[i].cores[0] ? " on cores " : "", list[i].cores);
        gateway_start(&gateways[i]);
    }
}

void madi_run_gateways_reply(int number, const char *text, size_t len)
{
    gateway_t *g = gateway_numbered(number);
    if (g && g->remote)
        madi_run_remote_reply(g->remote, number, text, len);
}

static void gateways_signal(int number)
{
    for (int i = 0; i < count; i++)
        if (gateways[i].remote)
            madi_run_remote_signal_one(gateways[i].remote, number);
}

static void gateways_kill(void)
{
    gateways_signal(SIGKILL);
    madi_run_timer_set(&grace, GRACE_NS, madi_run_remote_kill);
}

void madi_run_gateways_release(void)
{
    released = true;
}

void madi_run_gateways_end(void)
{
    if (ending || !left)
        return;
    ending = true;
    gateways_signal(SIGHUP); /* SIGHUP, because a second SIGTERM would end a gateway that already drains immediately */
    madi_run_timer_set(&grace, GRACE_NS, gateways_kill);
}

int madi_run_gateways_left(void)
{
    return left;
}

void madi_run_gateways_fini(void)
{
    for (int i = 0; i < count; i++)
        free(gateways[i].env);
    if (gateways)
        free((void *)(uintptr_t)ranks.wdir);
    free(gateways);
    gateways = NULL;
    count = 0;
}
