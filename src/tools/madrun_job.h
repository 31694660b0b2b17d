/* SPDX-License-Identifier: BSD-3-Clause */
/* The job as a whole: all ranks on all hosts, and the handling of failures. */
#ifndef MADI_MADRUN_JOB_H
#define MADI_MADRUN_JOB_H

#include "tools/madrun_hosts.h"
#include "tools/madrun_options.h"

/* Run the job to its end; ranks are already placed on hosts.  Return madrun's exit code. */
int madi_run_job(const madi_run_options_t *options, const madi_run_hosts_t *hosts);
/* True if this host is the one on which madrun runs. */
bool madi_run_job_here(const madi_run_options_t *options, const char *host);

#endif
