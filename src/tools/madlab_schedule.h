/* SPDX-License-Identifier: BSD-3-Clause */
/* What is to happen to a lab while its command runs: SECONDS:ACTION:TARGET. */
#ifndef MADI_MADLAB_SCHEDULE_H
#define MADI_MADLAB_SCHEDULE_H

#include "tools/madlab_plan.h"

typedef enum madi_lab_action {
    MADI_LAB_CUT,
    MADI_LAB_RESTORE,
    MADI_LAB_THROTTLE,
    MADI_LAB_KILL,
    MADI_LAB_START
} madi_lab_action_t;

typedef struct madi_lab_event {
    double at; /* seconds from the start of the command */
    madi_lab_action_t action;
    const char *text;    /* as it was given, for messages */
    int net, port, host; /* -1: not that */
    char *process;       /* NULL: all of the host */
    int64_t rate; /* bytes in a second */
} madi_lab_event_t;

/* -1 when it has said what is wrong with the text. */
int madi_lab_event_parse(madi_lab_event_t *event, const madi_lab_plan_t *plan, const char *text);
/* By time; those of one time stay in the order in which they were given. */
void madi_lab_events_sort(madi_lab_event_t *events, int count);

#endif
