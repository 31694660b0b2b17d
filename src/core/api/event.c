/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: the program reads them. */
#include "core/driver.h"
#include "core/link/event.h"
#include "core/link/usable.h"

#include <stdlib.h>

mad_status_t mad_event_next(mad_session_t *session, mad_event_t *event)
{
    madi_event_node_t *node;
    if (madi_session_usable(session))
        return MAD_ERR_FORKED;
    mad_progress(session);
    madi_lock(&session->work_lock);
    node = session->events;
    if (node) {
        session->events = node->next;
        session->n_events--;
        if (!session->events)
            session->events_tail = &session->events;
    }
    madi_unlock(&session->work_lock);
    if (!node)
        return MAD_ERR_AGAIN;
    *event = node->event;
    free(node);
    return MAD_OK;
}
