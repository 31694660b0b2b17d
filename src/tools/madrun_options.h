/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of madrun.  The members of madi_run_options_t, the parser, --help, and the section OPTIONS of madrun(1)
 * are made from the rows of the options.  To add an option: add a row, and use its member where it takes effect.
 *
 *   O(type, member, initial, name, letter, how, argument, help, manual)
 *   P(name, letter, how, argument, help, manual)   option without a member of its own
 *     type      of the member; initial: its value without the option
 *     name      of the long option; NULL: it has a letter only
 *     letter    0: none
 *     how       FLAG(value), FLAG_OF(member, value), TEXT, NUMBER(least, most, what a valid argument is), PARSED(function of
 *               madrun_options.c), or DONE_BY(such a function) for an option without an argument
 *     argument  as --help and the page show it; NULL: none
 *     help      in one line; NULL: the option is in the entry of the row before, in --help and in the page
 *     manual    text of the page: <b>bold</b>, <i>italic</i>, ``quoted''; two blanks behind a sentence; \n: a new paragraph
 *
 * man/options.awk reads this file: a row begins on a line of its own, and so do its help and each piece of its manual. */
#ifndef MADI_MADRUN_OPTIONS_H
#define MADI_MADRUN_OPTIONS_H

#include "tools/madrun_bind.h"

#include <limits.h>
#include <stdbool.h>

/* clang-format off */
#define MADI_RUN_OPTIONS(O, P) \
    O(int, count, 0, NULL, 'n', NUMBER(1, 1000000, "a number from 1 to 1000000"), "N", \
      "how many processes", \
      "The number of processes.") \
    O(char *, hosts, NULL, "hosts", 0, TEXT, "LIST", \
      "where: a,b:4,node[1-8] (':4': at most four there); default: here", \
      "The hosts, separated by commas.  ``<b>node[1-4,7]</b>'' stands for five of them, ``<b>a:4</b>'' has room for four " \
      "processes.  Each host gets a block of consecutive ranks: the first host as many as it has room for, and so on (a " \
      "host without a number then has room for one); where no host has a number, all get the same share.\n" \
      "A host that is named several times, anywhere in the list, is one host, which has the room of all, or that many " \
      "shares; it is reached by the name that comes first.  Upper and lower case and a dot at the end make no " \
      "difference.  <b>localhost</b>, this host's own name, and each of its addresses mean this host, without a launch " \
      "agent, unless <b>--launch-agent</b> is given.  Two names that resolve to the same addresses are one host, and so " \
      "are a name and an address that it resolves to; but with <b>--launch-agent</b> no names are resolved, for they may " \
      "be the agent's own.  Names with different users (<b>user@</b><i>name</i>) stay apart.") \
    O(char *, hostfile, NULL, "hostfile", 0, TEXT, "FILE", \
      "where: one host a line, 'name', 'name:4' or 'name slots=4'", \
      "The hosts from a file, one on each line: <i>name</i>, <i>name</i>:4 or <i>name</i> <b>slots=</b>4.  A # begins a " \
      "comment.") \
    O(char *, agent, NULL, "launch-agent", 0, PARSED(parse_agent), "COMMAND", \
      "reaches other hosts as 'COMMAND HOST madrun --proxy'; default: ssh", \
      "The command that reaches other hosts (default: <b>ssh</b>, which must not ask for a password).  <b>madrun</b> runs " \
      "<i>COMMAND HOST MADRUN</i> <b>--proxy</b>, where <i>MADRUN</i> is its own path, which must be the same there.  Any " \
      "command that starts its arguments in another place can be used, for instance in a container.  <i>COMMAND</i> is " \
      "split at blanks, and may not be empty.") \
    O(char *, topology, NULL, "topology", 0, TEXT, "FILE", \
      "start them in the clusters of this file, and gateways between these", \
      "Start the processes in the clusters of a topology file, <b>mad_topology</b>(5), and gateways between them.  See " \
      "<b>CLUSTERS</b> below.") \
    /* the program is another launcher, which runs on this host and uses the gateways */ \
    O(bool, around, false, "around", 0, FLAG(true), NULL, \
      "start the gateways, and here another launcher, as mpirun, that starts the processes", \
      "Start the gateways of the topology file, and on this host another launcher, such as <b>mpirun</b>, that starts the " \
      "processes.  See <b>ANOTHER LAUNCHER</b> below.") \
    /* after the parse never NULL */ \
    O(const char *, gateways, NULL, "gateways", 0, PARSED(parse_gateways), "restart|once|none", \
      "start gateways, and again when they fail; default: restart", \
      "Start the gateways of the topology file, and each again when it fails; or start them only once; or start none.  " \
      "Default: <b>restart</b>.") \
    O(char *, job_file, NULL, "job-file", 0, TEXT, "FILE", \
      "write what madgw --join needs to know", \
      "When all ranks have opened their sessions, write what <b>madgw --join</b> needs: the key of the job's gateways, " \
      "the addresses of its processes, and the topology file.  With that key a process can be a gateway of the job, but " \
      "cannot pass for a rank.  Only the owner can read the file (mode 600), whatever the umask; it is removed when the " \
      "job ends.  The file is not written over a link, another user's file, or a file that others may read.") \
    O(madi_run_bind_t, bind, MADI_RUN_BIND_AUTO, "bind", 0, PARSED(parse_bind), "core|socket|numa|none", \
      "bind each process; default: core when there are enough, else none", \
      "Bind each process to a core, a processor package or a NUMA node of those that <b>madrun</b> itself may use, in " \
      "turn.  Default: to a core when there are enough of them on the host, else none.  Processes are not bound in a lab " \
      "of <b>madlab</b>(1), whose hosts share the machine's cores.") \
    O(int, reserve, -1, "reserve-numa", 0, NUMBER(0, INT_MAX, "the number of a NUMA node"), "NODE", \
      "bind nothing to this NUMA node, it is kept for the system", \
      "Keep this NUMA node of each host for the system: no process is bound to it.") \
    /* "NAME=VALUE" ... NULL */ \
    O(char **, env, NULL, "env", 0, PARSED(parse_env), "NAME=VALUE", \
      "set a variable in all processes; may be repeated", \
      "Set a variable in all processes.  May be repeated.  Processes on other hosts have the environment that the launch " \
      "agent gives them, the variables MAD_* of <b>madrun</b>, and these.") \
    /* NULL: where madrun was started */ \
    O(char *, wdir, NULL, "wdir", 0, PARSED(parse_wdir), "DIRECTORY", \
      "start the processes there", \
      "Start the processes there (default: where <b>madrun</b> was started).  A relative path of <i>PROGRAM</i> is " \
      "relative to it.") \
    O(bool, keep_going, false, "keep-going", 0, FLAG(true), NULL, \
      "let the others go on when a process fails", \
      "When a process fails, let the others go on; they do not wait for it in fences.") \
    /* seconds; 0: none */ \
    O(double, timeout, 0, "timeout", 0, PARSED(parse_timeout), "SECONDS", \
      "end everything, with exit code 124, after this time", \
      "End everything after this time.") \
    O(bool, label, true, "label", 0, FLAG(true), NULL, \
      "write '[rank] ' before each line of output; default: when N > 1", \
      "Write ``<b>[</b><i>rank</i><b>] </b>'' before each line of output and of errors, or do not.  Default: labels when " \
      "<i>N</i> is more than 1.  A line of output that is a JSON object, from <b>{\"</b> to <b>}</b>, " \
      "gets no label, so that programs can read it.  With and without labels lines of any length are passed on whole.  The output of a " \
      "single process is passed on unchanged and at once.\n" \
      "A line without its newline yet (a prompt, a progress bar) is shown when no more of it has come for 0.1 seconds, or " \
      "a second after it began.  The line continues as the process writes more.  Meanwhile the lines of other processes " \
      "wait, for a second at most; they wait longer if the line grows by 64 KiB in that second, or if the output is not " \
      "read.  Then the begun line is ended by a newline, and the process's further output begins a new line.  A line that " \
      "begins as a JSON object is shown only when it has ended.  At most 64 MiB wait in <b>madrun</b>; beyond that, " \
      "processes that write wait for the end of another's line.") \
    P("no-label", 0, FLAG_OF(label, false), NULL, NULL, NULL) \
    /* -1: none */ \
    O(int, stdin_rank, 0, "stdin", 0, PARSED(parse_stdin), "RANK|none", \
      "rank that gets standard input; default: 0", \
      "The ranks that read <b>madrun</b>'s standard input (default: 0).  The others read <i>/dev/null</i>.") \
    O(bool, verbose, false, NULL, 'v', FLAG(true), NULL, \
      "say what is started where", \
      "Report which process is started on which host.") \
    P("help", 0, DONE_BY(print_help), NULL, \
      "", \
      "Print the list of options, or the version.") \
    P("version", 0, DONE_BY(print_version), NULL, NULL, NULL)
/* clang-format on */

#define MADI_RUN_MEMBER(type, member, initial, name, letter, how, argument, help, manual) type member;
#define MADI_RUN_NO_MEMBER(name, letter, how, argument, help, manual)
typedef struct madi_run_options {
    MADI_RUN_OPTIONS(MADI_RUN_MEMBER, MADI_RUN_NO_MEMBER)
    int env_count; /* number of entries of `env` */
    char **argv;   /* the program and its arguments, then NULL */
    int argc;
} madi_run_options_t;

/* Parse the command line.  Return -1 to continue, otherwise the exit code: 0 after --help or --version, 2 for an invalid
 * option, which was reported.  At most one of hosts and hostfile is set.  Strings point into argv. */
int madi_run_options_parse(madi_run_options_t *options, int argc, char **argv);

#endif
