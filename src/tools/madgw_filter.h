/* SPDX-License-Identifier: BSD-3-Clause */
/* The filter of system calls: it allows only calls that a gateway with an open session still makes. */
#ifndef MADI_MADGW_FILTER_H
#define MADI_MADGW_FILTER_H

#include <stdbool.h>

/* Install the filter for all threads of this process, permanently.  If that is impossible, one line reports it.
 *
 * The first refused call of each kind is reported in one line on standard error.  Some calls end the process with code
 * 128 + SIGSYS, because only injected code makes them: execution of a program, change of the user, writing another
 * process's memory.  A fork of glibc 2.41 ends the process without the line, because it blocks signals meanwhile.  All
 * other refused calls fail with ENOSYS, openat with EPERM.
 *
 * traces: allow opening files for writing. */
void madi_filter_install(bool traces);

/* Print head, and then the names of the allowed calls. */
void madi_filter_show(const char *head);

#endif
