/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_options.h"

#include "tools/madrun_loop.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

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

static int parse_timeout(madi_run_options_t *options, char *text)
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

static int parse_gateways(madi_run_options_t *options, char *text)
{
    options->gateways = text;
    if (strcmp(text, "restart") != 0 && strcmp(text, "once") != 0 && strcmp(text, "none") != 0)
        return run_option_bad("--gateways", text, "restart, once or none");
    return -1;
}

static int parse_count(madi_run_options_t *options, char *text)
{
    return option_number(text, 1, 1000000, &options->count) ? -1 : run_option_bad("-n", text, "a number from 1 to 1000000");
}

static int parse_bind(madi_run_options_t *options, char *text)
{
    return madi_run_bind_parse(text, &options->bind) ? -1 : run_option_bad("--bind", text, "core, socket, numa or none");
}

static int parse_reserve(madi_run_options_t *options, char *text)
{
    return option_number(text, 0, INT_MAX, &options->reserve)
               ? -1
               : run_option_bad("--reserve-numa", text, "the number of a NUMA node");
}

static int parse_stdin(madi_run_options_t *options, char *text)
{
    if (strcmp(text, "none") == 0)
        options->stdin_rank = -1;
    else if (!option_number(text, 0, INT_MAX, &options->stdin_rank))
        return run_option_bad("--stdin", text, "a rank or 'none'");
    return -1;
}

static int print_help(madi_run_options_t *options, char *text);

static int print_version(madi_run_options_t *options, char *text)
{
    (void)options, (void)text;
    printf("madrun (Madeleine) %s\n", PACKAGE_VERSION);
    return 0;
}

/* An option of the command line.  To add one: add a row, and its member of madi_run_options_t. */
typedef struct option_row {
    const char *name; /* of the long option; NULL: it has a letter only */
    int letter;       /* 0: none; those that have one are in OPTION_LETTERS, too */
    enum { OPTION_FLAG, OPTION_TEXT, OPTION_PARSED } kind;
    size_t at;  /* FLAG, TEXT: offset of the member */
    bool value; /* FLAG: the value of the member */
    /* PARSED: text: of the argument, NULL if there is none; returns like madi_run_options_parse */
    int (*parse)(madi_run_options_t *options, char *text);
    bool has_argument; /* PARSED; a TEXT has one, and a FLAG none */
    const char *help;  /* lines of --help; NULL: in the row before */
} option_row_t;

#define FLAG(member, to) OPTION_FLAG, offsetof(madi_run_options_t, member), to, NULL, false
#define TEXT(member) OPTION_TEXT, offsetof(madi_run_options_t, member), false, NULL, true
#define PARSED(function) OPTION_PARSED, 0, false, function, true
#define DONE_BY(function) OPTION_PARSED, 0, false, function, false
#define OPTION_LETTERS "+n:v" /* +: stop at the program, whose options are its own */

/* clang-format off */
static const option_row_t rows[] = {
    {NULL, 'n', PARSED(parse_count),
     "  -n N                    how many processes\n"},
    {"hosts", 0, TEXT(hosts),
     "  --hosts LIST            where: a,b:4,node[1-8] (':4': at most four there); default: here\n"},
    {"hostfile", 0, TEXT(hostfile),
     "  --hostfile FILE         where: one host a line, 'name', 'name:4' or 'name slots=4'\n"},
    {"launch-agent", 0, PARSED(parse_agent),
     "  --launch-agent COMMAND  reaches other hosts as 'COMMAND HOST madrun --proxy'; default: ssh\n"},
    {"topology", 0, TEXT(topology),
     "  --topology FILE         start them in the clusters of this file, and gateways between these\n"},
    {"around", 0, FLAG(around, true),
     "  --around                start the gateways, and here another launcher, as mpirun, that starts the processes\n"},
    {"gateways", 0, PARSED(parse_gateways),
     "  --gateways restart|once|none\n"
     "                          start gateways, and again when they fail; default: restart\n"},
    {"job-file", 0, TEXT(job_file),
     "  --job-file FILE         write what madgw --join needs to know\n"},
    {"bind", 0, PARSED(parse_bind),
     "  --bind core|socket|numa|none\n"
     "                          bind each process; default: core when there are enough, else none\n"},
    {"reserve-numa", 0, PARSED(parse_reserve),
     "  --reserve-numa NODE     bind nothing to this NUMA node, it is kept for the system\n"},
    {"env", 0, PARSED(parse_env),
     "  --env NAME=VALUE        set a variable in all processes; may be repeated\n"},
    {"wdir", 0, PARSED(parse_wdir),
     "  --wdir DIRECTORY        start the processes there\n"},
    {"keep-going", 0, FLAG(keep_going, true),
     "  --keep-going            let the others go on when a process fails\n"},
    {"timeout", 0, PARSED(parse_timeout),
     "  --timeout SECONDS       end everything, with exit code 124, after this time\n"},
    {"label", 0, FLAG(label, true),
     "  --label, --no-label     write '[rank] ' before each line of output; default: when N > 1\n"},
    {"no-label", 0, FLAG(label, false), NULL},
    {"stdin", 0, PARSED(parse_stdin),
     "  --stdin RANK|none       rank that gets standard input; default: 0\n"},
    {NULL, 'v', FLAG(verbose, true),
     "  -v                      say what is started where\n"},
    {"help", 0, DONE_BY(print_help),
     "  --help, --version\n"},
    {"version", 0, DONE_BY(print_version), NULL},
};
/* clang-format on */
#define ROWS (sizeof rows / sizeof rows[0])
#define ROW_FIRST 256 /* getopt's number of the first row; letters are below */

static int print_help(madi_run_options_t *options, char *text)
{
    (void)options, (void)text;
    fputs("usage: madrun -n N [OPTION]... PROGRAM [ARGUMENT]...\n"
          "       madrun --topology FILE --around [OPTION]... LAUNCHER [ARGUMENT]...\n"
          "Start N processes of PROGRAM, the ranks of one Madeleine session, and wait for them.\n"
          "\n",
          stdout);
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].help)
            fputs(rows[i].help, stdout);
    fputs("\n"
          "The exit code is that of the first process that failed (128 + signal when a signal ended it), else 0.\n",
          stdout);
    return 0;
}

/* Return the row of a number that getopt_long has returned; NULL: an unknown option, which was reported. */
static const option_row_t *option_row_find(int option)
{
    if (option >= ROW_FIRST)
        return &rows[option - ROW_FIRST];
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].letter == option)
            return &rows[i];
    return NULL;
}

static int parse_one(madi_run_options_t *options, int option)
{
    const option_row_t *row = option_row_find(option);
    void *member = (char *)options + (row ? row->at : 0);
    if (!row) {
        fprintf(stderr, "madrun: 'madrun --help' lists the options\n");
        return 2;
    }
    switch (row->kind) {
    case OPTION_FLAG: *(bool *)member = row->value; return -1;
    case OPTION_TEXT: *(char **)member = optarg; return -1;
    default: return row->parse(options, optarg);
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
    struct option table[ROWS + 1] = {{0}};
    int option, code, named = 0;
    memset(options, 0, sizeof(*options));
    options->reserve = -1;
    options->label = true;
    options->bind = MADI_RUN_BIND_AUTO;
    options->env = madi_run_alloc((size_t)argc + 1, sizeof(char *));
    argv[0] = (char *)"madrun"; /* prefix of getopt's messages */
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].name)
            table[named++] = (struct option){rows[i].name, rows[i].has_argument, NULL, ROW_FIRST + (int)i};
    while ((option = getopt_long(argc, argv, OPTION_LETTERS, table, NULL)) != -1) {
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
