/* SPDX-License-Identifier: BSD-3-Clause */
/* The networks of a lab: one bridge for each, in the network namespace of the caller, and a pair of veth interfaces for
 * each host on it.  The programs ip and tc (iproute2) do the work.
 *
 *   host: eth0 --tbf-->  <--tbf or netem-- p0 :bridge
 *
 * Both directions of a pair are shaped, so that neither a single sending host, nor many hosts that send to one,
 * exceed the network's rate. */
#ifndef MADI_MADLAB_NET_H
#define MADI_MADLAB_NET_H

#include "tools/madlab_plan.h"

typedef struct madi_lab_links {
    const madi_lab_plan_t *plan;
    int *space;      /* descriptor of each host's network namespace */
    bool *net_cut;   /* true for each network that is cut */
    bool *port_cut;  /* true for each port that is cut */
    int64_t *rate;   /* present rate of each port, bytes per second; 0: unlimited */
    bool tbf, netem; /* qdiscs that the kernel has */
} madi_lab_links_t;

/* True if ip and tc exist; otherwise report which one is missing. */
bool madi_lab_links_tools(void);
/* Determine in a temporary network namespace what the kernel supports.  If something essential is missing, report it
 * and return false. */
bool madi_lab_links_probe(madi_lab_links_t *links);
/* Create all namespaces, bridges and interfaces.  Return -1 on failure, which was reported. */
int madi_lab_links_make(madi_lab_links_t *links, const madi_lab_plan_t *plan);

/* Perform a scheduled action on one port, or on the whole network if port is -1. */
int madi_lab_links_cut(madi_lab_links_t *links, int net, int port);
int madi_lab_links_restore(madi_lab_links_t *links, int net, int port); /* also restores the declared rate */
int madi_lab_links_throttle(madi_lab_links_t *links, int net, int port, int64_t rate);

#endif
