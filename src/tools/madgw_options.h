/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of madgw. */
#ifndef MADI_MADGW_OPTIONS_H
#define MADI_MADGW_OPTIONS_H

#include "tools/madgw_serve.h"

#include <stdbool.h>

typedef struct madi_gw_options {
    const char *join; /* NULL: the launcher's job */
    const char *user; /* whom root becomes; NULL: the job's owner */
    bool announce, tell, verbose, no_filter, show;
    int rate_page; /* descriptor of a madi_gateway_rate_t; -1: none */
    madi_serve_options_t serve; /* dir is NULL: one job */
} madi_gw_options_t;

/* -1: they are in *options.  Else the exit code; what is to be said has been said. */
int madi_gw_options(madi_gw_options_t *options, int argc, char **argv);

#endif
