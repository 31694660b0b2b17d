/* SPDX-License-Identifier: BSD-3-Clause */
/* madlab: the clusters of a topology file as namespaces on one machine.
 *
 *   madlab.c           the command line              madlab_plan.c   plan of the lab, from the topology file
 *   madlab_schedule.c  --at                          madlab_run.c    the keeper: the process outside the lab
 *   madlab_first.c     the lab's first process       madlab_host.c   a host's first process
 *   madlab_exec.c      starting processes on a host  madlab_kill.c   killing processes by name
 *   madlab_mounts.c    /tmp, /dev/shm, /proc, /sys   madlab_net.c    bridges, interfaces, rates
 *   madlab_base.c      messages, memory, titles */
#include "tools/madlab_exec.h"
#include "tools/madlab_net.h"
#include "tools/madlab_run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

enum { AT = 256, ON, SHARE, TIMEOUT, DRY_RUN, QUIET, HELP, OPTION_VERSION };

static const struct option table[] = {
    {"at", required_argument, NULL, AT},
    {"on", required_argument, NULL, ON},
    {"share", required_argument, NULL, SHARE},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"dry-run", no_argument, NULL, DRY_RUN},
    {"quiet", no_argument, NULL, QUIET},
    {"help", no_argument, NULL, HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: madlab run TOPOLOGY [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "       madlab shell TOPOLOGY HOST [OPTION]...\n"
    "       madlab list TOPOLOGY\n"
    "       madlab exec HOST [--] COMMAND [ARGUMENT]...    (in a lab)\n"
    "       madlab --rdma [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "Make the hosts and networks of a topology file out of namespaces on this machine, run a command in them, and end\n"
    "everything with it.  No network of the lab leads to another one, nor out of it.  It is no sandbox: what runs in a lab\n"
    "can use this machine's files with the rights of the user that started it, as root all of them.\n"
    "\n"
    "  run    the command runs on a host of its own, 'launch', which is on no network and reaches all others by the agent:\n"
    "         madrun -n 4 --hosts \"$MADLAB_HOSTS\" --launch-agent \"$MADLAB_AGENT\" PROGRAM\n"
    "  shell  the same with a shell on a host\n"
    "  list   print what would be made\n"
    "  exec   start a command on a host; this is the agent\n"
    "\n"
    "  --at SECONDS:cut:LINK            nothing passes there any more, silently\n"
    "  --at SECONDS:throttle:LINK=RATE  to a rate such as 100Mbit/s\n"
    "  --at SECONDS:restore:LINK        as it was at the beginning\n"
    "  --at SECONDS:kill:HOST           all of its processes; with PROCESS@HOST, only those called so\n"
    "  --at SECONDS:start:HOST          after kill\n"
    "                          LINK: NETWORK, NETWORK/HOST, or HOST (all of its); seconds since the command began\n"
    "  --on HOST               run the command there\n"
    "  --share PATH            in /tmp or /dev/shm, of which each host has its own: all see this one; may be repeated\n"
    "  --timeout SECONDS       end everything, with exit code 124, after this time\n"
    "  --dry-run               only say what would be made, and what would happen\n"
    "  --quiet                 say only what is wrong\n"
    "  --help, --version\n"
    "\n"
    "madlab --rdma runs a command in virtual machines with RDMA networks made by software; alone it prints its options.\n"
    "\n"
    "The exit code is that of the command (128 + signal when a signal ended it), 125 when there is no lab, 2 when the\n"
    "command line or the topology file is wrong.\n";

typedef struct options {
    const char *at[1000];
    int ats;
    const char *on;
    const char *share[100];
    int shares;
    double timeout;
    bool dry, quiet;
} options_t;

static int usage_wrong(const char *what)
{
    madi_lab_say("%s ('madlab --help' lists what there is)", what);
    return 2;
}

/* -1: continue; else the exit code. */
static int lab_option_take(options_t *options, int option)
{
    char *end;
    switch (option) {
    case AT:
        if (options->ats == (int)(sizeof(options->at) / sizeof(options->at[0])))
            return usage_wrong("there are more --at than madlab keeps");
        options->at[options->ats++] = optarg;
        return -1;
    case ON: options->on = optarg; return -1;
    case SHARE:
        if (options->shares == (int)(sizeof(options->share) / sizeof(options->share[0])))
            return usage_wrong("there are more --share than madlab keeps");
        options->share[options->shares++] = optarg;
        return -1;
    case TIMEOUT:
        options->timeout = strtod(optarg, &end);
        if (!*optarg || *end || !(options->timeout > 0 && options->timeout < 1e8))
            return usage_wrong("--timeout: give a number of seconds");
        return -1;
    case DRY_RUN: options->dry = true; return -1;
    case QUIET: options->quiet = true; return -1;
    case HELP: fputs(help, stdout); return 0;
    case OPTION_VERSION: printf("madlab (Madeleine) %s\n", PACKAGE_VERSION); return 0;
    default: return usage_wrong("that is not understood");
    }
}

static int options_parse(options_t *options, int argc, char **argv)
{
    int option, code;
    while ((option = getopt_long(argc, argv, "+", table, NULL)) != -1)
        if ((code = lab_option_take(options, option)) >= 0)
            return code;
    return -1;
}

/* Parse the --at options after all others, because the topology file may come before or between them. */
static int events_parse(madi_lab_run_t *run, const options_t *options)
{
    run->event = madi_lab_alloc((size_t)options->ats, sizeof(*run->event));
    for (int i = 0; i < options->ats; i++)
        if (madi_lab_event_parse(&run->event[i], &run->plan, options->at[i]) != 0)
            return 2;
    run->events = options->ats;
    madi_lab_events_sort(run->event, run->events);
    return -1;
}

/* Share the directory of the tools or, if it is the bin directory of an installation, the whole installation with its
 * libraries. */
static void tools_share(madi_lab_shares_t *shares, const char *self)
{
    char why[PATH_MAX + 128];
    char *dir = madi_lab_text("%.*s", (int)(strrchr(self, '/') ? strrchr(self, '/') - self : 0), self);
    char *bin = strrchr(dir, '/');
    bool good = false;
    if (bin && strcmp(bin, "/bin") == 0) {
        *bin = 0;
        good = madi_lab_shares_add(shares, dir[0] ? dir : "/", why, sizeof(why));
        *bin = '/';
    }
    if (!good && !madi_lab_shares_add(shares, dir, why, sizeof(why)))
        madi_lab_shares_add(shares, self, why, sizeof(why));
    free(dir);
}

/* Determine the parts of the machine's /tmp and /dev/shm that all hosts see. */
static int shares_make(madi_lab_run_t *run, const options_t *options)
{
    char self[PATH_MAX], why[PATH_MAX + 128];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    for (int i = 0; i < options->shares; i++) {
        if (!madi_lab_shares_add(&run->shares, options->share[i], why, sizeof(why))) {
            madi_lab_say("--share: %s", why);
            return 2;
        }
    }
    if (!madi_lab_shares_add(&run->shares, ".", why, sizeof(why))) {
        madi_lab_say("the current directory: %s", why);
        return 2;
    }
    self[n > 0 ? n : 0] = 0;
    run->self = madi_lab_text("%s", self);
    tools_share(&run->shares, self);
    if (!madi_lab_shares_add(&run->shares, run->plan.path, why, sizeof(why)))
        madi_lab_say("%s", why);
    for (int i = 0; run->argv[i]; i++)
        if (run->argv[i][0] == '/' && madi_lab_shares_hide(&run->shares, run->argv[i]))
            madi_lab_say("no host sees '%s', as each has a /tmp and /dev/shm of its own: if it is needed, add "
                         "--share with its directory",
                         run->argv[i]);
    return -1;
}

static int run_prepared(madi_lab_run_t *run, const options_t *options)
{
    int code = shares_make(run, options);
    if (code >= 0)
        return code;
    if (options->dry) {
        madi_lab_plan_print(&run->plan, stdout);
        for (int i = 0; i < run->shares.count; i++)
            printf("shared %s\n", run->shares.path[i]);
        printf("command on host %s:", run->plan.host[run->on].name);
        for (int i = 0; run->argv[i]; i++)
            printf(" %s", run->argv[i]);
        printf("\n");
        for (int i = 0; i < run->events; i++)
            printf("at %s\n", run->event[i].text);
        return 0;
    }
    if (!madi_lab_links_tools())
        return MADI_LAB_FAILED;
    return madi_lab_run(run);
}

/* Commands run and shell. */
static int lab_command(int argc, char **argv, bool shell)
{
    static char *shell_argv[2];
    static options_t options;
    madi_lab_run_t run = {0};
    const char *file, *host = NULL;
    int code = options_parse(&options, argc, argv);
    if (code >= 0)
        return code;
    if (optind >= argc)
        return usage_wrong("which topology file?");
    file = argv[optind];
    argv[optind] = argv[0];
    argc -= optind;
    argv += optind;
    if (shell && argc > 1 && argv[1][0] != '-') {
        host = argv[1];
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    optind = 1; /* continue with the arguments between the file and the command */
    if ((code = options_parse(&options, argc, argv)) >= 0)
        return code;
    run.argv = argv + optind;
    if (shell) {
        if (optind < argc)
            return usage_wrong("shell takes no command: use run --on HOST");
        shell_argv[0] = getenv("SHELL") && access(getenv("SHELL"), X_OK) == 0 ? getenv("SHELL") : (char *)"/bin/sh";
        run.argv = shell_argv;
        options.on = host ? host : options.on;
    } else if (optind >= argc) {
        return usage_wrong("which command?  Name it after --");
    }
    run.timeout = options.timeout;
    run.quiet = options.quiet;
    if (madi_lab_plan_read(&run.plan, file) != 0)
        return 2;
    run.on = madi_lab_plan_host(&run.plan, options.on ? options.on : MADI_LAB_LAUNCH);
    if (run.on < 0) {
        madi_lab_say("there is no host '%s' in %s ('madlab list' prints them)", options.on, file);
        return 2;
    }
    if ((code = events_parse(&run, &options)) >= 0)
        return code;
    return run_prepared(&run, &options);
}

static int list_command(int argc, char **argv)
{
    madi_lab_plan_t plan;
    if (argc != 2)
        return usage_wrong("list takes a topology file");
    if (madi_lab_plan_read(&plan, argv[1]) != 0)
        return 2;
    madi_lab_plan_print(&plan, stdout);
    return 0;
}

/* Run guests.sh, which makes virtual machines; `argv` ends in NULL and has its arguments from 1 on. */
static int rdma_command(char **argv)
{
    const char *folder = getenv("MADLAB_GUESTS"); /* in a build that is not installed */
    char *script = madi_lab_text("%s/guests.sh", folder ? folder : MADI_LAB_GUESTS);
    argv[-1] = (char *)"sh";
    argv[0] = script;
    if (access(script, R_OK) == 0)
        execvp("sh", argv - 1);
    madi_lab_say("%s: %s; MADLAB_GUESTS names the folder of guests.sh", script, strerror(errno));
    free(script);
    return MADI_LAB_FAILED;
}

int main(int argc, char **argv)
{
    static options_t options;
    const char *command;
    int fd;
    do /* occupy descriptors 0 to 2, so that later ones do not get these numbers */
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    close(fd);
    argv = madi_lab_title_prepare(argc, argv);
    command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--rdma") == 0)
        return rdma_command(argv + 1);
    if (command[0] == '-') {
        int code = options_parse(&options, argc, argv);
        return code >= 0 ? code : usage_wrong("run, shell, list or exec?");
    }
    argv++;
    argc--;
    if (argc > 0)
        argv[0] = (char *)"madlab"; /* prefix of getopt's messages */
    if (strcmp(command, "run") == 0 || strcmp(command, "shell") == 0)
        return lab_command(argc, argv, command[0] == 's');
    if (strcmp(command, "list") == 0)
        return list_command(argc, argv);
    if (strcmp(command, "exec") == 0)
        return madi_lab_exec(argc - 1, argv + 1);
    return usage_wrong(*command ? "it is run, shell, list or exec" : "run, shell, list or exec?");
}
