/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts, and the placement of ranks on them. */
#ifndef MADI_MADRUN_HOSTS_H
#define MADI_MADRUN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct madi_run_host {
    char *name;
    int slots;        /* number of processes that fit; each mention of the host without a number counts as one */
    bool numbered;    /* true if the host was mentioned with a number */
    int first, count; /* the ranks here */
} madi_run_host_t;

typedef struct madi_run_hosts {
    madi_run_host_t *host;
    int count;
} madi_run_hosts_t;

/* Add the hosts of "a,b:4,node[1-3,07-09]:2".  Return 0, or -1 with the reason in why. */
int madi_run_hosts_add(madi_run_hosts_t *hosts, const char *list, char *why, size_t len);
/* Add one host.  slots: 0 if it was named without a number. */
int madi_run_hosts_put(madi_run_hosts_t *hosts, const char *name, int slots, char *why, size_t len);
/* Add the hosts of a file: one entry per line, optionally followed by "slots=N"; '#' begins a comment. */
int madi_run_hosts_read(madi_run_hosts_t *hosts, const char *path, char *why, size_t len);
/* Add the slots of `more`, which is the same host under another name. */
void madi_run_hosts_join(madi_run_host_t *host, const madi_run_host_t *more);
/* Give each host its block of ranks: as many as it has slots or, if no host has a number, a share in proportion to its
 * slots.  Hosts without ranks are removed. */
int madi_run_hosts_place(madi_run_hosts_t *hosts, int ranks, char *why, size_t len);

void madi_run_hosts_fini(madi_run_hosts_t *hosts);

#endif
