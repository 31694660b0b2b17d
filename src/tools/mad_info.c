/* SPDX-License-Identifier: BSD-3-Clause */
/* mad_info: reports on this host, on live processes, and on topology and trace files.
 *
 *   mad_info.c           the command line
 *   mad_info_host.c      adapters, calibration, knobs      mad_info_calibrate.c  the measurements
 *   mad_info_explain.c   report on a live process          mad_info_find.c, mad_info_query.c   finding and querying processes
 *   mad_info_stats.c     live counters                     mad_info_metrics.c    their meaning, for Prometheus
 *   mad_info_trace.c     a live timeline                   mad_info_merge.c      several merged
 *   mad_info_lanes.c     timeline as lanes                 mad_info_picture.c    picture of the lanes
 *   mad_info_doctor.c    check of this host                mad_info_check_*.c    the single checks
 *   mad_info_topology.c  a topology file                   mad_info_route.c      routes through it
 *   mad_info_live.c      live traffic on a topology        mad_info_collectives.c   forms of collective operations
 *   mad_info_print.c, mad_info_table.c   text from JSON */
#include "tools/mad_info.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

static const struct {
    const char *name, *arguments, *help;
    const char *options; /* getopt values of the options that the command accepts */
    int args_min, args_max;
    int (*run)(const madi_info_options_t *options);
} commands[] = {
    {"host", "", "version, adapters, networks, calibration, knobs (the default command)", "jt", 0, 0, madi_info_host},
    {"knobs", "", "the MAD_* variables: values, origins, purposes", "jt", 0, 0, madi_info_knobs},
    {"explain", "PID [PEER]", "which paths to its peers a live process uses and has rejected, and why", "jt", 1, 2,
     madi_info_explain},
    {"stats", "PID|all", "traffic of live processes: by driver, channel and route; --watch, --json, --prometheus", "jtwp", 1,
     1, madi_info_stats},
    {"trace", "PID | merge FILE...",
     "save the timeline (MAD_TRACE) of a live process; merge several files: --output FILE; draw it: --svg PICTURE", "jtosn",
     1, 100000, madi_info_trace},
    {"doctor", "", "find problems of this host; exit code 1 if one is bad", "jt", 0, 0, madi_info_doctor},
    {"topology", "[FILE]",
     "check a topology file and print it, or draw it: --dot, --svg PICTURE; with live traffic: --live SECONDS", "jtlds", 0,
     1, madi_info_topology},
    {"route", "[FILE] A B", "which routes messages take from host A to host B, and why: --channel NAME, --size BYTES",
     "jtcb", 2, 3, madi_info_route},
    {"collectives", "MEMBERS [HOSTS [ISLANDS]]", "which forms collective operations take, and why: --size BYTES", "jb", 1, 3,
     madi_info_collectives},
};
#define GIVEN_MAX 128 /* bound of the options' getopt values */
#define N_COMMANDS (int)(sizeof commands / sizeof *commands)

static void info_help(void)
{
    puts("usage: mad_info [COMMAND] [OPTIONS]\n\nCommands:");
    for (int i = 0; i < N_COMMANDS; i++) {
        char form[32];
        snprintf(form, sizeof form, "%s %s", commands[i].name, commands[i].arguments);
        printf("  %-20s %s\n", form, commands[i].help);
    }
    puts("\nOptions:\n  --json               one JSON object instead of text\n  --timeout SECONDS    time in which a "
         "process has to answer; default: 3\n  --watch SECONDS      stats: repeat; from the second round on, numbers are "
         "per second\n  --prometheus         stats: for Prometheus\n  --output FILE        trace: file to write; default: "
         "the name that the process would use; for merge: standard output\n  --live SECONDS       topology: with the "
         "traffic of this machine's processes, measured for this time\n  --dot                the topology in Graphviz's "
         "language\n  --svg PICTURE        the topology, or the timeline, as a picture, written to this file\n  --span "
         "FROM-TO       trace --svg: only this part, in microseconds from the first event\n  --channel NAME       the "
         "virtual channel; default: the first of the file\n  --size BYTES         costs are for transfers of this length, "
         "for instance 8 or 1MiB; default: 64KiB\n  --help, --version\n\nFILE: a topology file, mad_topology(5); default: "
         "that of MAD_TOPOLOGY");
}

static bool seconds(const char *option, double *value)
{
    char *end;
    *value = strtod(optarg, &end);
    if (end != optarg && !*end && *value > 0 && *value <= 3600)
        return true;
    fprintf(stderr, "mad_info: %s '%s' is not valid: give seconds, more than 0 to 3600\n", option, optarg);
    return false;
}

static const struct option table[] = {{"json", no_argument, NULL, 'j'},        {"timeout", required_argument, NULL, 't'},
                                      {"watch", required_argument, NULL, 'w'}, {"live", required_argument, NULL, 'l'},
                                      {"prometheus", no_argument, NULL, 'p'},  {"output", required_argument, NULL, 'o'},
                                      {"dot", no_argument, NULL, 'd'},         {"svg", required_argument, NULL, 's'},
                                      {"span", required_argument, NULL, 'n'},  {"channel", required_argument, NULL, 'c'},
                                      {"size", required_argument, NULL, 'b'},  {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0}};

/* Parse the options; given[] records the getopt values seen.  Return -1 if the program is to continue, otherwise its
 * exit code. */
static int parse(madi_info_options_t *o, char *given, int argc, char **argv)
{
    int option;
    *o = (madi_info_options_t){.timeout = 3};
    argv[0] = (char *)"mad_info"; /* prefix of getopt's messages */
    while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
        if (option < GIVEN_MAX)
            given[option] = 1;
        switch (option) {
        case 'j': o->json = true; break;
        case 't':
            if (!seconds("--timeout", &o->timeout))
                return 2;
            break;
        case 'w':
            if (!seconds("--watch", &o->watch))
                return 2;
            break;
        case 'l':
            if (!seconds("--live", &o->live))
                return 2;
            break;
        case 'p': o->prometheus = true; break;
        case 'o': o->output = optarg; break;
        case 'd': o->dot = true; break;
        case 's': o->svg = optarg; break;
        case 'n': o->span = optarg; break;
        case 'c': o->channel = optarg; break;
        case 'b': o->size = optarg; break;
        case 'h': info_help(); return 0;
        case 'V': printf("mad_info (Madeleine) %s\n", PACKAGE_VERSION); return 0;
        default: fprintf(stderr, "mad_info: 'mad_info --help' lists commands and options\n"); return 2;
        }
    }
    o->argc = argc - optind;
    o->argv = argv + optind;
    return -1;
}

/* True if the command accepts all options given; otherwise report the first one that it does not. */
static bool options_fit(int command, const char *given)
{
    for (int i = 0; table[i].name; i++)
        if (given[table[i].val] && !strchr(commands[command].options, table[i].val)) {
            fprintf(stderr, "mad_info: --%s is not an option of %s: 'mad_info --help' lists its commands\n", table[i].name,
                    commands[command].name);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    madi_info_options_t o;
    char given[GIVEN_MAX] = "";
    int code = parse(&o, given, argc, argv);
    const char *name = code < 0 && o.argc ? o.argv[0] : "host";
    if (code >= 0)
        return code;
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i].name, name))
            continue;
        if (o.argc)
            o.argc--, o.argv++;
        if (o.argc < commands[i].args_min || o.argc > commands[i].args_max) {
            fprintf(stderr, "mad_info: usage: mad_info %s %s\n", name, commands[i].arguments);
            return 2;
        }
        return options_fit(i, given) ? commands[i].run(&o) : 2;
    }
    fprintf(stderr, "mad_info: there is no command '%s': 'mad_info --help' lists them\n", name);
    return 2;
}
