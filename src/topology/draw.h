/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawings of a topology.  Equivalent hosts of one cluster share a box. */
#ifndef MADI_TOPOLOGY_DRAW_H
#define MADI_TOPOLOGY_DRAW_H

#include "topology/topology.h"
#include <stdio.h>

/* Traffic per second of a host's processes over one of its networks, whose index is that in madi_topo_host_t's on[].
 * Fragments count as messages. */
typedef struct madi_live_on {
    double messages_out, bytes_out, messages_in, bytes_in;
} madi_live_on_t;

typedef struct madi_live_host {
    madi_live_on_t *on;
    double other; /* bytes per second in both directions that no network of the file has carried */
    double passed, passed_bytes, stalls, resends; /* per second */
    double held, held_bytes, budget;              /* fragments held now, their memory, and its limit */
    int processes;                                /* processes that have answered */
    int gateways; /* number of the processes counted in `processes` through which streams pass, or have passed */
    /* number of processes that do not answer; number of processes that ended during the measurement */
    int silent, ended;
    int draining; /* number of processes that request that streams take other paths */
    int lost_to;  /* number of processes anywhere that have lost the connection to this host's gateways */
} madi_live_host_t;

typedef struct madi_live {
    madi_live_host_t *host; /* indexed as in the topology */
    const char *title;      /* one line that describes the measurement */
    bool none;              /* true if no measurement was possible */
} madi_live_t;

/* Draw as DOT for Graphviz, or as SVG with a layout of its own: clusters side by side, networks as lines below.
 * live NULL: the topology alone.  Otherwise gateways get separate boxes, the width of a line shows its traffic, and
 * its colour shows the share of the declared bandwidth.  MAD_ERR_NOMEM; the caller checks the stream for write
 * errors. */
mad_status_t madi_topo_dot(const madi_topo_t *topo, const madi_live_t *live, FILE *out);
mad_status_t madi_topo_svg(const madi_topo_t *topo, const madi_live_t *live, FILE *out);

/* Internal: boxes, by cluster. */
#define MADI_CELL_LABEL 28

typedef struct madi_cell {
    int cluster, kind;
    int *host, hosts;
    char label[MADI_CELL_LABEL]; /* names of the hosts, folded into ranges */
    int x, width;                /* position in the picture */
} madi_cell_t;

typedef struct madi_cells {
    madi_cell_t *cell;
    int cells;
    int *host;
} madi_cells_t;

mad_status_t madi_cells_make(const madi_topo_t *topo, const madi_live_t *live, madi_cells_t *cells);
void madi_cells_fini(madi_cells_t *cells);
/* Return the interface that all hosts of a cell have on a network; "" if they differ, or none is given. */
const char *madi_cell_interface(const madi_topo_t *topo, const madi_cell_t *cell, int network);
/* Describe a network: "tcp, 1us, 10Gbit/s". */
void madi_network_text(const madi_topo_network_t *network, char *text, size_t len);

/* draw_live.c: live data of a box, of a line from a box to a network, or (cell NULL) of a whole network. */
#define MADI_LIVE_LINE 40
#define MADI_LIVE_LINES 5
typedef enum madi_live_mark { MADI_LIVE_IDLE, MADI_LIVE_RUNS, MADI_LIVE_DRAINS, MADI_LIVE_LOST } madi_live_mark_t;
/* Describe the state of a box's hosts in lines, and return their number.  The last *bad lines are problems. */
int madi_live_text(const madi_live_t *live, const madi_cell_t *cell, char line[][MADI_LIVE_LINE], int *bad);
madi_live_mark_t madi_live_mark(const madi_live_t *live, const madi_cell_t *cell);
typedef struct madi_live_link {
    madi_live_on_t sum;
    double width;                                 /* width of its line */
    const char *colour;                           /* colour of the busiest host */
    char out[MADI_LIVE_LINE], in[MADI_LIVE_LINE]; /* "out 94.1 MB/s, 375/s" */
} madi_live_link_t;
void madi_live_link(const madi_topo_t *topo, const madi_live_t *live, const madi_cell_t *cell, int network,
                    madi_live_link_t *link);
double madi_live_width(const madi_live_on_t *on);
/* Return the i-th colour, and set *meaning to its legend; NULL after the last one. */
const char *madi_live_colour(int i, const char **meaning);

#endif
