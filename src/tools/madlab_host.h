/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of a lab: host name, processes, IPC and mounts of its own, in a network namespace that is there already (and stays
 * when the host is killed).  Its first process mounts what it needs, starts what is asked for, and reaps. */
#ifndef MADI_MADLAB_HOST_H
#define MADI_MADLAB_HOST_H

#include "tools/madlab_mounts.h"

#include <signal.h>
#include <sys/types.h>

typedef struct madi_lab_host_setup {
    const char *name;
    int space; /* descriptor of its network namespace */
    const madi_lab_shares_t *shares;
    const sigset_t *mask; /* for what it starts */
} madi_lab_host_setup_t;

/* Returns the pid of its first process, and in *ready a descriptor for madi_lab_host_wait; -1 when it has said why not. */
pid_t madi_lab_host_start(const madi_lab_host_setup_t *setup, int *ready);
/* Until it can be asked to start something.  -1 when it has said why not.  Closes ready. */
int madi_lab_host_wait(const madi_lab_host_setup_t *setup, int ready);

#endif
