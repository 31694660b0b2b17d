/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of threads that may move: one heap for all workers.  The worker that looks at the clock first makes an expired
 * thread ready, though the worker on which it ran computes.  (Other threads are in the heap of their worker.)
 *
 * A thread is in the heap only off its stack, when wakers can find it.  It sets `clocks` and switches.  The thread that
 * arrives on the next stack runs the post-switch function that makes the first one known, then arms the timer and clears
 * `clocks`.  The first thread may go on elsewhere meanwhile, so the end of its wait waits for that.
 *
 * The worker that takes a thread out of the heap decides under the heap's lock whether it has expired, and the end of the
 * wait takes that lock: so a later wait is never ended by mistake.
 *
 * Of the workers that sleep one sleeps only until the first deadline.  Why no deadline is missed: a worker that arms a new
 * first deadline, or is about to run a thread, looks which workers sleep and until when, and wakes one if need be.  A
 * worker that goes to sleep writes its `until`, then that it sleeps, then looks at the first deadline and at the others.
 * All of that is sequentially consistent. */
#ifndef MADI_TIMER_SHARED_H
#define MADI_TIMER_SHARED_H

#include "marcel/sched.h"

#pragma GCC visibility push(hidden)

extern _Atomic(int64_t) madi_timer_shared_first; /* deadline (madi_now's ns) of the heap; MADI_NEVER if it is empty */

/* Called by the thread before the switch, with timer.deadline set; and when it goes on. */
void madi_timer_shared_enter(madi_ult_t *self);
void madi_timer_shared_leave(madi_ult_t *self);

/* Have the worker's post-switch function arm the timer, too; called by the thread in that switch (madi_switch_extra). */
void madi_timer_shared_switch(madi_ult_t *self);

/* Make expired threads ready on this worker; called on its base. */
void madi_timer_shared_run(madi_worker_t *worker, int64_t now);

/* True if there is a deadline, and none of the other workers sleeps only until then. */
bool madi_timer_shared_left_alone(madi_worker_t *worker);

/* Wake a sleeping worker to look at the clock if the first deadline is left alone.  Called by a worker that is about to run
 * a thread, which may compute for long. */
void madi_timer_shared_elsewhere(madi_worker_t *worker);

#pragma GCC visibility pop

static inline int64_t madi_timer_shared_next(void)
{
    return atomic_load_explicit(&madi_timer_shared_first, memory_order_relaxed);
}

#endif
