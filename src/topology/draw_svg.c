/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture: clusters side by side, one inside the other where they are nested, all hosts in one row; below it a line for
 * each network, to which the hosts that are on it hang.
 *
 *    +- site ------------------+
 *    | +- east ---+ +- west -+ |
 *    | | [e0-7] [g] | [w0-7] | |
 *    +----|-----|-------|------+
 *   red --o-----o-------|---------
 *   blue -------o-------o--------- */
#include "topology/draw.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN 10
#define STEP 24 /* from a cluster's frame to that of one inside it */
#define CELL_HEIGHT 40
#define LINE 40  /* from one network to the next */
#define LETTER 8 /* width */

typedef struct picture {
    const madi_topo_t *topo;
    madi_cells_t cells;
    FILE *out;
    int x, depth; /* so far; of the deepest cluster */
} picture_t;

static const char *colour(int network)
{
    static const char *const colours[] = {"#c0392b", "#2471a3", "#1e8449", "#b9770e",
                                          "#7d3c98", "#117a65", "#5d6d7e", "#a04000"};
    return colours[network % (int)(sizeof colours / sizeof *colours)];
}

static void depth_find(picture_t *p)
{
    for (int c = 0; c < p->topo->clusters; c++) {
        int depth = 0;
        for (int up = c; up >= 0; up = p->topo->cluster[up].parent)
            depth++;
        if (depth > p->depth)
            p->depth = depth;
    }
}

static int cells_top(const picture_t *p)
{
    return MARGIN + p->depth * STEP + MARGIN;
}

static void cell_draw(picture_t *p, madi_cell_t *cell)
{
    bool gateway = p->topo->kind[cell->kind].gateway >= 0;
    int letters = (int)strlen(cell->label), ons = p->topo->host[cell->host[0]].ons;
    cell->x = p->x;
    cell->width = (letters > 12 ? letters : 12) * LETTER + 16;
    if (cell->width < ons * 24)
        cell->width = ons * 24;
    fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" stroke=\"#333\"%s/>\n",
            cell->x, cells_top(p), cell->width, CELL_HEIGHT, gateway ? "#fdf2d0" : "#fff",
            gateway ? " stroke-width=\"2\"" : "");
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", cell->x + cell->width / 2,
            cells_top(p) + 17, cell->label);
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#666\">%d %s</text>\n",
            cell->x + cell->width / 2, cells_top(p) + 33, cell->hosts,
            gateway            ? cell->hosts == 1 ? "gateway" : "gateways"
            : cell->hosts == 1 ? "host"
                               : "hosts");
    p->x += cell->width + MARGIN;
}

static void cluster_draw(picture_t *p, int c, int depth)
{
    int left = p->x, top = MARGIN + depth * STEP, bottom = cells_top(p) + CELL_HEIGHT + MARGIN * (p->depth - depth),
        least;
    p->x += MARGIN;
    for (int i = 0; i < p->topo->clusters; i++)
        if (p->topo->cluster[i].parent == c)
            cluster_draw(p, i, depth + 1);
    for (int i = 0; i < p->cells.cells; i++)
        if (p->cells.cell[i].cluster == c)
            cell_draw(p, &p->cells.cell[i]);
    least = left + (int)strlen(p->topo->cluster[c].name) * LETTER + 2 * MARGIN;
    if (p->x < least)
        p->x = least;
    fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"none\" stroke=\"#999\"/>\n",
            left, top, p->x - left, bottom - top);
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", left + 8, top + 16,
            p->topo->cluster[c].name);
    p->x += MARGIN;
}

static int line_y(const picture_t *p, int network)
{
    return cells_top(p) + CELL_HEIGHT + MARGIN * p->depth + LINE * (network + 1);
}

static void networks_draw(picture_t *p)
{
    char text[120];
    for (int n = 0; n < p->topo->networks; n++) {
        madi_network_text(&p->topo->network[n], text, sizeof text);
        fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"3\"/>\n", MARGIN,
                line_y(p, n), p->x, line_y(p, n), colour(n));
        fprintf(p->out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s (%s)</text>\n", p->x + MARGIN, line_y(p, n) + 4,
                colour(n), p->topo->network[n].name, text);
    }
    for (int i = 0; i < p->cells.cells; i++) {
        const madi_cell_t *cell = &p->cells.cell[i];
        const madi_topo_host_t *host = &p->topo->host[cell->host[0]];
        for (int k = 0; k < host->ons; k++) {
            int n = host->on[k].network, x = cell->x + (k + 1) * cell->width / (host->ons + 1);
            fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\"/>\n", x,
                    cells_top(p) + CELL_HEIGHT, x, line_y(p, n), colour(n));
            fprintf(p->out, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", x, line_y(p, n), colour(n));
            fprintf(p->out, "<text x=\"%d\" y=\"%d\" font-size=\"10\" fill=\"#666\">%s</text>\n", x + 4,
                    line_y(p, n) - 5, madi_cell_interface(p->topo, cell, n));
        }
    }
}

/* The size stands at the beginning and is known at the end. */
mad_status_t madi_topo_svg(const madi_topo_t *topo, FILE *out)
{
    picture_t p = {.topo = topo, .x = MARGIN};
    char *body = NULL;
    size_t len = 0;
    int width;
    if (madi_cells_make(topo, &p.cells))
        return MAD_ERR_NOMEM;
    p.out = open_memstream(&body, &len);
    if (!p.out) {
        madi_cells_fini(&p.cells);
        return MAD_ERR_NOMEM;
    }
    depth_find(&p);
    for (int c = 0; c < topo->clusters; c++)
        if (topo->cluster[c].parent < 0)
            cluster_draw(&p, c, 0);
    networks_draw(&p);
    fclose(p.out);
    width = p.x + 40 * LETTER;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n",
            width, line_y(&p, topo->networks - 1) + LINE / 2, body ? body : "");
    madi_cells_fini(&p.cells);
    free(body);
    return MAD_OK;
}
