/* SPDX-License-Identifier: BSD-3-Clause */
/* A timeline as lanes: what follows each other, or lies over each other, under one name in one process. */
#ifndef MAD_INFO_LANES_H
#define MAD_INFO_LANES_H

#include "tools/mad_info_trace.h"

#define MADI_LANE_ROWS 4 /* of what is at the same time */

/* In the order in which the lanes of a process stand. */
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
    int lane, row;     /* row -1: there is no room for it */
    int number;        /* of the message, block, or stream */
} madi_bar_t;

typedef struct madi_lane {
    int process; /* index */
    madi_lane_kind_t kind;
    char name[80], network[32];
    int rows, bars, crowded; /* crowded: bars for which there is no row */
} madi_lane_t;

typedef struct madi_lanes {
    char (*process)[100]; /* names */
    int processes;
    madi_lane_t *lane; /* by process and kind */
    int lanes;
    madi_bar_t *bar; /* by lane and beginning */
    int bars;
    int outside;     /* bars that are not in the span */
    double lost;     /* events that the processes had forgotten */
    double from, to; /* what is shown; us of the timeline */
    double first, last; /* what there is but threads that sleep */
} madi_lanes_t;

/* Of a process's document, or a merged one.  span: microseconds from the first event on, "FROM-TO", or NULL: all.  False:
 * why says why not. */
bool madi_lanes_make(const json_t *document, const char *span, madi_lanes_t *lanes, char *why);
void madi_lanes_fini(madi_lanes_t *lanes);

/* mad_info_picture.c: as a picture in that file; false: why not has been said. */
bool madi_lanes_draw(const madi_lanes_t *lanes, const char *name);

#endif
