/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of madrun. */
#ifndef MADI_MADRUN_OPTIONS_H
#define MADI_MADRUN_OPTIONS_H

#include "tools/madrun_bind.h"

#include <stdbool.h>

typedef struct madi_run_options {
    int count;              /* -n */
    char *hosts, *hostfile; /* at most one of them is set */
    char *agent;            /* NULL: ssh */
    char *topology;         /* NULL: none */
    bool around;            /* the program is another launcher, which runs on this host and uses the gateways */
    const char *gateways;   /* "restart", "once" or "none" */
    char *job_file;         /* NULL: none */
    madi_run_bind_t bind;
    int reserve; /* NUMA node reserved for the system; -1: none */
    char **env;  /* "K=V" ... NULL */
    int env_count;
    char *wdir; /* NULL: where madrun was started */
    bool keep_going, label, verbose;
    double timeout; /* seconds; 0: none */
    int stdin_rank; /* -1: none */
    char **argv;    /* the program and its arguments, then NULL */
    int argc;
} madi_run_options_t;

/* Parse the command line.  Return -1 to continue, otherwise the exit code: 0 after --help or --version, 2 for an invalid
 * option, which was reported.  Strings point into argv. */
int madi_run_options_parse(madi_run_options_t *options, int argc, char **argv);

#endif
