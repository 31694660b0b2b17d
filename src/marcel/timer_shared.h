/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines of threads that may move: one heap for all workers.  The first worker that checks the clock makes an
 * expired thread ready, even if the worker on which that thread ran computes.  (Other threads are in the heap of their
 * worker.)
 *
 * A thread is in the heap only after it has left its stack, when wakers can find the thread.  The thread sets `clocks`
 * and switches.  The next thread runs the post-switch function, which makes the first thread visible, then arms the
 * timer and clears `clocks`.  The first thread may already run elsewhere, so at the end of its wait it waits until
 * `clocks` is cleared.
 *
 * The worker that takes a thread out of the heap decides under the heap's lock whether the thread has expired.  The end
 * of the wait takes the same lock, so a later wait is never ended by mistake.
 *
 * One of the sleeping workers sleeps only until the first deadline.  Why no deadline is missed: a worker that arms a
 * new first deadline, or is about to run a thread, checks which workers sleep and until when, and wakes one if
 * necessary.  A worker that goes to sleep writes its `until`, then announces its sleep, then checks the first deadline
 * and the other workers.  All these accesses are sequentially consistent. */
#ifndef MADI_TIMER_SHARED_H
#define MADI_TIMER_SHARED_H

#include "marcel/sched.h"

#pragma GCC visibility push(hidden)

/* first deadline (madi_now's ns) of the heap; MADI_NEVER if the heap is empty */
extern _Atomic(int64_t) madi_timer_shared_first;

/* Bracket a wait with a deadline.  enter: called by the thread before the switch, with timer.deadline set.  leave: called
 * when the thread runs again. */
void madi_timer_shared_enter(madi_ult_t *self);
void madi_timer_shared_leave(madi_ult_t *self);

/* Make the worker's post-switch function arm the timer, too.  Called by the thread in that switch (madi_switch_extra). */
void madi_timer_shared_switch(madi_ult_t *self);

/* Make expired threads ready on this worker.  Called on the stack of the worker's scheduler. */
void madi_timer_shared_run(madi_worker_t *worker, int64_t now);

/* True if there is a deadline at which no other sleeping worker will wake. */
bool madi_timer_shared_left_alone(madi_worker_t *worker);

/* Wake a sleeping worker to wait for the first deadline, if no other worker does.  Called by a worker that is about to
 * run a thread, which may compute for long. */
void madi_timer_shared_elsewhere(madi_worker_t *worker);

#pragma GCC visibility pop

static inline int64_t madi_timer_shared_next(void)
{
    return atomic_load_explicit(&madi_timer_shared_first, memory_order_relaxed);
}

#endif
