/* SPDX-License-Identifier: BSD-3-Clause */
/* The job file (format: tools/madgw_join.h), for processes that join from outside. */
#ifndef MADI_MADRUN_JOBFILE_H
#define MADI_MADRUN_JOBFILE_H

#include <stddef.h>

/* Check that the file can be written.  Return 0, or -1 with the reason in why. */
int madi_run_job_file_check(const char *path, char *why, size_t len);
/* Write or rewrite the file atomically, readable by its owner only.  Return 0, or -1 with the reason in why. */
int madi_run_job_file_write(const char *path, char *why, size_t len);
/* Remove the file at the end of the job. */
void madi_run_job_file_remove(void);

#endif
