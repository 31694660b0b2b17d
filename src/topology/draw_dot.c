/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphviz's language.  Names need no escapes: no character is allowed in them that has a meaning there. */
#include "topology/draw.h"

static void clusters(const madi_topo_t *topo, const madi_cells_t *cells, int parent, FILE *out)
{
    for (int c = 0; c < topo->clusters; c++) {
        if (topo->cluster[c].parent != parent)
            continue;
        fprintf(out, "subgraph cluster_%d {\nlabel=\"%s\";\n", c, topo->cluster[c].name);
        clusters(topo, cells, c, out);
        for (int i = 0; i < cells->cells; i++) {
            const madi_cell_t *cell = &cells->cell[i];
            if (cell->cluster == c)
                fprintf(out, "h%d [label=\"%s\\n%d %s\"%s];\n", i, cell->label, cell->hosts,
                        cell->hosts == 1 ? "host" : "hosts",
                        topo->kind[cell->kind].gateway >= 0 ? ", peripheries=2" : "");
        }
        fputs("}\n", out);
    }
}

mad_status_t madi_topo_dot(const madi_topo_t *topo, FILE *out)
{
    madi_cells_t cells;
    char text[120];
    if (madi_cells_make(topo, &cells))
        return MAD_ERR_NOMEM;
    fputs("graph topology {\nrankdir=LR;\nnode [shape=box];\n", out);
    clusters(topo, &cells, -1, out);
    for (int n = 0; n < topo->networks; n++) {
        madi_network_text(&topo->network[n], text, sizeof text);
        fprintf(out, "n%d [shape=ellipse, label=\"%s\\n%s\"];\n", n, topo->network[n].name, text);
    }
    for (int i = 0; i < cells.cells; i++) {
        const madi_topo_host_t *host = &topo->host[cells.cell[i].host[0]];
        for (int k = 0; k < host->ons; k++)
            fprintf(out, "h%d -- n%d [label=\"%s\"];\n", i, host->on[k].network,
                    madi_cell_interface(topo, &cells.cell[i], host->on[k].network));
    }
    fputs("}\n", out);
    madi_cells_fini(&cells);
    return MAD_OK;
}
