/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_options.h"

#include "tools/madrun_loop.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

enum {
    HOSTS = 256,
    HOSTFILE,
    AGENT,
    TOPOLOGY,
    AROUND,
    GATEWAYS,
    JOB_FILE,
    BIND,
    RESERVE,
    ENV,
    WDIR,
    KEEP_GOING,
    TIMEOUT,
    LABEL,
    NO_LABEL,
    STDIN,
    HELP,
    OPTION_VERSION
};

static const struct option table[] = {
    {"hosts", required_argument, NULL, HOSTS},
    {"hostfile", required_argument, NULL, HOSTFILE},
    {"launch-agent", required_argument, NULL, AGENT},
    {"topology", required_argument, NULL, TOPOLOGY},
    {"around", no_argument, NULL, AROUND},
    {"gateways", required_argument, NULL, GATEWAYS},
    {"job-file", required_argument, NULL, JOB_FILE},
    {"bind", required_argument, NULL, BIND},
    {"reserve-numa", required_argument, NULL, RESERVE},
    {"env", required_argument, NULL, ENV},
    {"wdir", required_argument, NULL, WDIR},
    {"keep-going", no_argument, NULL, KEEP_GOING},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"label", no_argument, NULL, LABEL},
    {"no-label", no_argument, NULL, NO_LABEL},
    {"stdin", required_argument, NULL, STDIN},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: madrun -n N [OPTION]... PROGRAM [ARGUMENT]...\n"
    "       madrun --topology FILE --around [OPTION]... LAUNCHER [ARGUMENT]...\n"
    "Start N processes of PROGRAM, the ranks of one Madeleine session, and wait for them.\n"
    "\n"
    "  -n N                    how many processes\n"
    "  --hosts LIST            where: a,b:4,node[1-8] (':4': at most four there); default: here\n"
    "  --hostfile FILE         where: one host a line, 'name', 'name:4' or 'name slots=4'\n"
    "  --launch-agent COMMAND  reaches other hosts as 'COMMAND HOST madrun --proxy'; default: ssh\n"
    "  --topology FILE         start them in the clusters of this file, and gateways between these\n"
    "  --around                start the gateways, and here another launcher, as mpirun, that starts the processes\n"
    "  --gateways restart|once|none\n"
    "                          start gateways, and again when they fail; default: restart\n"
    "  --job-file FILE         write what madgw --join needs to know\n"
    "  --bind core|socket|numa|none\n"
    "                          bind each process; default: core when there are enough, else none\n"
    "  --reserve-numa NODE     bind nothing to this NUMA node, it is kept for the system\n"
    "  --env NAME=VALUE        set a variable in all processes; may be repeated\n"
    "  --wdir DIRECTORY        start the processes there\n"
    "  --keep-going            let the others go on when a process fails\n"
    "  --timeout SECONDS       end everything, with exit code 124, after this time\n"
    "  --label, --no-label     write '[rank] ' before each line of output; default: when N > 1\n"
    "  --stdin RANK|none       rank that gets standard input; default: 0\n"
    "  -v                      say what is started where\n"
    "  --help, --version\n"
    "\n"
    "The exit code is that of the first process that failed (128 + signal when a signal ended it), else 0.\n";

static int run_option_bad(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "madrun: %s '%s' is not valid: give %s\n", option, value, want);
    return 2;
}

static bool option_number(const char *text, long min, long max, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || n < min || n > max)
        return false;
    *value = (int)n;
    return true;
}

static int parse_env(madi_run_options_t *options, char *pair)
{
    if (pair[0] == '=' || !strchr(pair, '='))
        return run_option_bad("--env", pair, "NAME=VALUE");
    options->env[options->env_count++] = pair;
    return -1;
}

static int parse_timeout(madi_run_options_t *options, const char *text)
{
    char *end;
    options->timeout = strtod(text, &end);
    if (end == text || *end || !(options->timeout > 0 && options->timeout < 1e9))
        return run_option_bad("--timeout", text, "a number of seconds");
    return -1;
}

/* An empty command would start the processes on this host, under the names of other hosts. */
static int parse_agent(madi_run_options_t *options, char *text)
{
    options->agent = text;
    if (text[strspn(text, " \t")] == 0)
        return run_option_bad("--launch-agent", text, "a command, such as 'ssh -x' or 'docker exec -i'");
    return -1;
}

static int parse_wdir(madi_run_options_t *options, char *text)
{
    options->wdir = text;
    return *text ? -1 : run_option_bad("--wdir", text, "a directory");
}

static int parse_gateways(madi_run_options_t *options, const char *text)
{
    options->gateways = text;
    if (strcmp(text, "restart") != 0 && strcmp(text, "once") != 0 && strcmp(text, "none") != 0)
        return run_option_bad("--gateways", text, "restart, once or none");
    return -1;
}

static int parse_one(madi_run_options_t *options, int option)
{
    switch (option) {
    case 'n':
        return option_number(optarg, 1, 1000000, &options->count)
                   ? -1
                   : run_option_bad("-n", optarg, "a number from 1 to 1000000");
    case 'v': options->verbose = true; return -1;
    case HOSTS: options->hosts = optarg; return -1;
    case HOSTFILE: options->hostfile = optarg; return -1;
    case AGENT: return parse_agent(options, optarg);
    case TOPOLOGY: options->topology = optarg; return -1;
    case AROUND: options->around = true; return -1;
    case GATEWAYS: return parse_gateways(options, optarg);
    case JOB_FILE: options->job_file = optarg; return -1;
    case BIND:
        return madi_run_bind_parse(optarg, &options->bind) ? -1
                                                           : run_option_bad("--bind", optarg, "core, socket, numa or none");
    case RESERVE:
        return option_number(optarg, 0, INT_MAX, &options->reserve)
                   ? -1
                   : run_option_bad("--reserve-numa", optarg, "the number of a NUMA node");
    case ENV: return parse_env(options, optarg);
    case WDIR: return parse_wdir(options, optarg);
    case KEEP_GOING: options->keep_going = true; return -1;
    case TIMEOUT: return parse_timeout(options, optarg);
    case LABEL: options->label = true; return -1;
    case NO_LABEL: options->label = false; return -1;
    case STDIN:
        if (strcmp(optarg, "none") == 0)
            options->stdin_rank = -1;
        else if (!option_number(optarg, 0, INT_MAX, &options->stdin_rank))
            return run_option_bad("--stdin", optarg, "a rank or 'none'");
        return -1;
    case HELP: fputs(help, stdout); return 0;
    case OPTION_VERSION: printf("madrun (Madeleine) %s\n", PACKAGE_VERSION); return 0;
    default: fprintf(stderr, "madrun: 'madrun --help' lists the options\n"); return 2;
    }
}

/* Check the options with --around.  Gateways are not restarted in this mode, because the other launcher's processes would
 * not be informed. */
static int check_around(madi_run_options_t *options)
{
    const char *excluded = options->count      ? "-n"
                           : options->hosts    ? "--hosts"
                           : options->hostfile ? "--hostfile"
                           : options->job_file ? "--job-file"
                                               : NULL;
    if (excluded) {
        fprintf(stderr, "madrun: --around: %s is not for another launcher: give it that launcher's own options\n", excluded);
        return 2;
    }
    if (!options->topology) {
        fprintf(stderr, "madrun: --around: gateways between which clusters?  Give --topology FILE\n");
        return 2;
    }
    if (options->gateways && strcmp(options->gateways, "restart") == 0)
        return run_option_bad("--gateways", options->gateways, "once or none with --around");
    options->gateways = options->gateways ? options->gateways : "once";
    options->count = 1;
    return -1;
}

int madi_run_options_parse(madi_run_options_t *options, int argc, char **argv)
{
    int option, code;
    memset(options, 0, sizeof(*options));
    options->reserve = -1;
    options->label = true;
    options->bind = MADI_RUN_BIND_AUTO;
    options->env = madi_run_alloc((size_t)argc + 1, sizeof(char *));
    argv[0] = (char *)"madrun"; /* prefix of getopt's messages */
    /* +: stop at the program, because the options after it belong to the program */
    while ((option = getopt_long(argc, argv, "+n:v", table, NULL)) != -1) {
        code = parse_one(options, option);
        if (code >= 0)
            return code;
    }
    options->argv = argv + optind;
    options->argc = argc - optind;
    if (options->around && (code = check_around(options)) >= 0)
        return code;
    if (!options->gateways)
        options->gateways = "restart";
    if (options->count == 0) {
        fprintf(stderr, "madrun: how many processes?  Give -n N ('madrun --help' lists the options)\n");
        return 2;
    }
    if (options->argc == 0) {
        fprintf(stderr, "madrun: which program?  Name it after the options ('madrun --help' lists them)\n");
        return 2;
    }
    if (options->hosts && options->hostfile) {
        fprintf(stderr, "madrun: --hosts and --hostfile exclude each other: give one of them\n");
        return 2;
    }
    if (options->stdin_rank >= options->count) {
        fprintf(stderr, "madrun: --stdin %d: there are only the ranks 0 to %d\n", options->stdin_rank, options->count - 1);
        return 2;
    }
    return -1;
}
