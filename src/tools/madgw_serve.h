/* SPDX-License-Identifier: BSD-3-Clause */
/* madgw --serve: one gateway process for each job of a directory.  The process that serves handles names of files, processes
 * and lines of text, and no byte of a network or of a job's file. */
#ifndef MADI_MADGW_SERVE_H
#define MADI_MADGW_SERVE_H

#include "tools/madgw_jobs.h"

#define MADI_SERVE_JOBS_MAX 256

/* Serve until a signal comes at that signalfd: then the gateways drain, and with a second signal they end at once.  Returns
 * the exit code. */
int madi_serve(const madi_serve_options_t *options, int signals);
/* Write to standard output what holds for each job. */
void madi_serve_show(const madi_serve_options_t *options);

#endif
