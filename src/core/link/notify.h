/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait for a condition of several objects of a session. */
#ifndef MADI_NOTIFY_H
#define MADI_NOTIFY_H

#include "core/object/session.h"

/* Wait for a condition of several objects: `test` is called after every event.  MAD_OK or MAD_ERR_TIMEOUT.  No lock held. */
mad_status_t madi_watch_for(mad_session_t *session, bool (*test)(void *arg), void *arg, int64_t deadline);
/* Wake the threads in madi_watch_for.  The caller may hold any lock except wait_lock. */
void madi_watchers_wake(mad_session_t *session);

#endif
