/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter of system calls: what a gateway whose session is open still calls is let through, nothing else. */
#ifndef MADI_MADGW_FILTER_H
#define MADI_MADGW_FILTER_H

#include <stdbool.h>

/* Install the filter for all threads of this process, for ever.  Where there can be none, that is said in one line.
 *
 * A call that is not let through is reported in one line on standard error, each kind once.  One that only somebody makes
 * who has taken the process over (another program, another user, another process's memory) ends the process with code 128 +
 * SIGSYS; any other one fails with ENOSYS.
 *
 * traces: files may be opened for writing. */
void madi_filter_install(bool traces);

/* Write the names of the calls that are let through to standard output, after that text. */
void madi_filter_show(const char *head);

#endif
