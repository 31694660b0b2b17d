/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline as lanes.  A lane has the events of one name in one process.  The picture draws a lane as one row, or as
 * several rows if its events overlap. */
#ifndef MAD_INFO_LANES_H
#define MAD_INFO_LANES_H

#include "tools/mad_info_trace.h"

#define MADI_LANE_ROWS 4 /* maximum number of rows of a lane, for overlapping events */

/* Kinds of lanes, in the order in which a process's lanes are drawn. */
typedef enum madi_lane_kind {
    MADI_LANE_MESSAGES,
    MADI_LANE_BLOCKS,
    MADI_LANE_PIECES,
    MADI_LANE_FRAGMENTS_IN,
    MADI_LANE_HELD,
    MADI_LANE_FRAGMENTS_OUT,
    MADI_LANE_STALLS,
    MADI_LANE_WAITS,
    MADI_LANE_KINDS
} madi_lane_kind_t;

typedef struct madi_bar {
    double begin, end; /* us of the timeline */
    double bytes;
    int lane, row; /* row of the lane; -1 if no row was free */
    int number;    /* number of the message, block or stream */
} madi_bar_t;

typedef struct madi_lane {
    int process; /* index */
    madi_lane_kind_t kind;
    char name[80], network[32];
    int rows, bars, crowded; /* crowded: number of bars for which no row was free */
} madi_lane_t;

typedef struct madi_lanes {
    char (*process)[100]; /* names */
    int processes;
    madi_lane_t *lane; /* lanes, sorted by process and kind */
    int lanes;
    madi_bar_t *bar; /* bars, sorted by lane and beginning */
    int bars;
    int outside;        /* bars outside the span */
    double lost;        /* number of events that the processes had already overwritten */
    double from, to;    /* visible part of the timeline in us */
    double first, last; /* extent of all events except waits */
} madi_lanes_t;

/* Make the lanes of a process's document, or of a merged one. span: "FROM-TO" in microseconds from the first event;
 * NULL for everything.  Return false on failure; `why` gives the reason. */
bool madi_lanes_make(const json_t *document, const char *span, madi_lanes_t *lanes, char *why);
void madi_lanes_fini(madi_lanes_t *lanes);

/* mad_info_picture.c: draw the lanes into a file; false on failure, which was reported. */
bool madi_lanes_draw(const madi_lanes_t *lanes, const char *name);

#endif
