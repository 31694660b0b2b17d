/* SPDX-License-Identifier: BSD-3-Clause */
/* A job over the clusters of a topology file: the hosts that run ranks, and the gateways started for them. */
#ifndef MADI_MADRUN_TOPOLOGY_H
#define MADI_MADRUN_TOPOLOGY_H

#include "tools/madrun_hosts.h"

#include <stdbool.h>

/* One gateway process. */
typedef struct madi_run_gateway {
    const char *host;  /* name by which the host is reached */
    const char *cores; /* "0,2,3"; "": anywhere */
} madi_run_gateway_t;

/* Read and check the file, which all other functions use.  On failure report the reason and return -1. */
int madi_run_topology_open(const char *path);
void madi_run_topology_close(void);       /* legal without a file */
const char *madi_run_topology_text(void); /* text of the file; NULL if there is no file */

/* Determine the hosts from those that the user named.  If the user named none: all hosts of the file that do not forward,
 * or all hosts if all forward.  Names of clusters are replaced by their hosts; a name that is not in the file is an
 * error.  If there are fewer ranks than hosts without numbers, ranks are spread evenly, and the other hosts are left out.
 * resolve: see madrun_same.h.  -1: `why` gives the reason. */
int madi_run_topology_hosts(madi_run_hosts_t *hosts, int ranks, bool resolve, char *why, size_t len);
/* Return the name in the file of the host that is reached by this name. */
const char *madi_run_topology_name(const char *host);

/* Determine the gateways for these hosts.  The file gives their number on each host; if the file names none, there is one
 * on each host that forwards and has no rank.  There are none if all hosts share networks.  Without hosts (they are
 * unknown) all gateways are needed.  Return their number. */
int madi_run_topology_gateways(const madi_run_hosts_t *hosts, const madi_run_gateway_t **gateways);

#endif
