/* SPDX-License-Identifier: BSD-3-Clause */
/* Orphans: processes that ranks have left behind.  madrun, or the proxy, is their subreaper: the kernel makes it the parent
 * of every descendant whose own parent has ended, whatever session or process group that is in.  So is the first process
 * of a container.  Orphans are collected when they end, and killed when the last rank has ended.
 *
 * Not killed are children that were there before (a shell that executes madrun has them), and what a launch agent leaves
 * behind: ssh's shared connection serves others, too. */
#ifndef MADI_MADRUN_ORPHANS_H
#define MADI_MADRUN_ORPHANS_H

#include <sys/types.h>

#define MADI_RUN_OF_AGENT "MADRUN_AGENT=1" /* in the environment of launch agents and what they start */

/* Become the subreaper; before any child is started. */
void madi_run_orphans_init(void);
/* After SIGCHLD: collect those that have ended, soon. */
void madi_run_orphans_reap(void);
/* Kill all and collect those that have ended.  Returns how many have not ended yet. */
int madi_run_orphans_kill(void);
/* Kill every process whose environment holds `mark`, until there is none.  For the guard, which is nobody's parent. */
void madi_run_orphans_kill_marked(const char *mark);

#endif
