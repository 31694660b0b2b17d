/* SPDX-License-Identifier: BSD-3-Clause */
/* Orphans: processes that ranks have left behind. madrun, or the proxy, is their subreaper: the kernel makes it the
 * parent of every descendant whose own parent has ended, whatever its session or process group.  The first process
 * of a container has the same role.  Orphans are reaped when they end, and killed when the last rank has ended.
 *
 * Two kinds of children are not killed: those that existed before madrun (a shell that executes madrun may have
 * some), and those left by a launch agent, because a shared connection of ssh serves other programs too. */
#ifndef MADI_MADRUN_ORPHANS_H
#define MADI_MADRUN_ORPHANS_H

#include <sys/types.h>

#define MADI_RUN_OF_AGENT "MADRUN_AGENT=1" /* in the environment of launch agents and their descendants */

/* Become the subreaper; before any child is started. */
void madi_run_orphans_init(void);
/* Reap orphans that have ended, soon after SIGCHLD. */
void madi_run_orphans_reap(void);
/* Kill all orphans, and reap those that have ended.  Return the number that have not ended yet. */
int madi_run_orphans_kill(void);
/* Kill every process whose environment contains `mark`, until none is left.  For the guard, which is not their parent. */
void madi_run_orphans_kill_marked(const char *mark);

#endif
