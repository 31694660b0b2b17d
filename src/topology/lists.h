/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of the topology's parser: lists of hosts and of other names, as they stand in settings. */
#ifndef MADI_TOPOLOGY_LISTS_H
#define MADI_TOPOLOGY_LISTS_H

#ifdef HAVE_LIBCONFIG
#include "topology/build.h"
#include "topology/tree.h"

/* Hosts, and what is done with each. */
typedef struct madi_topo_list {
    madi_topo_build_t *build;
    /* line is negative for a host that is there by its cluster: it may have been named by itself before. */
    void (*take)(struct madi_topo_list *list, int host, int line);
    int line;  /* of the text that is being taken apart */
    int index; /* of the network, the cluster or the gateway */
    const char *interface;
    char **address;
    int addresses, taken;
} madi_topo_list_t;

/* A text, or texts and (if group is not NULL) groups in a list. */
void madi_topo_each_host(madi_topo_list_t *list, const config_setting_t *hosts,
                         void (*group)(madi_topo_list_t *list, const config_setting_t *setting));
/* The hosts of clusters that are named. */
void madi_topo_each_cluster(madi_topo_list_t *list, const config_setting_t *clusters);

/* Names of other things, and what is done with each. */
typedef struct madi_topo_names {
    madi_topo_build_t *build;
    void (*take)(struct madi_topo_names *names, const char *name);
    int line;
    int index;        /* of the cluster that is being read */
    int *list, count; /* what take makes of it */
    madi_topo_list_t *hosts;
} madi_topo_names_t;

/* A text of names, or an array of such texts. */
void madi_topo_each_name(madi_topo_names_t *names, const config_setting_t *setting);
/* Append to the list; what is there already is an error. */
void madi_topo_name_add(madi_topo_names_t *names, int index, const char *name);
void madi_topo_take_network(madi_topo_names_t *names, const char *name);
/* There is no such thing; kind is what it is called. */
void madi_topo_name_wrong(madi_topo_names_t *names, madi_topo_what_t what, const char *kind, const char *name);

/* read_network.c: one network. */
void madi_topo_network_read(madi_topo_build_t *build, const config_setting_t *setting);
#endif

#endif
