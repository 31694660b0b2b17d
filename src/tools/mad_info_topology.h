/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared declarations of mad_info's commands about topology files. */
#ifndef MAD_INFO_TOPOLOGY_H
#define MAD_INFO_TOPOLOGY_H

#include "tools/mad_info.h"
#include "topology/draw.h"

/* Load the file at path or, if that is NULL, the file that MAD_TOPOLOGY names.  On failure report the reason and return
 * NULL. */
madi_topo_t *madi_info_topology_load(const madi_info_options_t *options, const char *path);
/* Return the names of hosts, folded into text, or as an array. */
char *madi_info_hosts(const madi_topo_t *topo, const int *host, int hosts, char *text, size_t len);
json_t *madi_info_hosts_json(const madi_topo_t *topo, const int *host, int hosts);

/* mad_info_live.c: measure the traffic of this machine's processes by two queries.  Return NULL if out of memory.  Free
 * with madi_info_live_free. */
madi_live_t *madi_info_live(const madi_info_options_t *options, const madi_topo_t *topo);
void madi_info_live_free(madi_live_t *live, const madi_topo_t *topo);
void madi_info_live_print(const madi_live_t *live, const madi_topo_t *topo);
json_t *madi_info_live_json(const madi_live_t *live, const madi_topo_t *topo);

#endif
