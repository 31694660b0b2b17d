/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: reports that belong to no pending call of the program. */
#ifndef MADI_EVENT_H
#define MADI_EVENT_H

#include "core/object/types.h"

void madi_event(mad_session_t *session, mad_status_t status, mad_peer_t peer, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool madi_event_take(mad_session_t *session, mad_event_t *event); /* take the oldest event out of the queue; false if there
                                                                   * is none */
void madi_events_free(mad_session_t *session);

#endif
