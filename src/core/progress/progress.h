/* SPDX-License-Identifier: BSD-3-Clause */
/* One round of progress.  Under session->lock unless a function says otherwise. */
#ifndef MADI_PROGRESS_H
#define MADI_PROGRESS_H

#include "core/driver.h"
#include "core/object/types.h"

#define MADI_LOOK_AROUND 1024 /* number of busy rounds between two polls of everything */
#define MADI_EPOLL_EVERY 256  /* number of empty rounds between two polls of the descriptors */
/* Deliver up to budget packets of an adapter whose pure_poll has returned true.  Several short packets are taken at
 * once.  Return the number of packets. */
int madi_poll_hit_adapter(mad_session_t *session, madi_adapter_t *adapter, int budget);
int madi_progress_locked(mad_session_t *session);       /* run one round of progress; return the number of events */
int madi_progress_after(mad_session_t *session, int n); /* end a round after the adapters' polls, which handled n events */
int madi_look_around(mad_session_t *session);           /* poll every adapter and descriptor */
void madi_rare_ready(madi_watch_t *watch, uint32_t events); /* callback of session->rare, which the accept thread shares */
bool madi_pure_poll(mad_session_t *session);                /* true if a poll may find something; called without locks */

#endif
