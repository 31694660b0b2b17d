/* SPDX-License-Identifier: BSD-3-Clause */
/* Drawing as SVG: clusters side by side, nested ones inside each other, all hosts in one row; below it one line for
 * each network, with a vertical line from each of its hosts.
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
#define STEP 24 /* pixels between the frames of nested clusters */
#define CELL_HEIGHT 40
#define LINE 40  /* pixels between the lines of two networks */
#define LETTER 8 /* pixels: width of a letter */
/* For live data: size of the smaller letters, their line height, and room beside a line. */
#define SMALL 7
#define SMALL_LINE 14
#define BESIDE 26 /* number of letters beside a line */
#define LEGEND 20 /* height of a line */

typedef struct picture {
    const madi_topo_t *topo;
    const madi_live_t *live; /* NULL: topology only */
    madi_cells_t cells;
    FILE *out;
    int x, depth; /* current position; depth of the deepest cluster */
    int right;    /* right end of the networks' texts */
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

static int cluster_top(const picture_t *p, int depth)
{
    return (p->live ? LEGEND : 0) + MARGIN + depth * STEP;
}

static int cells_top(const picture_t *p)
{
    return cluster_top(p, p->depth) + MARGIN;
}

static int cell_height(const picture_t *p)
{
    return p->live ? CELL_HEIGHT + MADI_LIVE_LINES * SMALL_LINE + 6 : CELL_HEIGHT;
}

/* Distance between networks. */
static int line_height(const picture_t *p)
{
    return p->live ? LINE + 2 * SMALL_LINE : LINE;
}

static void text_draw(const picture_t *p, int x, int y, const char *style, const char *text)
{
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" %s>%s</text>\n", x, y, style, text);
}

/* Return a width that fits the cell's texts and its lines. */
static int cell_width(const picture_t *p, const madi_cell_t *cell)
{
    int letters = (int)strlen(cell->label), ons = p->topo->host[cell->host[0]].ons, bad;
    int width = (letters > 12 ? letters : 12) * LETTER + 16, least = ons * (p->live ? BESIDE * SMALL : 24);
    char line[MADI_LIVE_LINES][MADI_LIVE_LINE];
    for (int i = p->live ? madi_live_text(p->live, cell, line, &bad) : 0; i-- > 0;)
        if (least < (int)strlen(line[i]) * SMALL + 16)
            least = (int)strlen(line[i]) * SMALL + 16;
    return width > least ? width : least;
}

/* Draw the lines of live data of a cell.  A last line that reports a problem has a dark shade of the box's colour. */
static void live_draw(const picture_t *p, const madi_cell_t *cell)
{
    char line[MADI_LIVE_LINES][MADI_LIVE_LINE], style[100];
    int bad, n = madi_live_text(p->live, cell, line, &bad);
    madi_live_mark_t mark = madi_live_mark(p->live, cell);
    for (int i = 0; i < n; i++) {
        bool wrong = i >= n - bad;
        snprintf(style, sizeof style, "text-anchor=\"middle\" font-size=\"11\" fill=\"%s\"%s",
                 wrong                    ? mark == MADI_LIVE_DRAINS ? "#9c640c" : "#c0392b"
                 : mark == MADI_LIVE_IDLE ? "#999"
                                          : "#000",
                 wrong ? " font-weight=\"bold\"" : "");
        text_draw(p, cell->x + cell->width / 2, cells_top(p) + CELL_HEIGHT + 9 + i * SMALL_LINE, style, line[i]);
    }
}

static void cell_draw(picture_t *p, madi_cell_t *cell)
{
    static const char *const borders[] = {[MADI_LIVE_IDLE] = "stroke=\"#999\" stroke-dasharray=\"2 3\"",
                                          [MADI_LIVE_RUNS] = "stroke=\"#333\"",
                                          [MADI_LIVE_DRAINS] = "stroke=\"#d68910\" stroke-dasharray=\"8 3\"",
                                          [MADI_LIVE_LOST] = "stroke=\"#c0392b\" stroke-dasharray=\"8 3\""};
    static const char *const fills[] = {
        [MADI_LIVE_IDLE] = "#fff", [MADI_LIVE_RUNS] = "#fff", [MADI_LIVE_DRAINS] = "#fdebd0", [MADI_LIVE_LOST] = "#fadbd8"};
    bool gateway = p->topo->kind[cell->kind].gateway >= 0;
    madi_live_mark_t mark = p->live ? madi_live_mark(p->live, cell) : MADI_LIVE_RUNS;
    char text[40];
    cell->x = p->x;
    cell->width = cell_width(p, cell);
    fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" fill=\"%s\" %s%s/>\n", cell->x,
            cells_top(p), cell->width, cell_height(p), gateway && mark <= MADI_LIVE_RUNS ? "#fdf2d0" : fills[mark],
            borders[mark], gateway ? " stroke-width=\"2\"" : "");
    text_draw(p, cell->x + cell->width / 2, cells_top(p) + 17, "text-anchor=\"middle\"", cell->label);
    snprintf(text, sizeof text, "%d %s%s", cell->hosts, gateway ? "gateway" : "host", cell->hosts == 1 ? "" : "s");
    text_draw(p, cell->x + cell->width / 2, cells_top(p) + 33, "text-anchor=\"middle\" fill=\"#666\"", text);
    if (p->live)
        live_draw(p, cell);
    p->x += cell->width + MARGIN;
}

static void cluster_draw(picture_t *p, int c, int depth)
{
    int left = p->x, top = cluster_top(p, depth), bottom = cells_top(p) + cell_height(p) + MARGIN * (p->depth - depth),
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
    fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"none\" stroke=\"#999\"/>\n", left,
            top, p->x - left, bottom - top);
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", left + 8, top + 16,
            p->topo->cluster[c].name);
    p->x += MARGIN;
}

static int line_y(const picture_t *p, int network)
{
    return cells_top(p) + cell_height(p) + MARGIN * p->depth + line_height(p) * (network + 1);
}

static void network_draw(picture_t *p, int n)
{
    char text[200], more[2 * MADI_LIVE_LINE + 8];
    int letters, y = line_y(p, n);
    madi_live_link_t all = {.width = 3, .colour = colour(n)};
    if (p->live)
        madi_live_link(p->topo, p->live, NULL, n, &all);
    letters = snprintf(text, sizeof text, "%s (", p->topo->network[n].name);
    madi_network_text(&p->topo->network[n], text + letters, sizeof text - (size_t)letters - 1);
    strcat(text, ")");
    letters = (int)strlen(text);
    fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", MARGIN, y, p->x,
            y, all.colour, all.width < 3 ? 3 : all.width);
    fprintf(p->out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", p->x + MARGIN, y + 4, p->live ? "#333" : colour(n),
            text);
    if (p->live) {
        snprintf(more, sizeof more, "%s; %s", all.out, all.in);
        text_draw(p, p->x + MARGIN, y + 4 + SMALL_LINE, "font-size=\"11\"", more);
        if (letters < (int)strlen(more))
            letters = (int)strlen(more);
    }
    if (p->right < p->x + 2 * MARGIN + letters * LETTER)
        p->right = p->x + 2 * MARGIN + letters * LETTER;
}

/* Draw the k-th network line of a box. */
static void on_draw(picture_t *p, const madi_cell_t *cell, int k)
{
    const madi_topo_host_t *host = &p->topo->host[cell->host[0]];
    int n = host->on[k].network, y = line_y(p, n);
    int x = p->live ? cell->x + 12 + k * (cell->width - 8) / host->ons : cell->x + (k + 1) * cell->width / (host->ons + 1);
    madi_live_link_t link = {.width = 1, .colour = colour(n)};
    if (p->live)
        madi_live_link(p->topo, p->live, cell, n, &link);
    fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"%.1f\"/>\n", x,
            cells_top(p) + cell_height(p), x, y, link.colour, link.width);
    fprintf(p->out, "<circle cx=\"%d\" cy=\"%d\" r=\"%.1f\" fill=\"%s\"/>\n", x, y, link.width < 6 ? 4 : link.width / 2 + 1,
            link.colour);
    text_draw(p, x + (p->live ? 9 : 4), y - (p->live ? 7 + 2 * SMALL_LINE : 5), "font-size=\"10\" fill=\"#666\"",
              madi_cell_interface(p->topo, cell, n));
    if (p->live && link.sum.bytes_out + link.sum.bytes_in > 0) {
        text_draw(p, x + 9, y - 7 - SMALL_LINE, "font-size=\"11\"", link.out);
        text_draw(p, x + 9, y - 7, "font-size=\"11\"", link.in);
    }
}

/* Draw the legend, and return its height. */
static int legend_draw(picture_t *p, int y)
{
    static const struct {
        madi_live_on_t on;
        const char *meaning;
    } widths[] = {{{.bytes_out = 1e3}, "1 kB/s"},
                  {{.bytes_out = 1e6}, "1 MB/s"},
                  {{.bytes_out = 1e8}, "100 MB/s"},
                  {{.bytes_out = 1e10}, "10 GB/s"}};
    static const char *const words[] = {
        "out, in: what processes of the box send to, and have from, the network, in bytes and messages (fragments count) by "
        "second;",
        "of several hosts together, the colour is that of the busiest; other paths: shared memory, networks not in the "
        "file.",
        "passes, holds: fragments of others, by second, now, and of how much memory; stalls: waits for credit; resends: "
        "after a loss.",
        "red box: a process there does not answer, or is lost to others; orange box: it drains; dotted box: no process was "
        "found."};
    const char *means, *colour;
    int x = MARGIN, top = y;
    for (int i = 0; (colour = madi_live_colour(i, &means)); i++) {
        fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"5\"/>\n", x, y - 4,
                x + 20, y - 4, colour);
        text_draw(p, x + 26, y, "font-size=\"11\"", means);
        x += 26 + (int)strlen(means) * SMALL + 16;
    }
    y += LEGEND;
    if (p->right < x)
        p->right = x;
    x = MARGIN;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        fprintf(p->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#666\" stroke-width=\"%.1f\"/>\n", x, y - 4,
                x + 20, y - 4, madi_live_width(&widths[i].on));
        text_draw(p, x + 26, y, "font-size=\"11\"", widths[i].meaning);
        x += 26 + (int)strlen(widths[i].meaning) * SMALL + 16;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        text_draw(p, MARGIN, y += LEGEND - 4, "font-size=\"11\" fill=\"#666\"", words[i]);
        if (p->right < MARGIN + (int)strlen(words[i]) * SMALL)
            p->right = MARGIN + (int)strlen(words[i]) * SMALL;
    }
    return y - top;
}

static void svg_draw(picture_t *p)
{
    for (int c = 0; c < p->topo->clusters; c++)
        if (p->topo->cluster[c].parent < 0)
            cluster_draw(p, c, 0);
    for (int n = 0; n < p->topo->networks; n++)
        network_draw(p, n);
    for (int i = 0; i < p->cells.cells; i++)
        for (int k = 0; k < p->topo->host[p->cells.cell[i].host[0]].ons; k++)
            on_draw(p, &p->cells.cell[i], k);
}

/* Draw into memory first, because the picture's size is written at the beginning, but known only at the end. */
mad_status_t madi_topo_svg(const madi_topo_t *topo, const madi_live_t *live, FILE *out)
{
    picture_t p = {.topo = topo, .live = live, .x = MARGIN};
    char *body = NULL;
    size_t len = 0;
    int height;
    if (madi_cells_make(topo, live, &p.cells))
        return MAD_ERR_NOMEM;
    p.out = open_memstream(&body, &len);
    if (!p.out) {
        madi_cells_fini(&p.cells);
        return MAD_ERR_NOMEM;
    }
    depth_find(&p);
    svg_draw(&p);
    height = line_y(&p, topo->networks - 1) + LINE / 2;
    if (live) {
        text_draw(&p, MARGIN, LEGEND - 3, live->none ? "font-weight=\"bold\" fill=\"#c0392b\"" : "font-weight=\"bold\"",
                  live->title);
        if (p.right < 2 * MARGIN + (int)strlen(live->title) * LETTER)
            p.right = 2 * MARGIN + (int)strlen(live->title) * LETTER;
        height += LEGEND + legend_draw(&p, height + LEGEND) + MARGIN;
    }
    fclose(p.out);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n",
            p.right, height, body ? body : "");
    madi_cells_fini(&p.cells);
    free(body);
    return MAD_OK;
}
