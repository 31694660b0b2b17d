/* SPDX-License-Identifier: BSD-3-Clause */
/* The job as a whole: all ranks on all hosts, and what happens when one of them fails. */
#ifndef MADI_MADRUN_JOB_H
#define MADI_MADRUN_JOB_H

#include "tools/madrun_hosts.h"
#include "tools/madrun_options.h"

/* Run it to its end; hosts are placed.  Returns madrun's exit code. */
int madi_run_job(const madi_run_options_t *options, const madi_run_hosts_t *hosts);
/* Is this host the one we are on? */
bool madi_run_job_here(const madi_run_options_t *options, const char *host);

#endif
