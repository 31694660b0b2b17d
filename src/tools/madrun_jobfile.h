/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's file (tools/madgw_join.h says what is in it), for processes that join from outside. */
#ifndef MADI_MADRUN_JOBFILE_H
#define MADI_MADRUN_JOBFILE_H

#include <stddef.h>

/* Can it be written, as things are?  0, or -1: why not. */
int madi_run_job_file_check(const char *path, char *why, size_t len);
/* Make it, or make it anew, so that whoever opens it finds it whole; only its owner can read it.  0, or -1: why. */
int madi_run_job_file_write(const char *path, char *why, size_t len);
/* The job is over. */
void madi_run_job_file_remove(void);

#endif
