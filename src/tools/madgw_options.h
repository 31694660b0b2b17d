/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of madgw. */
#ifndef MADI_MADGW_OPTIONS_H
#define MADI_MADGW_OPTIONS_H

#include "tools/madgw_serve.h"

#include <stdbool.h>

typedef struct madi_gw_options {
    const char *join; /* NULL: the launcher's job */
    const char *user; /* user that root changes to; NULL for the job's owner */
    bool announce, tell, verbose, no_filter, show;
    int rate_page;              /* descriptor of a madi_gateway_rate_t; -1: none */
    madi_serve_options_t serve; /* dir is NULL for a single job */
} madi_gw_options_t;

/* Parse the command line into *options.  Return -1 to continue, otherwise the exit code; everything was then reported. */
int madi_gw_options(madi_gw_options_t *options, int argc, char **argv);

#endif
