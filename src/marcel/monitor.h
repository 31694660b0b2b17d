/* SPDX-License-Identifier: BSD-3-Clause */
/* The monitor: takes workers away from threads that block in system calls without having said so (marcel_enter_blocking).
 *
 * A kernel thread of its own looks at the workers every MAD_MONITOR milliseconds, and sleeps while none runs anything.
 * A worker that has not switched since the last look is looked up in /proc: which system call is its kernel thread in,
 * with which arguments, from where?  If it is the same at two looks, and one that a signal does not end (below), the
 * kernel thread gets a signal.  The handler, on the stuck kernel thread itself, compares: if it is in the middle of
 * that very call, about to begin it anew, it offers the worker to a spare kernel thread, just as marcel_enter_blocking
 * would have done.  The call goes on; the thread lodges on its kernel thread, as a plain pthread would, until it next
 * asks for its worker (madi_ult_self), at the latest at its end: then it goes home.
 *
 * So no code that runs is interrupted but by a comparison; and nothing of libmarcel itself blocks in one of these calls with
 * a worker at hand, but for the calls of fd.c on files, which ask anew afterwards.
 *
 * Only calls are taken that begin anew after a signal, and have done nothing until they return: others would end early
 * (EINTR, a short count), which the program does not expect.  Their threads hold up the worker, as before. */
#ifndef MADI_MONITOR_H
#define MADI_MONITOR_H

#include "marcel/worker.h"

/* A system call as /proc tells it. */
typedef struct madi_call {
    long number;
    unsigned long args[6], sp, pc;
} madi_call_t;

#pragma GCC visibility push(hidden)

/* Before the workers start: choose the signal; and when they have: 0 or an error number.  stop: before they end. */
void madi_monitor_prepare(void);
int madi_monitor_start(void);
void madi_monitor_stop(void);

/* The signal that carriers let through; 0: there is no monitor. */
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
