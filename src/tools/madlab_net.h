/* SPDX-License-Identifier: BSD-3-Clause */
/* The networks of a lab: a bridge each, in the network namespace that this is called in, and a pair of veth interfaces for
 * each host on it.  ip and tc (iproute2) do the work.
 *
 *   host: eth0 --tbf-->  <--tbf or netem-- p0 :bridge
 *
 * Both directions of a pair are shaped, so that neither one host nor many to one exceed a network's rate. */
#ifndef MADI_MADLAB_NET_H
#define MADI_MADLAB_NET_H

#include "tools/madlab_plan.h"

typedef struct madi_lab_links {
    const madi_lab_plan_t *plan;
    int *space;        /* of each host: descriptor of its network namespace */
    bool *net_cut;     /* of each network */
    bool *port_cut;    /* of each port */
    int64_t *rate;     /* of each port, as it is now, bytes in a second; 0: none */
    bool tbf, netem;   /* what the kernel has */
} madi_lab_links_t;

/* The programs are there.  Else says what is missing. */
bool madi_lab_links_tools(void);
/* What the kernel has; needs a network namespace that is ours.  False when it has said what cannot be done without. */
bool madi_lab_links_probe(madi_lab_links_t *links);
/* Make everything.  Returns -1 when it has said why not. */
int madi_lab_links_make(madi_lab_links_t *links, const madi_lab_plan_t *plan);

/* What a schedule does: for port, or for all of the network when port is -1. */
int madi_lab_links_cut(madi_lab_links_t *links, int net, int port);
int madi_lab_links_restore(madi_lab_links_t *links, int net, int port); /* the declared rate, too */
int madi_lab_links_throttle(madi_lab_links_t *links, int net, int port, int64_t rate);

#endif
