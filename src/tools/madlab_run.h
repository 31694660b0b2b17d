/* SPDX-License-Identifier: BSD-3-Clause */
/* A lab, from its creation to its end.
 *
 *   madlab run                        keeper: outside, waits for the end, forwards signals
 *   '- madlab-first                   first process of a PID namespace; the bridges are in its network namespace
 *      |- madlab-host (one of each)   first process of a host's PID namespace
 *      |  '- madlab-exec              supervises what was started there
 *      |     '- COMMAND
 *
 * If the keeper ends, even by kill -9, the kernel kills the lab's first process, and with it all processes of its PID
 * namespace and of the namespaces inside.  When the last of them has ended, the interfaces and mounts disappear.
 * Nothing of a lab has a name outside it. */
#ifndef MADI_MADLAB_RUN_H
#define MADI_MADLAB_RUN_H

#include "tools/madlab_mounts.h"
#include "tools/madlab_plan.h"
#include "tools/madlab_schedule.h"

#include <signal.h>

#define MADI_LAB_FAILED 125 /* exit code if the lab could not be made */

typedef struct madi_lab_run {
    madi_lab_plan_t plan;
    madi_lab_shares_t shares;
    madi_lab_event_t *event; /* sorted */
    int events;
    int on; /* host that runs the command */
    char *const *argv;
    double timeout; /* seconds; 0: none */
    bool quiet;
    const char *self; /* path of this program from the current root; the path cannot be found from inside the lab */
} madi_lab_run_t;

/* Make the lab, run the command in it, and end everything.  Return the exit code. */
int madi_lab_run(const madi_lab_run_t *run);

/* Run the lab's first process. keeper: a pipe that delivers "+" when the process may begin, then numbers of
 * signals.  MADI_LAB_TERMINAL is added to the number of a signal that the terminal has sent to all processes.  The
 * end of the pipe ends the lab. */
#define MADI_LAB_TERMINAL 0x80
_Noreturn void madi_lab_first(const madi_lab_run_t *run, int keeper, const sigset_t *mask);

#endif
