/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawing in Graphviz's language.  Names need no escapes, because they cannot contain characters that have a meaning
 * there. */
#include "topology/draw.h"

/* Write the lines of live data in a box, and the box's style. */
static void live_box(const madi_live_t *live, const madi_cell_t *cell, FILE *out)
{
    static const char *const looks[] = {[MADI_LIVE_IDLE] = "fontcolor=\"#808080\"",
                                        [MADI_LIVE_RUNS] = "color=\"#1e8449\"",
                                        [MADI_LIVE_DRAINS] = "color=\"#d68910\", style=filled, fillcolor=\"#fdebd0\"",
                                        [MADI_LIVE_LOST] = "color=\"#c0392b\", style=filled, fillcolor=\"#fadbd8\""};
    char line[MADI_LIVE_LINES][MADI_LIVE_LINE];
    int bad, n = madi_live_text(live, cell, line, &bad);
    for (int i = 0; i < n; i++)
        fprintf(out, "\\n%s", line[i]);
    fprintf(out, "\", %s", looks[madi_live_mark(live, cell)]);
}

static void dot_legend(const madi_live_t *live, FILE *out)
{
    const char *colour, *meaning;
    fprintf(out, "labelloc=t;\nlabel=<%s<br/>lines:", live->title);
    for (int i = 0; (colour = madi_live_colour(i, &meaning)); i++)
        fprintf(out, "%s <font color=\"%s\">%s</font>", i ? "," : "", colour, meaning);
    fputs(">;\n", out);
}

static void dot_clusters(const madi_topo_t *topo, const madi_live_t *live, const madi_cells_t *cells, int parent, FILE *out)
{
    for (int c = 0; c < topo->clusters; c++) {
        if (topo->cluster[c].parent != parent)
            continue;
        fprintf(out, "subgraph cluster_%d {\nlabel=\"%s\";\n", c, topo->cluster[c].name);
        dot_clusters(topo, live, cells, c, out);
        for (int i = 0; i < cells->cells; i++) {
            const madi_cell_t *cell = &cells->cell[i];
            if (cell->cluster != c)
                continue;
            fprintf(out, "h%d [label=\"%s\\n%d %s", i, cell->label, cell->hosts, cell->hosts == 1 ? "host" : "hosts");
            if (live)
                live_box(live, cell, out);
            else
                fputc('"', out);
            fputs(topo->kind[cell->kind].gateway >= 0 ? ", peripheries=2];\n" : "];\n", out);
        }
        fputs("}\n", out);
    }
}

static void dot_network(const madi_topo_t *topo, const madi_live_t *live, int n, FILE *out)
{
    char text[120];
    madi_live_link_t all;
    madi_network_text(&topo->network[n], text, sizeof text);
    fprintf(out, "n%d [shape=ellipse, label=\"%s\\n%s", n, topo->network[n].name, text);
    if (live) {
        madi_live_link(topo, live, NULL, n, &all);
        fprintf(out, "\\n%s\\n%s\", color=\"%s\"];\n", all.out, all.in, all.colour);
    } else {
        fputs("\"];\n", out);
    }
}

static void dot_line(const madi_topo_t *topo, const madi_live_t *live, const madi_cells_t *cells, int i, int n, FILE *out)
{
    const madi_cell_t *cell = &cells->cell[i];
    const char *interface = madi_cell_interface(topo, cell, n);
    madi_live_link_t link;
    fprintf(out, "h%d -- n%d [label=\"%s", i, n, interface);
    if (live) {
        madi_live_link(topo, live, cell, n, &link);
        fprintf(out, "%s%s\\n%s\", penwidth=%.1f, color=\"%s\"];\n", *interface ? "\\n" : "", link.out, link.in, link.width,
                link.colour);
    } else {
        fputs("\"];\n", out);
    }
}

mad_status_t madi_topo_dot(const madi_topo_t *topo, const madi_live_t *live, FILE *out)
{
    madi_cells_t cells;
    if (madi_cells_make(topo, live, &cells))
        return MAD_ERR_NOMEM;
    fputs("graph topology {\nrankdir=LR;\nnode [shape=box];\n", out);
    if (live)
        dot_legend(live, out);
    dot_clusters(topo, live, &cells, -1, out);
    for (int n = 0; n < topo->networks; n++)
        dot_network(topo, live, n, out);
    for (int i = 0; i < cells.cells; i++) {
        const madi_topo_host_t *host = &topo->host[cells.cell[i].host[0]];
        for (int k = 0; k < host->ons; k++)
            dot_line(topo, live, &cells, i, host->on[k].network, out);
    }
    fputs("}\n", out);
    madi_cells_fini(&cells);
    return MAD_OK;
}
