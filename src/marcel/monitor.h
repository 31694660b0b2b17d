/* SPDX-License-Identifier: BSD-3-Clause */
/* The monitor: takes workers away from threads that block in system calls without a declaration (marcel_blocking_begin).
 *
 * A kernel thread of its own looks at the workers every MAD_MONITOR milliseconds, and sleeps while none runs anything.
 * For a worker that has not switched since the last look it reads in /proc the system call of its kernel thread, with
 * arguments and addresses.  If that is the same at two looks, and a call that a signal does not end (below), the kernel
 * thread gets a signal.
 *
 * The handler runs on the stuck kernel thread itself.  If that is in the middle of the very call, about to begin it anew,
 * the handler offers the worker to a spare kernel thread, as marcel_blocking_begin would have done.  The call goes on.
 * The thread stays on its kernel thread, like a plain pthread, until it next needs its worker (madi_ult_self), at the
 * latest at its end.  Then it goes back to the worker (madi_ult_reattach).
 *
 * So running code is interrupted only by a comparison.  Of libmarcel itself only the calls of fd.c on files block in such
 * calls with a worker at hand, and these read the worker again afterwards.
 *
 * Only calls are taken that begin anew after a signal, and have done nothing until they return.  Others would end early
 * (EINTR, a short count), which the program does not expect.  Their threads hold up the worker, as before. */
#ifndef MADI_MONITOR_H
#define MADI_MONITOR_H

#include "marcel/worker.h"

/* A system call as /proc shows it. */
typedef struct madi_call {
    long number;
    unsigned long args[6], sp, pc;
} madi_call_t;

#pragma GCC visibility push(hidden)

/* prepare: choose the signal, before the workers start.  start: after that; return 0 or an error number.  stop: before the
 * workers end. */
void madi_monitor_prepare(void);
int madi_monitor_start(void);
void madi_monitor_stop(void);

/* Signal that carriers do not block; 0 if there is no monitor. */
int madi_monitor_signal(void);
/* True if the monitor has a kernel thread now. */
bool madi_monitor_runs(void);

/* Workers taken away, so far. */
extern _Atomic(uint64_t) madi_monitor_retaken;

extern _Atomic(int) madi_monitor_asleep; /* a futex */
void madi_monitor_wake(void);

#pragma GCC visibility pop

/* By a scheduler, after it has set worker->current to a thread. */
static inline void madi_monitor_hint(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier of the monitor that goes to sleep */
    if (MADI_UNLIKELY(atomic_load_explicit(&madi_monitor_asleep, memory_order_relaxed)))
        madi_monitor_wake();
}

#endif
