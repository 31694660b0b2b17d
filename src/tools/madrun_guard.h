/* SPDX-License-Identifier: BSD-3-Clause */
/* Should madrun be killed, the kernel kills the ranks, but not what these have started (a script's programs, say).  A
 * small process beside madrun does: it learns the ranks' process groups through a pipe, and kills them when the pipe
 * ends before madrun has said that all is well.  Processes that have left these groups it finds by a mark in the
 * environment that they were started with. */
#ifndef MADI_MADRUN_GUARD_H
#define MADI_MADRUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

void madi_run_guard_start(void); /* without it, when it cannot be started */
void madi_run_guard_add(pid_t group);
bool madi_run_guard_is(pid_t pid);        /* true if pid is the guard */
const char *madi_run_guard_mark(void);    /* "NAME=VALUE" for the ranks' environment, of this madrun or proxy alone */
void madi_run_guard_end(void); /* all is well; waits for its end */

#endif
