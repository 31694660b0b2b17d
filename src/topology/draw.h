/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawings of a topology: hosts that are alike in one cluster are one box. */
#ifndef MADI_TOPOLOGY_DRAW_H
#define MADI_TOPOLOGY_DRAW_H

#include "topology/topology.h"
#include <stdio.h>

/* What the processes of a host move by second, over a network that it is on (as in madi_topo_host_t's on[]). */
typedef struct madi_live_on {
    double messages_out, bytes_out, messages_in, bytes_in; /* fragments count as messages */
} madi_live_on_t;

typedef struct madi_live_host {
    madi_live_on_t *on;
    double other;          /* bytes, both ways together, that no network of the file has carried */
    double passed, passed_bytes, stalls, resends; /* by second */
    double held, held_bytes, budget; /* fragments that wait here, now, their memory, and its bound */
    int processes;         /* that have answered */
    int gateways;          /* of these, such as streams pass, or have passed */
    int silent, ended;     /* such as do not answer; were there at the beginning, and not at the end */
    int draining;          /* ask streams to take other ways */
    int lost_to;           /* so many processes, of this host or others, have lost the connection to its gateways */
} madi_live_host_t;

typedef struct madi_live {
    madi_live_host_t *host; /* as in the topology */
    const char *title;      /* what was measured: one line */
    bool none;              /* nothing was */
} madi_live_t;

/* Graphviz's language; and a picture laid out here: clusters side by side, networks as lines below.  live NULL: nothing is
 * known of what runs there; else gateways have boxes of their own, lines are the wider the more they carry, and their
 * colours say how much of the network's declared bandwidth that is.  MAD_ERR_NOMEM; what the stream says about writing is the
 * caller's to look at. */
mad_status_t madi_topo_dot(const madi_topo_t *topo, const madi_live_t *live, FILE *out);
mad_status_t madi_topo_svg(const madi_topo_t *topo, const madi_live_t *live, FILE *out);

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

mad_status_t madi_cells_make(const madi_topo_t *topo, const madi_live_t *live, madi_cells_t *cells);
void madi_cells_fini(madi_cells_t *cells);
/* The interface that all hosts of a cell have on a network; "" when they differ or none is said. */
const char *madi_cell_interface(const madi_topo_t *topo, const madi_cell_t *cell, int network);
/* "tcp, 1us, 10Gbit/s" */
void madi_network_text(const madi_topo_network_t *network, char *text, size_t len);

/* draw_live.c: a box, or a line from a box to a network, or (cell NULL) all on a network. */
#define MADI_LIVE_LINE 40
#define MADI_LIVE_LINES 5
typedef enum madi_live_mark { MADI_LIVE_IDLE, MADI_LIVE_RUNS, MADI_LIVE_DRAINS, MADI_LIVE_LOST } madi_live_mark_t;
/* How it is with the hosts of a box, in lines, as many as are returned; *bad of them, the last ones, are what is wrong. */
int madi_live_text(const madi_live_t *live, const madi_cell_t *cell, char line[][MADI_LIVE_LINE], int *bad);
madi_live_mark_t madi_live_mark(const madi_live_t *live, const madi_cell_t *cell);
typedef struct madi_live_link {
    madi_live_on_t sum;
    double width;       /* of its line */
    const char *colour; /* by the busiest of the hosts */
    char out[MADI_LIVE_LINE], in[MADI_LIVE_LINE]; /* "out 94.1 MB/s, 375/s" */
} madi_live_link_t;
void madi_live_link(const madi_topo_t *topo, const madi_live_t *live, const madi_cell_t *cell, int network,
                    madi_live_link_t *link);
double madi_live_width(const madi_live_on_t *on);
/* What colours mean, one after another; NULL: there are no more. */
const char *madi_live_colour(int i, const char **meaning);

#endif
