/* SPDX-License-Identifier: BSD-3-Clause */
/* The slow ways of marcel_join: to wait for a thread that has started, and from a plain pthread. */
#ifndef MADI_JOIN_H
#define MADI_JOIN_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Wait until it has ended, a point of cancellation.  The caller, self, is then the only thread that may name it. 0,
 * EINVAL (detached, or joined by another), ETIMEDOUT, ECANCELED; but for 0 all is as before. */
int madi_join_wait(madi_party_t *self, struct marcel_thread *thread, int64_t deadline);

#pragma GCC visibility pop

#endif
