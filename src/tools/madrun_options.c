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

static int parse_bind(madi_run_options_t *options, char *text)
{
    return madi_run_bind_parse(text, &options->bind) ? -1 : run_option_bad("--bind", text, "core, socket, numa or none");
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

/* A row of MADI_RUN_OPTIONS. */
typedef struct option_row {
    const char *name; /* name of the long option; NULL: it has a letter only */
    int letter;       /* 0: none */
    enum { OPTION_FLAG, OPTION_TEXT, OPTION_NUMBER, OPTION_PARSED } kind;
    bool has_argument;
    bool value; /* FLAG: the value that the member gets */
    size_t at;  /* FLAG, TEXT, NUMBER: offset of the member */
    /* PARSED: parse the argument's text, NULL if there is no argument; return like madi_run_options_parse */
    int (*parse)(madi_run_options_t *options, char *text);
    long least, most; /* NUMBER */
    const char *want; /* NUMBER: what a valid argument is */
    const char *argument, *help;
} option_row_t;

/* NOLINTBEGIN(bugprone-macro-parentheses): texts and names, which are no expressions */
#define FLAG(to) .kind = OPTION_FLAG, .value = to
#define FLAG_OF(member, to) .at = offsetof(madi_run_options_t, member), FLAG(to)
#define TEXT .kind = OPTION_TEXT, .has_argument = true
#define NUMBER(from, to, valid) .kind = OPTION_NUMBER, .has_argument = true, .least = from, .most = to, .want = valid
#define PARSED(function) .kind = OPTION_PARSED, .has_argument = true, .parse = function
#define DONE_BY(function) .kind = OPTION_PARSED, .parse = function

#define OF_MEMBER(type, member, initial, name_, letter_, how, argument_, help_, manual) \
    {.name = name_, \
     .letter = letter_, \
     .at = offsetof(madi_run_options_t, member), \
     how, \
     .argument = argument_, \
     .help = help_},
#define OF_NONE(name_, letter_, how, argument_, help_, manual) \
    {.name = name_, .letter = letter_, how, .argument = argument_, .help = help_},
#define INITIAL(type, member_, initial, name, letter, how, argument, help, manual) .member_ = initial,
#define NO_INITIAL(name, letter, how, argument, help, manual)
/* NOLINTEND(bugprone-macro-parentheses) */

static const option_row_t rows[] = {MADI_RUN_OPTIONS(OF_MEMBER, OF_NONE)};
#define ROWS (sizeof rows / sizeof rows[0])
#define ROW_FIRST 256 /* getopt's number of the first row; letters are below */

#define HELP_AT 26 /* column of the help of an option */

/* Print the entry of a row, and of those behind it that have no entry of their own. */
static void print_row(const option_row_t *row)
{
    const char *help = row->help, *argument = row->argument, *before = "  ";
    int n = 0;
    do {
        n += row->name ? printf("%s--%s", before, row->name) : printf("%s-%c", before, row->letter);
        before = ", ";
    } while (++row < rows + ROWS && !row->help);
    n += argument ? printf(" %s", argument) : 0;
    if (n > HELP_AT - 2) {
        putchar('\n');
        n = 0;
    }
    printf("%*s%s\n", *help ? HELP_AT - n : 0, "", help);
}

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
            print_row(&rows[i]);
    fputs("\n"
          "The exit code is that of the first process that failed (128 + signal when a signal ended it), else 0.\n",
          stdout);
    return 0;
}

static int option_parse_number(const option_row_t *row, int *member)
{
    char name[40], letter[2] = {(char)row->letter};
    if (option_number(optarg, row->least, row->most, member))
        return -1;
    snprintf(name, sizeof(name), "%s%s", row->name ? "--" : "-", row->name ? row->name : letter);
    return run_option_bad(name, optarg, row->want);
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
    case OPTION_NUMBER: return option_parse_number(row, member);
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

/* Make the tables of getopt_long.  Letters begin with +: parsing stops at the program, whose options are its own. */
static void option_tables_fill(struct option table[ROWS + 1], char letters[2 * ROWS + 2])
{
    *letters++ = '+';
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].name)
            *table++ = (struct option){rows[i].name, rows[i].has_argument, NULL, ROW_FIRST + (int)i};
        if (rows[i].letter)
            *letters++ = (char)rows[i].letter;
        if (rows[i].letter && rows[i].has_argument)
            *letters++ = ':';
    }
}

int madi_run_options_parse(madi_run_options_t *options, int argc, char **argv)
{
    struct option table[ROWS + 1] = {{0}};
    char letters[2 * ROWS + 2] = {0};
    int option, code;
    *options = (madi_run_options_t){MADI_RUN_OPTIONS(INITIAL, NO_INITIAL)};
    options->env = madi_run_alloc((size_t)argc + 1, sizeof(char *));
    argv[0] = (char *)"madrun"; /* prefix of getopt's messages */
    option_tables_fill(table, letters);
    while ((option = getopt_long(argc, argv, letters, table, NULL)) != -1) {
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
