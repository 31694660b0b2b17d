/* SPDX-License-Identifier: BSD-3-Clause */
/* Should madrun be killed, the kernel kills the ranks, but not what these have started (a script's programs, say).  A
 * small process beside madrun does: it learns the ranks' process groups through a pipe, and kills them when the pipe
 * ends before it was told that all is well. */
#ifndef MADI_MADRUN_GUARD_H
#define MADI_MADRUN_GUARD_H

#include <sys/types.h>

void madi_run_guard_start(void); /* without it, when it cannot be started */
void madi_run_guard_add(pid_t group);
void madi_run_guard_end(void); /* all is well; waits for its end */

#endif
