/* SPDX-License-Identifier: BSD-3-Clause */
/* Plan of a lab: the part of a topology that can be built from namespaces on one machine. */
#ifndef MADI_MADLAB_PLAN_H
#define MADI_MADLAB_PLAN_H

#include "tools/madlab_base.h"
#include "topology/topology.h"

#include <stdio.h>

#define MADI_LAB_LAUNCH "launch" /* host that runs the command by default */

typedef struct madi_lab_net {
    char *name, *driver;
    int64_t rate;     /* bytes per second; 0: not declared */
    int64_t delay_ps; /* delay in one direction, in picoseconds; 0 if not declared */
} madi_lab_net_t;

typedef struct madi_lab_host {
    char *name;
    char *cluster; /* "" if none */
} madi_lab_host_t;

/* A host's interface on a network. */
typedef struct madi_lab_port {
    int net, host;
    char *interface;
    char address[64]; /* ADDRESS/PREFIX */
    char peer[16];    /* name of the other end of its veth pair, on the bridge */
} madi_lab_port_t;

typedef struct madi_lab_plan {
    char *path; /* absolute path of the topology file */
    madi_topo_t *topology;
    madi_lab_net_t *net;
    madi_lab_host_t *host; /* the launch host comes last, if the file does not name it */
    madi_lab_port_t *port;
    int nets, hosts, ports, clusters;
} madi_lab_plan_t;

/* Read a topology file.  Return 0, or -1 if the file is invalid, which was reported. */
int madi_lab_plan_read(madi_lab_plan_t *plan, const char *path);
void madi_lab_plan_print(const madi_lab_plan_t *plan, FILE *out);

/* Return an index by name; -1 if there is none. */
int madi_lab_plan_net(const madi_lab_plan_t *plan, const char *name);
int madi_lab_plan_host(const madi_lab_plan_t *plan, const char *name);

#endif
