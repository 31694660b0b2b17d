/* SPDX-License-Identifier: BSD-3-Clause */
/* Picture of lanes: processes below each other, time from left to right.
 *
 *   rank 0 on red0      |
 *     send to 1         |  ##########################
 *     red: to 4         |  # # # # # # # # # #
 *   rank 4 on gate      |
 *     red: from 0       |   ### ### ### ### ###
 *     blue: to 1        |     ### ### ### ### ### ###
 *                       +--------+--------+--------+---
 *                       0      500     1000     1500 us
 *
 * Bars within one pixel become one mark, so the size of the picture is bounded, however long the timeline is. */
#include "base/file.h"
#include "tools/mad_info_lanes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEFT 330 /* x of the plot's left edge, in pixels */
#define WIDTH 1250
#define TOP 44
#define ROW 9
#define GAP 5
#define HEAD 22 /* height of a process's heading, in pixels */
#define LANES_MAX 600

typedef struct drawing {
    const madi_lanes_t *l;
    FILE *out;
    int y, lanes; /* position reached so far; number of lanes drawn so far */
    /* numbers of marks drawn, of bars that share a mark, and of bars left out because no row was free */
    long marks, joined, crowded;
    char network[16][32];
    int networks;
} drawing_t;

/* Write text with escapes, because names come from files. */
static void text_put(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"' || *text < ' ' || *text > '~')
            fprintf(out, *text < ' ' || *text > '~' ? "?" : "&#%d;", *text);
        else
            fputc(*text, out);
}

static double x_of(const madi_lanes_t *l, double us)
{
    double x = LEFT + (us - l->from) / (l->to - l->from) * WIDTH;
    return x < LEFT ? LEFT : x > LEFT + WIDTH ? LEFT + WIDTH : x;
}

/* ---- Colours ---------------------------------------------------------------------------------------------------- */

/* Colours: each network has its own colour; all other lanes are coloured by kind. */
static const char *const of_kinds[MADI_LANE_KINDS] = {
    [MADI_LANE_MESSAGES] = "#34495e", [MADI_LANE_BLOCKS] = "#7f8c8d", [MADI_LANE_PIECES] = "#a6acaf",
    [MADI_LANE_HELD] = "#d4ac0d",     [MADI_LANE_STALLS] = "#ff0000", [MADI_LANE_WAITS] = "#e5e8e8"};
static const char *const of_networks[] = {"#a04000", "#2471a3", "#1e8449", "#7d3c98", "#117a65", "#b03a72"};
#define N_COLOURS (int)(sizeof of_networks / sizeof *of_networks)

static const char *colour_of(drawing_t *d, const madi_lane_t *lane)
{
    int i;
    if (of_kinds[lane->kind])
        return of_kinds[lane->kind];
    for (i = 0; i < d->networks && strcmp(d->network[i], lane->network); i++)
        ;
    if (i == 16)
        return of_networks[0];
    if (i == d->networks)
        memcpy(d->network[d->networks++], lane->network, sizeof lane->network);
    return of_networks[i % N_COLOURS];
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------ */

/* One or more bars drawn as one mark. */
typedef struct mark {
    double left, right;
    double begin, end, bytes; /* begin of the first bar, end of the last one, sum of all bytes */
    int count, number;
} mark_t;

static void mark_draw(drawing_t *d, const mark_t *m, int row, const char *colour)
{
    const madi_lanes_t *l = d->l;
    if (!m->count)
        return;
    fprintf(d->out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>", m->left, d->y + row * ROW,
            m->right - m->left < 0.8 ? 0.8 : m->right - m->left, ROW - 2, colour);
    if (m->count > 1)
        fprintf(d->out, "%d events, ", m->count);
    else if (m->number >= 0)
        fprintf(d->out, "number %d, ", m->number);
    if (m->bytes > 0)
        fprintf(d->out, "%.0f bytes, ", m->bytes);
    fprintf(d->out, "%.1f to %.1f us</title></rect>\n", m->begin - l->first, m->end - l->first);
    d->marks++;
}

/* True if a bar continues the previous mark: there is no gap, and the mark or the bar is shorter than a pixel. */
static bool mark_joins(const mark_t *m, double left, double right)
{
    return m->count && left - m->right < 0.5 && (right - left < 1 || m->right - m->left < 1 || m->count > 1);
}

static void bars_draw(drawing_t *d, int first, int last, const char *colour)
{
    mark_t mark[MADI_LANE_ROWS] = {{0}};
    for (int i = first; i < last; i++) {
        const madi_bar_t *b = &d->l->bar[i];
        double left = x_of(d->l, b->begin), right = x_of(d->l, b->end);
        mark_t *m = &mark[b->row < 0 ? 0 : b->row];
        if (b->row < 0)
            continue;
        if (mark_joins(m, left, right)) {
            d->joined += m->count == 1 ? 2 : 1;
            m->right = right > m->right ? right : m->right;
            m->end = b->end;
            m->bytes += b->bytes;
            m->count++;
            continue;
        }
        mark_draw(d, m, b->row, colour);
        *m = (mark_t){.left = left,
                      .right = right,
                      .begin = b->begin,
                      .end = b->end,
                      .bytes = b->bytes,
                      .count = 1,
                      .number = b->number};
    }
    for (int row = 0; row < MADI_LANE_ROWS; row++)
        mark_draw(d, &mark[row], row, colour);
}

/* Name a lane "red: fragments from 0", with the network in place of the driver if the network is known. */
static void lane_name(const madi_lane_t *lane, char *name, size_t len)
{
    const char *behind = strchr(lane->name, ':');
    if (lane->network[0] && behind)
        snprintf(name, len, "%.20s%.30s", lane->network, behind);
    else
        snprintf(name, len, "%.42s", lane->name);
}

static void lane_draw(drawing_t *d, int i, int first, int last)
{
    const madi_lane_t *lane = &d->l->lane[i];
    const char *colour = colour_of(d, lane);
    char name[60];
    lane_name(lane, name, sizeof name);
    fprintf(d->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\"%s>", LEFT - 8, d->y + lane->rows * ROW / 2 + 4,
            lane->kind == MADI_LANE_STALLS ? " fill=\"#c0392b\"" : "");
    text_put(d->out, name);
    fprintf(d->out, "</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#000\" fill-opacity=\"0.03\"/>\n",
            LEFT, d->y, WIDTH, lane->rows * ROW - 2);
    bars_draw(d, first, last, colour);
    d->crowded += lane->crowded;
    d->y += lane->rows * ROW + GAP;
    d->lanes++;
}

static void process_draw(drawing_t *d, int process)
{
    d->y += 4;
    fprintf(d->out,
            "<line x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#ccc\"/>\n<text x=\"8\" y=\"%d\" font-weight=\"bold\">",
            d->y, LEFT + WIDTH, d->y, d->y + 14);
    text_put(d->out, d->l->process[process]);
    fputs("</text>\n", d->out);
    d->y += HEAD;
}

/* ---- Scale and notes -------------------------------------------------------------------------------------------- */

/* Return a scale step of 1, 2 or 5 times a power of ten that gives about ten steps. */
static double step_of(double span)
{
    double step = pow(10, floor(log10(span / 10)));
    return span / step <= 12 ? step : span / step <= 24 ? 2 * step : span / step <= 60 ? 5 * step : 10 * step;
}

static void scale_draw(FILE *out, const madi_lanes_t *l, int bottom)
{
    double step = step_of(l->to - l->from), from = l->from - l->first;
    for (double us = ceil(from / step) * step; us <= l->to - l->first; us += step) {
        double x = x_of(l, us + l->first);
        fprintf(out, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>\n", x, TOP, x, bottom);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#666\">%.*f</text>\n", x, TOP - 6,
                step < 1 ? 1 : 0, us);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"#666\">microseconds</text>\n", LEFT - 40, TOP - 6);
}

static void picture_note(drawing_t *d, const char *colour, const char *text)
{
    fprintf(d->out, "<text x=\"8\" y=\"%d\" fill=\"%s\">", d->y += 15, colour);
    text_put(d->out, text);
    fputs("</text>\n", d->out);
}

/* Write a note about each difference between the picture and the timeline. */
static void notes_draw(drawing_t *d, int left_out)
{
    const madi_lanes_t *l = d->l;
    char text[200];
    d->y += 6;
    picture_note(
        d, "#666",
        "yellow: fragments held for the next network; red: a stream that has something to send, and no credit; light grey: "
        "threads asleep; each network has a colour of its own");
    snprintf(text, sizeof text, "%d events as %ld marks; %ld of them are shorter than a pixel, and share a mark with others",
             l->bars, d->marks, d->joined);
    picture_note(d, "#666", text);
    if (l->from > l->first || l->to < l->last) {
        snprintf(text, sizeof text, "a part: %.1f to %.1f of %.1f us; %d events lie outside of it", l->from - l->first,
                 l->to - l->first, l->last - l->first, l->outside);
        picture_note(d, "#c0392b", text);
    }
    if (d->crowded) {
        snprintf(text, sizeof text, "%ld events are left out: a lane shows %d at the same time", d->crowded, MADI_LANE_ROWS);
        picture_note(d, "#c0392b", text);
    }
    if (left_out) {
        snprintf(text, sizeof text, "%d lanes are left out: a picture has %d at most", left_out, LANES_MAX);
        picture_note(d, "#c0392b", text);
    }
    if (l->lost > 0) {
        snprintf(text, sizeof text, "%.0f older events had been forgotten by the processes (MAD_TRACE_EVENTS)", l->lost);
        picture_note(d, "#c0392b", text);
    }
}

/* Draw the lanes, and return the vertical position where they end. */
static int lanes_draw(drawing_t *d)
{
    const madi_lanes_t *l = d->l;
    int process = -1, left_out = 0, bottom;
    for (int first = 0, last; first < l->bars; first = last) {
        int lane = l->bar[first].lane;
        for (last = first; last < l->bars && l->bar[last].lane == lane; last++)
            ;
        if (d->lanes == LANES_MAX) {
            left_out++;
            continue;
        }
        if (l->lane[lane].process != process)
            process_draw(d, process = l->lane[lane].process);
        lane_draw(d, lane, first, last);
    }
    bottom = d->y;
    notes_draw(d, left_out);
    return bottom;
}

bool madi_lanes_draw(const madi_lanes_t *l, const char *name)
{
    drawing_t d = {.l = l, .y = TOP};
    char *body = NULL;
    size_t len = 0;
    char why[PATH_MAX + 100];
    madi_output_t output;
    bool open = madi_output_open(&output, name, 0666, true, why, sizeof why), good = false;
    FILE *out = output.file;
    int bottom;
    d.out = open ? open_memstream(&body, &len) : NULL;
    if (open && !d.out)
        snprintf(why, sizeof why, "%s", strerror(errno));
    if (d.out) {
        bottom = lanes_draw(&d);
        good = !fclose(d.out);
        fprintf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" "
                "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                LEFT + WIDTH + 40, d.y + 12);
        scale_draw(out, l, bottom);
        fprintf(out, "%s</svg>\n", good ? body : "");
    }
    good = open && madi_output_close(&output, good, why, sizeof why);
    free(body);
    if (!good)
        fprintf(stderr, "mad_info: the picture '%s' cannot be written: %s\n", name, why);
    return good;
}
