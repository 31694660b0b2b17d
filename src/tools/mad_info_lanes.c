/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of trace events to lanes.  The events are trusted as little as any other file. */
#include "tools/mad_info_lanes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES 256
#define LANES 1024
#define TIME_MAX 1e15 /* us: 30 years */

typedef struct maker {
    madi_lanes_t *l;
    double pid[PROCESSES], order[PROCESSES];
    int room;
} maker_t;

static const struct {
    const char *category, *word; /* the event's name contains this word */
    madi_lane_kind_t kind;
} kinds[] = {{"message", "", MADI_LANE_MESSAGES},      {"block", "", MADI_LANE_BLOCKS},
             {"piece", "", MADI_LANE_PIECES},          {"fragment", "fragments from", MADI_LANE_FRAGMENTS_IN},
             {"fragment", "held for", MADI_LANE_HELD}, {"fragment", "fragments to", MADI_LANE_FRAGMENTS_OUT},
             {"stall", "", MADI_LANE_STALLS},          {"wait", "", MADI_LANE_WAITS}};

/* ---- Processes and lanes ---------------------------------------------------------------------------------------- */

static int process_of(maker_t *m, double pid)
{
    int i;
    for (i = 0; i < m->l->processes; i++)
        if (m->pid[i] == pid)
            return i;
    if (i == PROCESSES)
        return -1;
    m->pid[i] = pid;
    m->order[i] = INFINITY;
    snprintf(m->l->process[i], sizeof m->l->process[i], "process %.0f", pid);
    return m->l->processes++;
}

static void process_name(maker_t *m, const json_t *event)
{
    int i = process_of(m, madi_info_number(event, "pid"));
    const json_t *args = json_object_get(event, "args");
    if (i >= 0 && !strcmp(madi_info_text(event, "name"), "process_name"))
        snprintf(m->l->process[i], sizeof m->l->process[i], "%.80s", madi_info_text(args, "name"));
    else if (i >= 0)
        m->order[i] = madi_info_number(args, "sort_index");
}

/* Return the lane of an event; -1 if it has none, or if there are too many lanes. */
static int lane_of(maker_t *m, const json_t *event)
{
    const char *category = madi_info_text(event, "cat"), *name = madi_info_text(event, "name");
    const char *network = madi_info_text(json_object_get(event, "args"), "network");
    int process = process_of(m, madi_info_number(event, "pid")), kind = MADI_LANE_KINDS, i;
    madi_lane_t *lane;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && kind == MADI_LANE_KINDS; k++)
        if (!strcmp(category, kinds[k].category) && strstr(name, kinds[k].word))
            kind = (int)kinds[k].kind;
    if (process < 0 || kind == MADI_LANE_KINDS)
        return -1;
    for (i = 0; i < m->l->lanes; i++) {
        lane = &m->l->lane[i];
        if (lane->process == process && (int)lane->kind == kind && !strncmp(lane->name, name, sizeof lane->name - 1) &&
            !strncmp(lane->network, network, sizeof lane->network - 1))
            return i;
    }
    if (i == LANES)
        return -1;
    lane = &m->l->lane[m->l->lanes++];
    *lane = (madi_lane_t){.process = process, .kind = (madi_lane_kind_t)kind};
    snprintf(lane->name, sizeof lane->name, "%.79s", name);
    snprintf(lane->network, sizeof lane->network, "%.31s", network);
    return i;
}

/* ---- Bars ------------------------------------------------------------------------------------------------------- */

static bool bar_add(maker_t *m, const json_t *event, double end)
{
    static const char *const numbers[] = {"message", "block", "stream"};
    const json_t *args = json_object_get(event, "args");
    madi_bar_t bar = {.begin = madi_info_number(event, "ts"), .end = end, .lane = lane_of(m, event), .number = -1};
    if (bar.lane < 0 || !(fabs(bar.begin) < TIME_MAX && fabs(end) < TIME_MAX))
        return true;
    bar.end = end > bar.begin ? end : bar.begin;
    bar.bytes = madi_info_number(args, "bytes");
    for (int i = 0; i < 3; i++)
        if (json_object_get(args, numbers[i]))
            bar.number = (int)madi_info_number(args, numbers[i]);
    if (m->l->bars == m->room) {
        int room = 2 * m->room + 1024;
        madi_bar_t *more = realloc(m->l->bar, (size_t)room * sizeof *more);
        if (!more)
            return false;
        m->l->bar = more;
        m->room = room;
    }
    m->l->bar[m->l->bars++] = bar;
    return true;
}

/* Add all events.  An end event directly follows its begin event, because processes write them in this order. */
static bool events_add(maker_t *m, const json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i), *next = json_array_get(events, i + 1);
        const char *ph = madi_info_text(e, "ph");
        bool good = true;
        if (!strcmp(ph, "M"))
            process_name(m, e);
        else if (!strcmp(ph, "X"))
            good = bar_add(m, e, madi_info_number(e, "ts") + madi_info_number(e, "dur"));
        else if (!strcmp(ph, "b") && !strcmp(madi_info_text(next, "ph"), "e"))
            good = bar_add(m, e, madi_info_number(next, "ts"));
        if (!good)
            return false;
    }
    return true;
}

static int by_lane(const void *a, const void *b)
{
    const madi_bar_t *x = a, *y = b;
    if (x->lane != y->lane)
        return x->lane - y->lane;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Sort lanes by process, kind and name, and bars by lane and time. */
static const madi_lanes_t *sorted;
static const double *sorted_order;
static int by_process(const void *a, const void *b)
{
    const madi_lane_t *x = &sorted->lane[*(const int *)a], *y = &sorted->lane[*(const int *)b];
    if (sorted_order[x->process] != sorted_order[y->process])
        return sorted_order[x->process] < sorted_order[y->process] ? -1 : 1;
    if (x->process != y->process)
        return x->process - y->process;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->name, y->name);
}

static bool lanes_sort(maker_t *m)
{
    madi_lanes_t *l = m->l;
    int *order = malloc((size_t)LANES * sizeof *order), *place = malloc((size_t)LANES * sizeof *place);
    madi_lane_t *lane = malloc((size_t)LANES * sizeof *lane);
    bool good = order && place && lane;
    for (int i = 0; good && i < l->lanes; i++)
        order[i] = i;
    sorted = l;
    sorted_order = m->order;
    if (good)
        qsort(order, (size_t)l->lanes, sizeof *order, by_process);
    for (int i = 0; good && i < l->lanes; i++) {
        lane[i] = l->lane[order[i]];
        place[order[i]] = i;
    }
    for (int i = 0; good && i < l->bars; i++)
        l->bar[i].lane = place[l->bar[i].lane];
    if (good) {
        memcpy(l->lane, lane, (size_t)l->lanes * sizeof *lane);
        qsort(l->bar, (size_t)l->bars, sizeof *l->bar, by_lane);
    }
    free(order);
    free(place);
    free(lane);
    return good;
}

/* ---- Visible part ----------------------------------------------------------------------------------------------- */

static void range_find(madi_lanes_t *l)
{
    l->first = INFINITY;
    l->last = -INFINITY;
    for (int round = 0; round < 2 && isinf(l->first); round++) /* waits count only if there are no other events */
        for (int i = 0; i < l->bars; i++) {
            if (!round && l->lane[l->bar[i].lane].kind == MADI_LANE_WAITS)
                continue;
            l->first = fmin(l->first, l->bar[i].begin);
            l->last = fmax(l->last, l->bar[i].end);
        }
    l->from = l->first;
    l->to = l->last > l->first ? l->last : l->first + 1;
}

static bool span_take(madi_lanes_t *l, const char *span, char *why)
{
    double from, to;
    char rest;
    if (!span)
        return true;
    if (sscanf(span, "%lf-%lf%c", &from, &to, &rest) == 2 && from >= 0 && to > from && from < l->last - l->first) {
        l->from = l->first + from;
        l->to = l->first + to;
        return true;
    }
    snprintf(why, MADI_INFO_WHY_MAX,
             "--span '%.60s' is not valid: give two numbers of microseconds from the first event on, such "
             "as 1000-2500; there are %.0f",
             span, l->last - l->first);
    return false;
}

/* Assign each bar to the first free row.  Bars outside the visible part are dropped. */
static void rows_find(madi_lanes_t *l)
{
    double end[MADI_LANE_ROWS];
    int n = 0, lane = -1;
    for (int i = 0; i < l->bars; i++) {
        madi_bar_t b = l->bar[i];
        madi_lane_t *at = &l->lane[b.lane];
        if (b.end < l->from || b.begin > l->to) {
            l->outside++;
            continue;
        }
        for (int row = 0; b.lane != lane && row < MADI_LANE_ROWS; row++)
            end[row] = -INFINITY;
        lane = b.lane;
        at->bars++;
        for (b.row = 0; b.row < MADI_LANE_ROWS && end[b.row] > b.begin; b.row++)
            ;
        if (b.row == MADI_LANE_ROWS) {
            b.row = -1;
            at->crowded++;
        } else {
            end[b.row] = b.end;
            if (at->rows <= b.row)
                at->rows = b.row + 1;
        }
        l->bar[n++] = b;
    }
    l->bars = n;
}

/* Return the number of lost events, of a single process or of all parts of a merged document. */
static double lost_of(const json_t *document)
{
    const json_t *other = json_object_get(document, "otherData"), *merged = json_object_get(other, "merged"), *part;
    double lost = madi_info_number(other, "events_lost");
    size_t i;
    json_array_foreach((json_t *)merged, i, part) lost += madi_info_number(part, "events_lost");
    return lost;
}

bool madi_lanes_make(const json_t *document, const char *span, madi_lanes_t *l, char *why)
{
    maker_t m = {.l = l};
    *l = (madi_lanes_t){.process = calloc(PROCESSES, sizeof *l->process), .lane = calloc(LANES, sizeof *l->lane)};
    snprintf(why, MADI_INFO_WHY_MAX, "out of memory");
    if (!l->process || !l->lane || !events_add(&m, json_object_get(document, "traceEvents")) || !lanes_sort(&m))
        goto fail;
    l->lost = lost_of(document);
    snprintf(why, MADI_INFO_WHY_MAX, "there is nothing to be drawn: the timeline has no events");
    if (!l->bars)
        goto fail;
    range_find(l);
    if (!span_take(l, span, why))
        goto fail;
    rows_find(l);
    return true;
fail:
    madi_lanes_fini(l);
    return false;
}

void madi_lanes_fini(madi_lanes_t *l)
{
    free(l->process);
    free(l->lane);
    free(l->bar);
}
