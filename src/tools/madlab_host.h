/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of a lab: its own host name, processes, IPC and mounts, in an existing network namespace, which remains when
 * the host is killed.  The host's first process makes its mounts, starts processes on request, and reaps them. */
#ifndef MADI_MADLAB_HOST_H
#define MADI_MADLAB_HOST_H

#include "tools/madlab_mounts.h"

#include <signal.h>
#include <sys/types.h>

typedef struct madi_lab_host_setup {
    const char *name;
    int space; /* descriptor of its network namespace */
    const madi_lab_shares_t *shares;
    const sigset_t *mask; /* signal mask of the processes that it starts */
} madi_lab_host_setup_t;

/* Start a host.  Return the process number of its first process, and in *ready a descriptor for madi_lab_host_wait; -1 on
 * failure, which was reported. */
pid_t madi_lab_host_start(const madi_lab_host_setup_t *setup, int *ready);
/* Wait until the host accepts requests, and close ready.  Return -1 on failure, which was reported. */
int madi_lab_host_wait(const madi_lab_host_setup_t *setup, int ready);

#endif
