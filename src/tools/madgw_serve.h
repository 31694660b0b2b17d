/* SPDX-License-Identifier: BSD-3-Clause */
/* madgw --serve: one gateway process for each job of a directory.  The serving process handles file names, processes
 * and lines of text, and never reads a byte from a network or a job file. */
#ifndef MADI_MADGW_SERVE_H
#define MADI_MADGW_SERVE_H

#include "tools/madgw_jobs.h"

#define MADI_SERVE_JOBS_MAX 256

/* Serve until a signal arrives on the signalfd: then the gateways drain, and a second signal ends them immediately.
 * Return the exit code. */
int madi_serve(const madi_serve_options_t *options, int signals);
/* Print the limits that apply to each job. */
void madi_serve_show(const madi_serve_options_t *options);

#endif
