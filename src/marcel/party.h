/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain pthreads that wait: what madi_block and madi_wake do for them, and the futex calls. */
#ifndef MADI_PARTY_H
#define MADI_PARTY_H

#include "marcel/waitq.h"

#pragma GCC visibility push(hidden)

/* As madi_block and madi_wake (sched.h), for a party that is a plain pthread; kind is MADI_WAIT_TIMED, or MADI_WAIT_OPEN as
 * madi_block_point.  queue NULL: only the clock or a cancel ends it. */
int madi_party_block(madi_party_t *party, madi_waitq_t *queue, int64_t deadline, unsigned kind);
void madi_party_wake(madi_party_t *party);

/* For what is no queue: woken is 0, and wait is set, before anybody can know of the party.  As madi_wait_end (sched.h). */
int madi_party_sleep_until(madi_party_t *party, int64_t deadline);

/* Wait while *word is value; ETIMEDOUT after the deadline (MADI_NEVER: none), else 0, for whatever reason. */
int madi_futex_wait(atomic_uint *word, unsigned value, int64_t deadline);
void madi_futex_wake(atomic_uint *word);

#pragma GCC visibility pop

#endif
