/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow paths of marcel_join: for a thread that has started, and for joins by a plain pthread. */
#ifndef MADI_JOIN_H
#define MADI_JOIN_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Wait until the thread has ended; a cancellation point.  Afterwards only the caller, self, may use the handle.  Return
 * 0, EINVAL (detached, or joined by another), ETIMEDOUT, or ECANCELED; on an error nothing has changed. */
int madi_join_wait(madi_party_t *self, struct marcel_thread *thread, int64_t deadline);

#pragma GCC visibility pop

#endif
