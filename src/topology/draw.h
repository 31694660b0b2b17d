/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawings of a topology: hosts that are alike in one cluster are one box. */
#ifndef MADI_TOPOLOGY_DRAW_H
#define MADI_TOPOLOGY_DRAW_H

#include "topology/topology.h"
#include <stdio.h>

/* Graphviz's language; and a picture laid out here: clusters side by side, networks as lines below.  MAD_ERR_NOMEM; what
 * the stream says about writing is the caller's to look at. */
mad_status_t madi_topo_dot(const madi_topo_t *topo, FILE *out);
mad_status_t madi_topo_svg(const madi_topo_t *topo, FILE *out);

/* Inside: the boxes, by clusters. */
#define MADI_CELL_LABEL 28

typedef struct madi_cell {
    int cluster, kind;
    int *host, hosts;
    char label[MADI_CELL_LABEL]; /* their names, folded */
    int x, width;                /* in the picture */
} madi_cell_t;

typedef struct madi_cells {
    madi_cell_t *cell;
    int cells;
    int *host;
} madi_cells_t;

mad_status_t madi_cells_make(const madi_topo_t *topo, madi_cells_t *cells);
void madi_cells_fini(madi_cells_t *cells);
/* The interface that all hosts of a cell have on a network; "" when they differ or none is said. */
const char *madi_cell_interface(const madi_topo_t *topo, const madi_cell_t *cell, int network);
/* "tcp, 1us, 10Gbit/s" */
void madi_network_text(const madi_topo_network_t *network, char *text, size_t len);

#endif
