/* SPDX-License-Identifier: BSD-3-Clause */
/* mad_info: what its commands about topology files share. */
#ifndef MAD_INFO_TOPOLOGY_H
#define MAD_INFO_TOPOLOGY_H

#include "tools/mad_info.h"
#include "topology/draw.h"

/* The file at path, or (NULL) that of MAD_TOPOLOGY.  NULL: why not has been said. */
madi_topo_t *madi_info_topology_load(const madi_info_options_t *options, const char *path);
/* Names of hosts: folded into text, which is returned; as an array. */
char *madi_info_hosts(const madi_topo_t *topo, const int *host, int hosts, char *text, size_t len);
json_t *madi_info_hosts_json(const madi_topo_t *topo, const int *host, int hosts);

/* mad_info_live.c: look twice at the processes of this machine.  NULL: no memory.  Freed by madi_info_live_free. */
madi_live_t *madi_info_live(const madi_info_options_t *options, const madi_topo_t *topo);
void madi_info_live_free(madi_live_t *live, const madi_topo_t *topo);
void madi_info_live_print(const madi_live_t *live, const madi_topo_t *topo);
json_t *madi_info_live_json(const madi_live_t *live, const madi_topo_t *topo);

#endif
