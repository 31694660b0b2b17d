/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madgw_options.h"

#include "base/ascii.h"
#include "tools/madgw_confine.h"
#include "topology/range.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif
#define JOBS_DEFAULT 8
#define BUDGET_LEAST ((int64_t)1 << 20) /* bytes: least budget of a job, as for MAD_FORWARD_BUDGET */

static void gw_help(void)
{
    puts("usage: madgw [OPTION]...\n"
         "Forward messages between the networks that this host is on, as a process of a job but not one of its ranks.\n"
         "madrun --topology starts it where the topology file has gateways; by hand it joins a job that runs.\n"
         "\n"
         "  --join FILE      the job: a file that madrun --job-file has written; -: standard input\n"
         "  --serve DIR      all jobs of this directory, each with a process of its own: files NAME.job that come and go\n"
         "  --tell           print the line by which gateways that join later find this one; add it to the job file\n"
         "  --host NAME      what the topology file calls this host; default: MAD_HOST, else its name\n"
         "  --cores LIST     run on these cores, as 0,2-3\n"
         "  --user NAME      whose rights it has when root starts it; default: the job file's owner, or nobody\n"
         "  --no-filter      let all system calls through (for debuggers)\n"
         "  --allow LIST     addresses that may be called and may call, as 10.1.0.0/16,[fd00::/8]:4000-4999\n"
         "  --jobs N         serve at most N jobs at once; default: 8\n"
         "  --user-jobs N    and of one user; default: half of them\n"
         "  --budget BYTES   memory for what passes through, of all jobs together; default: a quarter of the host's\n"
         "  --rate BYTES     bytes a second that all jobs together may pass on, divided evenly; default: no limit\n"
         "  --show-limits    print what each job is limited to, and which addresses are allowed\n"
         "  --announce       connect to all processes within reach; always with --join\n"
         "  -v               say when it is ready, and why it ends\n"
         "  --help, --version\n"
         "\n"
         "SIGTERM: take no new streams, and end when none passes any more; again: end at once.\n"
         "SIGHUP: the same, but never at once.");
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
    char text[300], why[200] = "this host has fewer cores";
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

/* Parse a number of bytes such as "100", "64K", "2.5G".  Return -1 if invalid, which was reported. */
static int64_t bytes_take(const char *option, const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    double value = strtod(text, &end);
    const char *unit = *end ? strchr(units, madi_to_upper(*end)) : NULL;
    if (unit) {
        for (long i = unit - units; i >= 0; i--)
            value *= 1024;
        end++;
    }
    if (end != text && !*end && value >= 1 && value < 9e15)
        return (int64_t)value;
    fprintf(stderr, "madgw: --%s '%s' is not valid: give bytes, for example 64K, 100M or 2.5G\n", option, text);
    return -1;
}

static int count_take(const char *option, const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end != text && !*end && value >= 1 && value <= MADI_SERVE_JOBS_MAX)
        return (int)value;
    fprintf(stderr, "madgw: --%s '%s' is not valid: give a number from 1 to %d\n", option, text, MADI_SERVE_JOBS_MAX);
    return -1;
}

static bool options_valid(const madi_gw_options_t *o)
{
    if (o->serve.dir && (o->join || o->announce || o->tell)) {
        fprintf(stderr, "madgw: --serve: --join, --tell and --announce are for one job\n");
        return false;
    }
    return true;
}

/* Check the combination of options, and fill in defaults. */
static int options_finish(madi_gw_options_t *o)
{
    char why[200];
    madi_serve_options_t *s = &o->serve;
    if (!options_valid(o))
        return 2;
    s->verbose = o->verbose;
    s->no_filter = o->no_filter;
    if (!s->budget)
        s->budget = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
    if (!s->user_jobs)
        s->user_jobs = (s->jobs + 1) / 2;
    if (s->dir)
        setenv("MAD_TCP_ALLOW", "subnets", 0); /* a job file must not make this process connect to arbitrary addresses */
    if (madi_confine_find(o->user ? o->user : MADI_CONFINE_NOBODY, &s->uid, &s->gid, why, sizeof why) != 0) {
        fprintf(stderr, "madgw: --user: %s\n", why);
        return 2;
    }
    if (s->dir && s->budget / s->jobs < BUDGET_LEAST) {
        fprintf(stderr, "madgw: --budget: %lld bytes are too few for %d jobs: give at least %lld\n", (long long)s->budget,
                s->jobs, (long long)BUDGET_LEAST * s->jobs);
        return 2;
    }
    return -1;
}

/* Parse an option for several jobs.  Return false if invalid, which was reported. */
static bool serve_take(madi_gw_options_t *o, int option)
{
    madi_serve_options_t *s = &o->serve;
    switch (option) {
    case 's': s->dir = optarg; return true;
    case 'J': return (s->jobs = count_take("jobs", optarg)) > 0;
    case 'U': return (s->user_jobs = count_take("user-jobs", optarg)) > 0;
    case 'B': return (s->budget = bytes_take("budget", optarg)) > 0;
    default: return (s->rate = bytes_take("rate", optarg)) > 0;
    }
}

/* -1: continue; else the exit code. */
static int gw_option_take(madi_gw_options_t *o, int option)
{
    switch (option) {
    case 'j': o->join = optarg; break;
    case 'H': setenv("MAD_HOST", optarg, 1); break;
    case 'c': return cores_take(optarg);
    case 'A': setenv("MAD_TCP_ALLOW", optarg, 1); break;
    case 'u': o->user = optarg; break;
    case 'F': o->no_filter = true; break;
    case 'P': o->rate_page = (int)strtol(optarg, NULL, 10); break;
    case 'L': o->show = true; break;
    case 'a': o->announce = true; break;
    case 't': o->tell = true; break;
    case 'v': o->verbose = true; break;
    case 'h': gw_help(); return 0;
    case 'V': printf("madgw (Madeleine) %s\n", PACKAGE_VERSION); return 0;
    case '?': fprintf(stderr, "madgw: 'madgw --help' lists the options\n"); return 2;
    default: return serve_take(o, option) ? -1 : 2;
    }
    return -1;
}

int madi_gw_options(madi_gw_options_t *o, int argc, char **argv)
{
    static const struct option table[] = {{"join", required_argument, NULL, 'j'},
                                          {"serve", required_argument, NULL, 's'},
                                          {"jobs", required_argument, NULL, 'J'},
                                          {"user-jobs", required_argument, NULL, 'U'},
                                          {"budget", required_argument, NULL, 'B'},
                                          {"rate", required_argument, NULL, 'R'},
                                          {"rate-page", required_argument, NULL, 'P'},
                                          {"host", required_argument, NULL, 'H'},
                                          {"cores", required_argument, NULL, 'c'},
                                          {"allow", required_argument, NULL, 'A'},
                                          {"user", required_argument, NULL, 'u'},
                                          {"no-filter", no_argument, NULL, 'F'},
                                          {"show-limits", no_argument, NULL, 'L'},
                                          {"announce", no_argument, NULL, 'a'},
                                          {"tell", no_argument, NULL, 't'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    int option, code;
    *o = (madi_gw_options_t){.rate_page = -1, .serve = {.jobs = JOBS_DEFAULT}};
    argv[0] = (char *)"madgw"; /* prefix of getopt's messages */
    while ((option = getopt_long(argc, argv, "v", table, NULL)) != -1)
        if ((code = gw_option_take(o, option)) >= 0)
            return code;
    if (optind < argc) {
        fprintf(stderr, "madgw: '%s' is no option: 'madgw --help' lists them\n", argv[optind]);
        return 2;
    }
    return options_finish(o);
}
