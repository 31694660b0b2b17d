/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of the topology parser: lists of hosts and of other names in settings. */
#ifndef MADI_TOPOLOGY_LISTS_H
#define MADI_TOPOLOGY_LISTS_H

#ifdef HAVE_LIBCONFIG
#include "topology/build.h"
#include "topology/tree.h"

/* A visit to a list of hosts. */
typedef struct madi_topo_list {
    madi_topo_build_t *build;
    /* Take one host of the list.  line is negative for a host that is named through its cluster; the file may also have
     * named it directly. */
    void (*take)(struct madi_topo_list *list, int host, int line);
    int line;  /* line of the text that is parsed */
    int index; /* index of the network, cluster or gateway */
    const char *interface;
    char **address;
    int addresses, taken;
} madi_topo_list_t;

/* Visit the hosts of a text or of a list of texts; if group is not NULL, the list may contain groups too. */
void madi_topo_each_host(madi_topo_list_t *list, const config_setting_t *hosts,
                         void (*group)(madi_topo_list_t *list, const config_setting_t *setting));
/* Visit the hosts of the named clusters. */
void madi_topo_each_cluster(madi_topo_list_t *list, const config_setting_t *clusters);

/* A visit to a list of other names. */
typedef struct madi_topo_names {
    madi_topo_build_t *build;
    void (*take)(struct madi_topo_names *names, const char *name);
    int line;
    int index;        /* index of the cluster that is read */
    int *list, count; /* list of indices, built by take */
    madi_topo_list_t *hosts;
} madi_topo_names_t;

/* Visit the names in a text, or in an array of texts. */
void madi_topo_each_name(madi_topo_names_t *names, const config_setting_t *setting);
/* Append an index to the list; a duplicate is an error. */
void madi_topo_name_add(madi_topo_names_t *names, int index, const char *name);
void madi_topo_take_network(madi_topo_names_t *names, const char *name);
/* Report an unknown name.  kind: the word for this kind of object. */
void madi_topo_name_wrong(madi_topo_names_t *names, madi_topo_what_t what, const char *kind, const char *name);

/* read_network.c: read one network. */
void madi_topo_network_read(madi_topo_build_t *build, const config_setting_t *setting);
#endif

#endif
