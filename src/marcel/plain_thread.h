/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits of plain pthreads: what madi_block and madi_wake do for them, and the futex calls. */
#ifndef MADI_PLAIN_THREAD_H
#define MADI_PLAIN_THREAD_H

#include "marcel/waitq.h"

#pragma GCC visibility push(hidden)

/* Like madi_block and madi_wake (sched.h), but for a party that is a plain pthread.  kind: MADI_WAIT_TIMED;
 * MADI_WAIT_OPEN for a cancellation point, as in madi_block_point.  queue: NULL if only the clock or a cancel ends the
 * wait. */
int madi_plain_thread_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline, unsigned kind);
void madi_plain_thread_wake(madi_party_t *party);

/* Let the plain pthread of this party sleep; the party is in no queue.  Before another thread can find the party, the
 * caller has cleared `woken` and set `wait`.  Return as madi_wait_end (sched.h) does. */
int madi_plain_thread_sleep_until(madi_party_t *party, int64_t deadline);

/* Wait while *word equals value.  Return ETIMEDOUT after the deadline (MADI_NEVER if none), else 0.  May return 0 without
 * a reason. */
int madi_futex_wait(atomic_uint *word, unsigned value, int64_t deadline);
void madi_futex_wake(atomic_uint *word);

#pragma GCC visibility pop

#endif
