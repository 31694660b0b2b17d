/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: reports that belong to no pending call of the program. */
#include "base/log.h"
#include "core/driver.h"
#include "core/link/event.h"
#include "core/object/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 1024 /* maximum number of events that are kept; further events are only logged */

struct madi_event_node {
    struct madi_event_node *next;
    mad_event_t event;
};

void madi_event(mad_session_t *session, mad_status_t status, mad_peer_t peer, const char *format, ...)
{
    struct madi_event_node *node = calloc(1, sizeof *node);
    va_list args;
    char text[sizeof node->event.text];

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    madi_log(MADI_LOG_INFO, "event", "%s", text);
    if (!node)
        return;
    node->event = (mad_event_t){.status = status, .peer = peer};
    madi_escape(node->event.text, sizeof node->event.text, text, strlen(text)); /* the program may print it */
    madi_lock(&session->work_lock);
    if (session->link.n_events < EVENTS_MAX) {
        *session->link.events_tail = node;
        session->link.events_tail = &node->next;
        session->link.n_events++;
        node = NULL;
    }
    madi_unlock(&session->work_lock);
    free(node);
}

bool madi_event_take(mad_session_t *session, mad_event_t *event)
{
    struct madi_event_node *node;
    madi_lock(&session->work_lock);
    node = session->link.events;
    if (node) {
        session->link.events = node->next;
        session->link.n_events--;
        if (!session->link.events)
            session->link.events_tail = &session->link.events;
    }
    madi_unlock(&session->work_lock);
    if (node)
        *event = node->event;
    free(node);
    return node != NULL;
}

void madi_events_free(mad_session_t *session)
{
    for (struct madi_event_node *node; (node = session->link.events); free(node))
        session->link.events = node->next;
}
