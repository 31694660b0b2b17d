/* SPDX-License-Identifier: BSD-3-Clause */
/* A lab, from its making to its end.
 *
 *   madlab run                        keeper: outside, waits for the end, passes signals on
 *   '- madlab-first                   first process of a PID namespace; bridges are in its network namespace
 *      |- madlab-host (one of each)   first process of a host's PID namespace
 *      |  '- madlab-exec              looks after what was started there
 *      |     '- COMMAND
 *
 * When the keeper ends, by kill -9 too, the kernel kills the lab's first process, with it all processes of its PID namespace
 * and those inside, and with the last of them go interfaces and mounts.  Nothing has a name outside. */
#ifndef MADI_MADLAB_RUN_H
#define MADI_MADLAB_RUN_H

#include "tools/madlab_mounts.h"
#include "tools/madlab_plan.h"
#include "tools/madlab_schedule.h"

#include <signal.h>

#define MADI_LAB_FAILED 125 /* exit code: the lab could not be made */

typedef struct madi_lab_run {
    madi_lab_plan_t plan;
    madi_lab_shares_t shares;
    madi_lab_event_t *event; /* sorted */
    int events;
    int on; /* the host that runs the command */
    char *const *argv;
    double timeout; /* 0: none */
    bool quiet;
    const char *self; /* path of this program, from our root; in the namespaces of the lab it could not be found */
} madi_lab_run_t;

/* Make the lab, run the command in it, and end everything.  Returns the exit code. */
int madi_lab_run(const madi_lab_run_t *run);

/* The lab's first process.  keeper: a pipe; first "+" when it may begin, then numbers of signals, with MADI_LAB_TERMINAL
 * added when the terminal sent them to all; its end is ours. */
#define MADI_LAB_TERMINAL 0x80
_Noreturn void madi_lab_first(const madi_lab_run_t *run, int keeper, const sigset_t *mask);

#endif
