/* SPDX-License-Identifier: BSD-3-Clause */
/* The process of a job that madgw --serve starts: this program again, with --join and the rights of the job's user. */
#ifndef MADI_MADGW_PROCESS_H
#define MADI_MADGW_PROCESS_H

#include "tools/madgw_jobs.h"

/* Sets job->pid and job->log.  False: errno says why not. */
bool madi_process_start(madi_job_t *job, const madi_serve_options_t *options, int dir_fd);

#endif
