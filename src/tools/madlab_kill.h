/* SPDX-License-Identifier: BSD-3-Clause */
/* Killing processes of a host by name. */
#ifndef MADI_MADLAB_KILL_H
#define MADI_MADLAB_KILL_H

#include <sys/types.h>

/* SIGKILL to all processes of the host whose first process is `first` that are called name: their own name, their program's
 * file, or their first argument's last part is that.  Returns how many. */
int madi_lab_kill(pid_t first, const char *name);

#endif
