/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of threads that may move: one heap for all workers, so that whichever looks at the clock first makes a late
 * one ready, though the worker that it ran on computes.  (Those of others are in their worker's own heap.)
 *
 * A thread is in the heap only off its stack, when wakers can find it.  It sets `clocks` and switches; the thread that
 * arrives on the next stack runs the post-switch function that makes it known, then arms the timer and clears `clocks`.
 * It may go on elsewhere meanwhile, so the end of the wait waits for that.  The worker that takes it out of the heap
 * decides under the heap's lock whether it is late, and the end of the wait takes that lock: so a later wait is never
 * ended by mistake.
 *
 * Of the workers that sleep one sleeps only until the first deadline.  Why none is slept over: a worker that arms one
 * that is now the first, or is about to run a thread, looks which workers sleep and until when, and wakes one if need
 * be.  A worker that goes to sleep writes until when, then that it sleeps, then looks at the first deadline and at the
 * others.  All of that is sequentially consistent. */
#ifndef MADI_LATE_H
#define MADI_LATE_H

#include "marcel/sched.h"

#pragma GCC visibility push(hidden)

extern _Atomic(int64_t) madi_late_first; /* that is in the heap; MADI_NEVER */

/* By the thread, before the switch, with timer.deadline; and when it goes on. */
void madi_late_enter(madi_ult_t *self);
void madi_late_leave(madi_ult_t *self);

/* In that switch, by the thread (madi_switch_extra): the worker's post-switch function is also to arm the timer. */
void madi_late_switch(madi_ult_t *self);

/* On base: make those that are late ready, on this worker. */
void madi_late_run(madi_worker_t *worker, int64_t now);

/* True if there is a deadline, and none of the other workers sleeps only until then. */
bool madi_late_left_alone(madi_worker_t *worker);

/* The worker is about to run a thread, which may compute for long: if the first deadline is left alone, one that sleeps is
 * woken to look at the clock. */
void madi_late_elsewhere(madi_worker_t *worker);

#pragma GCC visibility pop

static inline int64_t madi_late_next(void)
{
    return atomic_load_explicit(&madi_late_first, memory_order_relaxed);
}

#endif
