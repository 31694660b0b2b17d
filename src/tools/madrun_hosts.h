/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of hosts, and which ranks run where. */
#ifndef MADI_MADRUN_HOSTS_H
#define MADI_MADRUN_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct madi_run_host {
    char *name;
    int slots;        /* room; each time that it is named without a number counts as one */
    bool numbered;    /* it was named with a number */
    int first, count; /* the ranks here */
} madi_run_host_t;

typedef struct madi_run_hosts {
    madi_run_host_t *host;
    int count;
} madi_run_hosts_t;

/* Add the hosts of "a,b:4,node[1-3,07-09]:2".  Returns 0, or -1 with the reason in why. */
int madi_run_hosts_add(madi_run_hosts_t *hosts, const char *list, char *why, size_t len);
/* Add one; slots 0: named without a number. */
int madi_run_hosts_put(madi_run_hosts_t *hosts, const char *name, int slots, char *why, size_t len);
/* Add those of a file: one entry a line, "slots=N" may follow, '#' begins a comment. */
int madi_run_hosts_read(madi_run_hosts_t *hosts, const char *path, char *why, size_t len);
/* Add the room of `more`, which is the same host. */
void madi_run_hosts_join(madi_run_host_t *host, const madi_run_host_t *more);
/* Give each host its block of ranks: as many as it has slots, or shares in proportion to them where no host was named with
 * a number.  Hosts that get none are dropped. */
int madi_run_hosts_place(madi_run_hosts_t *hosts, int ranks, char *why, size_t len);

void madi_run_hosts_fini(madi_run_hosts_t *hosts);

#endif
