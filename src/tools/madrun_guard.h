/* SPDX-License-Identifier: BSD-3-Clause */
/* The guard.  If madrun is killed, the kernel kills the ranks, but not the processes that the ranks have started (a
 * script's programs, for instance).  The guard, a small process started by madrun, kills those: it receives the ranks'
 * process groups through a pipe, and kills them if the pipe ends without a final message from madrun.  Processes that
 * have left these groups are found by a mark in their initial environment. */
#ifndef MADI_MADRUN_GUARD_H
#define MADI_MADRUN_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

void madi_run_guard_start(void); /* start the guard; if that fails, madrun continues without one */
void madi_run_guard_add(pid_t group);
bool madi_run_guard_is(pid_t pid);     /* true if pid is the guard */
const char *madi_run_guard_mark(void); /* "NAME=VALUE" for the ranks' environment, unique for this madrun or proxy */
void madi_run_guard_end(void);         /* end the guard, and wait for its end */

#endif
