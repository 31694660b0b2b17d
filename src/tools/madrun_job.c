/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_job.h"

#include "base/clock.h"
#include "tools/madrun_around.h"
#include "tools/madrun_gateways.h"
#include "tools/madrun_jobfile.h"
#include "tools/madrun_local.h"
#include "tools/madrun_loop.h"
#include "tools/madrun_orphans.h"
#include "tools/madrun_output.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_remote.h"
#include "tools/madrun_same.h"
#include "tools/madrun_signals.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_NS 2000000000LL         /* ns between SIGTERM and SIGKILL */
#define TWICE_NS 1000000000LL         /* ns: a second interrupt within this time ends the job */
#define STDIN_BYTES ((size_t)1 << 18) /* maximum number of bytes of standard input on the way to the rank */

static const madi_run_options_t *options;
static madi_run_remote_t **home; /* proxy of each rank; NULL if the rank runs on this host */
static int hosts_left, exit_code;
static bool stopping, *spoken; /* spoken[rank] is true if the reason of the rank's failure was reported */
static madi_run_timer_t grace, limit;
static madi_run_pipe_t input;
static size_t input_under_way;
/* another launcher, to be started when the gateways are ready; NULL if there is none, or if it was started */
static madi_run_spec_t *command;
static const sigset_t *command_mask;

/* --- ending --- */

static void job_signal(int number)
{
    madi_run_local_signal(number);
    madi_run_remote_signal(number);
}

static void job_kill(void)
{
    job_signal(SIGKILL);
    madi_run_timer_set(&grace, GRACE_NS, madi_run_remote_kill); /* some hosts may not even react to SIGKILL */
}

static void job_on_done(void);

static void job_stop(void)
{
    if (stopping)
        return;
    stopping = true;
    madi_run_gateways_release();
    if (command)
        job_on_done(); /* the process will never be started */
    command = NULL;
    job_signal(SIGTERM);
    job_signal(SIGCONT); /* continue stopped processes, so that they handle SIGTERM */
    madi_run_timer_set(&grace, GRACE_NS, job_kill);
}

/* Handle the failure of a rank.  Without --keep-going only the first one is reported. */
static void job_fail(int rank, int code, const char *text)
{
    if (exit_code == 0)
        exit_code = code;
    if (!spoken[rank] && !stopping)
        madi_run_say("%s%s", text, options->keep_going || options->count == 1 ? "" : "; ending the others");
    spoken[rank] = true;
    if (!options->keep_going)
        job_stop();
}

static void out_of_time(void)
{
    if (!stopping)
        madi_run_say("the job did not end within the %g s of --timeout; ending it", options->timeout);
    if (exit_code == 0)
        exit_code = 124;
    job_stop();
}

static void output_lost(void)
{
    if (exit_code == 0)
        exit_code = 128 + SIGPIPE;
    job_stop();
}

/* --- events of the ranks --- */

static void job_on_output(int rank, int stream, const char *data, size_t len)
{
    madi_run_output(rank, stream, data, len);
}

static void output_hold(int rank, int stream, bool on)
{
    if (rank >= options->count) /* a gateway, which writes little */
        return;
    if (home[rank])
        madi_run_remote_hold(home[rank], rank, stream, on);
    else
        madi_run_local_hold(rank, stream, on);
}

static const madi_run_output_hooks_t output_hooks = {output_lost, output_hold};

static void job_on_taken(int rank, size_t len)
{
    if (rank != options->stdin_rank)
        return;
    input_under_way -= len < input_under_way ? len : input_under_way;
    if (input_under_way < STDIN_BYTES)
        madi_run_pipe_reading(&input, true);
}

static void job_on_ended(int rank, int status)
{
    bool left_early = madi_run_pmi_ended(rank);
    char text[300], who[160];
    snprintf(who, sizeof(who), "rank %d", rank);
    if (options->around)
        snprintf(who, sizeof(who), "%s", options->argv[0]);
    if (rank == options->stdin_rank)
        madi_run_pipe_close(&input);
    if (WIFSIGNALED(status)) {
        snprintf(text, sizeof(text), "%s was ended by signal %d (%s)", who, WTERMSIG(status),
                 madi_run_signal_name(WTERMSIG(status)));
        job_fail(rank, 128 + WTERMSIG(status), text);
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(text, sizeof(text), "%s ended with exit code %d", who, WEXITSTATUS(status));
        job_fail(rank, WEXITSTATUS(status), text);
    } else if (left_early) {
        snprintf(text, sizeof(text), "%s ended without leaving the session (it must call mad_exit first)", who);
        job_fail(rank, 1, text);
    }
}

static void job_on_failed(int rank, int code, const char *text)
{
    static bool said;
    if (exit_code == 0)
        exit_code = code;
    if (!stopping && !said)
        madi_run_say("%s", text); /* print this only once, because the reason is the same for all ranks */
    said = true;
    spoken[rank] = true;
    job_stop();
}

static void job_on_done(void)
{
    if (--hosts_left == 0)
        madi_run_gateways_end();
}

static const madi_run_events_t events = {madi_run_pmi_line, job_on_output, job_on_taken,
                                         job_on_ended,      job_on_failed, job_on_done};

static void pmi_reply(int rank, const char *text, size_t len)
{
    if (rank >= options->count)
        madi_run_gateways_reply(rank, text, len);
    else if (home[rank])
        madi_run_remote_reply(home[rank], rank, text, len);
    else
        madi_run_local_reply(rank, text, len);
}

static void input_open(void);

static void job_command_start(void)
{
    madi_run_spec_t *spec = command;
    command = NULL;
    spec->env = madi_run_around_env(options->env, options->env_count);
    madi_run_local_start(spec, &events, command_mask);
    input_open();
}

/* Handle the end of a barrier: all addresses are known, or those of one more program that the ranks have started. */
static void pmi_passed(void)
{
    char why[200];
    if (options->job_file && madi_run_job_file_write(options->job_file, why, sizeof(why)) != 0)
        madi_run_say("--job-file '%s' cannot be written: %s", options->job_file, why);
    if (command)
        job_command_start();
}

/* End the job if another launcher still waits for gateways, and no gateway is left. */
static void check_command(void)
{
    if (!command || madi_run_gateways_left())
        return;
    if (exit_code == 0)
        exit_code = 1;
    madi_run_say("no gateway is there; '%s' is not started", options->argv[0]);
    job_stop();
}

static void pmi_aborted(int rank, int code)
{
    char text[80];
    if (rank >= options->count)
        return;
    snprintf(text, sizeof(text), "rank %d aborted the job with code %d", rank, code);
    job_fail(rank, code & 0xff ? code & 0xff : 1, text);
    job_stop();
}

/* --- actions of the user --- */

static void got_input(madi_run_pipe_t *pipe)
{
    int rank = options->stdin_rank;
    size_t len = pipe->in.len;
    if (len > 0) {
        input_under_way += len;
        if (home[rank])
            madi_run_remote_stdin(home[rank], rank, madi_run_buffer_at(&pipe->in), len);
        else
            madi_run_local_stdin(rank, madi_run_buffer_at(&pipe->in), len);
        madi_run_buffer_drop(&pipe->in, len);
    }
    if (pipe->eof && home[rank])
        madi_run_remote_stdin(home[rank], rank, NULL, 0);
    else if (pipe->eof)
        madi_run_local_stdin(rank, NULL, 0);
    if (!pipe->eof && input_under_way >= STDIN_BYTES)
        madi_run_pipe_reading(pipe, false);
}

static void input_open(void)
{
    /* True if madrun runs in the background: the terminal's input then belongs to another process group. */
    bool background = isatty(0) && tcgetpgrp(0) != getpgrp();
    input = (madi_run_pipe_t){.got = got_input, .read = !background, .shared = true};
    if (options->stdin_rank >= 0)
        madi_run_pipe_open(&input, 0);
    else
        input.fd = -1;
}

static void job_interrupted(void)
{
    static int64_t last;
    int64_t now = madi_now();
    if (last != 0 && now - last < TWICE_NS) {
        if (exit_code == 0)
            exit_code = 128 + SIGINT;
        job_stop();
    }
    last = now;
}

static void job_on_signal(int number)
{
    switch (number) {
    case SIGCHLD:
        madi_run_local_reap();
        madi_run_remote_reap();
        madi_run_orphans_reap();
        return;
    case SIGTSTP:
        job_signal(SIGTSTP);
        kill(getpid(), SIGSTOP); /* the loop handles SIGCONT when this process continues */
        return;
    case SIGINT: job_interrupted(); break;
    }
    job_signal(number);
}

/* --- starting --- */

/* Return the variables that ranks on other hosts get in addition to their host's environment: the knobs set here,
 * then the variables of --env. */
static char **remote_env(void)
{
    size_t count = 0;
    char **env, **to;
    while (environ[count])
        count++;
    env = to = madi_run_alloc(count + (size_t)options->env_count + 1, sizeof(char *));
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "MAD_", 4) == 0 && strncmp(environ[i], "MAD_BOOT_FD=", 12) != 0)
            *to++ = environ[i];
    memcpy(to, options->env, (size_t)options->env_count * sizeof(char *));
    return env;
}

bool madi_run_job_here(const madi_run_options_t *asked, const char *host)
{
    return !asked->agent && madi_run_same_here(host, true); /* an agent may lead to another environment on this host */
}

/* Return env with MAD_HOST added, which is this host's name in the topology file, stored in *text.  The caller frees the
 * result, unless it is env itself. */
static char **host_env(char **env, const char *host, char (*text)[300])
{
    size_t n = 0;
    char **more;
    if (!options->topology)
        return env;
    while (env[n])
        n++;
    snprintf(*text, sizeof(*text), "MAD_HOST=%s", madi_run_topology_name(host));
    more = madi_run_alloc(n + 2, sizeof(char *));
    memcpy(more, env, n * sizeof(char *));
    more[n] = *text;
    return more;
}

static void job_start(const madi_run_hosts_t *hosts, madi_run_spec_t *local, char **far_env, const char *here,
                      const sigset_t *mask)
{
    static char name_here[300];
    bool any_local = false;
    hosts_left = hosts->count;
    for (int i = 0; i < hosts->count; i++) {
        const madi_run_host_t *host = &hosts->host[i];
        madi_run_spec_t spec = *local;
        madi_run_remote_t *remote;
        char name[300];
        spec.first = host->first;
        spec.count = host->count;
        if (options->verbose)
            madi_run_say("host %s: ranks %d to %d", host->name, host->first, host->first + host->count - 1);
        if (!any_local && madi_run_job_here(options, host->name)) {
            *local = spec;
            local->env = host_env(spec.env, host->name, &name_here);
            any_local = true;
            continue;
        }
        spec.env = host_env(far_env, host->name, &name);
        spec.wdir = here;
        remote = madi_run_remote_start(host->name, options->agent, &spec, &events, mask);
        if (spec.env != far_env)
            free(spec.env);
        for (int rank = host->first; rank < host->first + host->count; rank++)
            home[rank] = remote;
    }
    if (any_local && !stopping)
        madi_run_local_start(local, &events, mask);
    else if (any_local)
        job_on_done();
}

/* Start gateways first: those on other hosts take longest, and the ranks wait for their addresses. */
static void start_all(const madi_run_hosts_t *hosts, const madi_run_gateway_t *gateways, int count, madi_run_spec_t *local,
                      char **far_env, const sigset_t *mask)
{
    char here[PATH_MAX];
    const char *wdir = local->wdir ? local->wdir : getcwd(here, sizeof(here)) ? here : "/";
    madi_run_spec_t beside = *local;
    beside.env = far_env;
    beside.wdir = wdir;
    if (options->around)
        madi_run_pmi_absent(0);
    madi_run_gateways_start(options, gateways, count, &beside, mask);
    if (!options->around) {
        job_start(hosts, local, far_env, wdir, mask);
        return;
    }
    hosts_left = 1;
    local->count = 1;
    local->foreign = true;
    local->bind = MADI_RUN_BIND_NONE;
    local->verbose = false;
    command = local;
    command_mask = mask;
    if (!count)
        job_command_start();
}

int madi_run_job(const madi_run_options_t *asked, const madi_run_hosts_t *hosts)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
    const madi_run_pmi_hooks_t hooks = {pmi_reply, pmi_aborted, pmi_passed};
    madi_run_spec_t local = {.size = asked->count,
                             .bind = asked->bind,
                             .reserve = asked->reserve,
                             .stdin_rank = asked->stdin_rank,
                             .verbose = asked->verbose,
                             .wdir = asked->wdir,
                             .env = asked->env,
                             .argv = asked->argv,
                             .topology = madi_run_topology_text()};
    const madi_run_gateway_t *gateways = NULL;
    const madi_run_hosts_t unknown = {0};
    char **far_env, why[200];
    int beside = 0;
    sigset_t mask;

    options = asked;
    if (asked->job_file && madi_run_job_file_check(asked->job_file, why, sizeof(why)) != 0) {
        madi_run_say("--job-file '%s' cannot be written: %s", asked->job_file, why);
        return 1;
    }
    if (!local.topology)
        local.topology = "";
    if (asked->topology && strcmp(asked->gateways, "none") != 0)
        beside = madi_run_topology_gateways(asked->around ? &unknown : hosts, &gateways);
    if (madi_run_loop_init() != 0 || madi_run_pmi_init(asked->count, beside, &hooks) != 0 ||
        madi_run_signals_init(numbers, sizeof(numbers) / sizeof(numbers[0]), job_on_signal, &mask) != 0) {
        perror("madrun: cannot start");
        return 1;
    }
    madi_run_orphans_init();
    home = madi_run_alloc((size_t)asked->count, sizeof(madi_run_remote_t *));
    spoken = madi_run_alloc((size_t)asked->count, sizeof(bool));
    madi_run_output_init(asked->count, beside, asked->label, &output_hooks);
    if (asked->timeout > 0)
        madi_run_timer_set(&limit, (int64_t)(asked->timeout * 1e9), out_of_time);
    far_env = remote_env();
    input.fd = -1;
    start_all(hosts, gateways, beside, &local, far_env, &mask);
    if (hosts_left > 0 && !options->around)
        input_open();
    while (hosts_left > 0 || madi_run_gateways_left() > 0 || madi_run_output_waiting()) {
        madi_run_loop_once();
        check_command();
    }
    madi_run_job_file_remove();
    madi_run_output_fini();
    madi_run_pmi_fini();
    madi_run_gateways_fini();
    madi_run_remote_fini();
    if (local.env != asked->env && !asked->around)
        free(local.env);
    free(far_env);
    free(home);
    free(spoken);
    return exit_code;
}
