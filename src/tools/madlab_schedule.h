/* SPDX-License-Identifier: BSD-3-Clause */
/* Actions on a lab while its command runs, in the form SECONDS:ACTION:TARGET. */
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
    double at; /* seconds since the start of the command */
    madi_lab_action_t action;
    const char *text;    /* text of the event as given, for messages */
    int net, port, host; /* -1: not part of the target */
    char *process;       /* NULL: the whole host */
    int64_t rate;        /* bytes per second */
} madi_lab_event_t;

/* Parse an action.  Return -1 if the text is invalid, which was reported. */
int madi_lab_event_parse(madi_lab_event_t *event, const madi_lab_plan_t *plan, const char *text);
/* Sort by time; actions of equal time keep their order. */
void madi_lab_events_sort(madi_lab_event_t *events, int count);

#endif
