/* SPDX-License-Identifier: BSD-3-Clause */
/* The monitor: takes workers away from threads that block in system calls without a declaration (marcel_blocking_begin).
 *
 * The monitor is a kernel thread of its own.  The monitor checks the workers every MAD_MONITOR milliseconds, and sleeps
 * while no worker runs a thread.  If a worker has not switched since the last check, the monitor reads from /proc the system
 * call of its kernel thread, with arguments and addresses.  If two checks find the same call, and a signal does not end that
 * call (below), the monitor sends the kernel thread a signal.
 *
 * The handler runs on the stuck kernel thread itself.  If that thread is still in the same call, the handler offers the
 * worker to a spare kernel thread, as marcel_blocking_begin would have done.  The kernel restarts the call.  The user-level
 * thread stays on its kernel thread, like a plain pthread, until it next needs its worker (madi_ult_self), at the latest at
 * its end.  At that moment the thread returns to the worker (madi_ult_reattach).
 *
 * So running code is interrupted only for a comparison.  In libmarcel itself, only the calls of fd.c on files block in
 * these system calls while they hold a pointer to their worker, and they read that pointer again afterwards.
 *
 * The monitor only interrupts calls that the kernel restarts after a signal, and that have no effect until they return.
 * Other calls would end early (EINTR, a short count), which the program does not expect.  Threads in such calls go on
 * to block the worker. */
#ifndef MADI_MONITOR_H
#define MADI_MONITOR_H

#include "marcel/worker.h"

/* A system call, as read from /proc. */
typedef struct madi_call {
    long number;
    unsigned long args[6], sp, pc;
} madi_call_t;

#pragma GCC visibility push(hidden)

/* Start and stop the monitor.  prepare: choose the signal, before the workers start.  start: after the workers have
 * started; return 0 or an error number.  stop: before the workers end. */
void madi_monitor_prepare(void);
int madi_monitor_start(void);
void madi_monitor_stop(void);

/* Signal that carriers do not block; 0 if there is no monitor. */
int madi_monitor_signal(void);
/* True if the monitor's kernel thread exists now. */
bool madi_monitor_runs(void);

/* Workers taken away, so far. */
extern _Atomic(uint64_t) madi_monitor_retaken;

extern _Atomic(int) madi_monitor_asleep; /* a futex */
void madi_monitor_wake(void);

#pragma GCC visibility pop

/* Wake the monitor if it sleeps.  Called by a scheduler after it has set worker->current to a thread. */
static inline void madi_monitor_hint(void)
{
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the barrier that the monitor executes before it sleeps */
    if (MADI_UNLIKELY(atomic_load_explicit(&madi_monitor_asleep, memory_order_relaxed)))
        madi_monitor_wake();
}

#endif
