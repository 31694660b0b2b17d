/* SPDX-License-Identifier: BSD-3-Clause */
/* The gateway process of a job of madgw --serve: the same program with --join, and with the rights of the job's user. */
#ifndef MADI_MADGW_PROCESS_H
#define MADI_MADGW_PROCESS_H

#include "tools/madgw_jobs.h"

/* Start the process, and set job->pid and job->log.  Return false on failure; see errno. */
bool madi_process_start(madi_job_t *job, const madi_serve_options_t *options, int dir_fd);

#endif
