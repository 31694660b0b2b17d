/* SPDX-License-Identifier: BSD-3-Clause */
/* Killing processes of a host by name. */
#ifndef MADI_MADLAB_KILL_H
#define MADI_MADLAB_KILL_H

#include <sys/types.h>

/* Send SIGKILL to all processes named `name` of the host whose first process is `first`.  A process matches by its own
 * name, its program file, or the last part of its first argument.  Return the number of processes. */
int madi_lab_kill(pid_t first, const char *name);

#endif
