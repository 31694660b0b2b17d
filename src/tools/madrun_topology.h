/* SPDX-License-Identifier: BSD-3-Clause */
/* A job over the clusters of a topology file: on which hosts ranks run, and where gateways are started beside them. */
#ifndef MADI_MADRUN_TOPOLOGY_H
#define MADI_MADRUN_TOPOLOGY_H

#include "tools/madrun_hosts.h"

#include <stdbool.h>

/* One gateway process. */
typedef struct madi_run_gateway {
    const char *host;  /* how it is reached */
    const char *cores; /* "0,2,3"; "": anywhere */
} madi_run_gateway_t;

/* Read and check the file; all that follows is about this one.  -1: what is wrong has been said. */
int madi_run_topology_open(const char *path);
void madi_run_topology_close(void); /* fine without one */
const char *madi_run_topology_text(void); /* what the file says; NULL: there is none */

/* Hosts as the user named them (none: those of the file that do not forward, or all if all do): names of clusters become
 * their hosts; who is not in the file is an error.  Fewer ranks than hosts without numbers are dealt out evenly, the other
 * hosts are left out.  resolve: see madrun_same.h.  -1: why says what is wrong. */
int madi_run_topology_hosts(madi_run_hosts_t *hosts, int ranks, bool resolve, char *why, size_t len);
/* The name in the file of a host that is reached by this one. */
const char *madi_run_topology_name(const char *host);

/* The gateways for these hosts, placed: on each host for which the file has them, as many as it says; where the file has
 * none, one on each host that forwards and has no rank.  None at all where all hosts share networks.  No hosts: they are not
 * known, and all gateways are wanted. */
int madi_run_topology_gateways(const madi_run_hosts_t *hosts, const madi_run_gateway_t **gateways);

#endif
