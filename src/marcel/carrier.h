/* SPDX-License-Identifier: BSD-3-Clause */
/* Carriers: the kernel threads that run workers, and the spare ones in reserve.
 *
 * A thread that declares a blocking call keeps the kernel thread on which it runs.  The thread hands the worker, with all
 * its queues, to a spare carrier, which the kernel runs on the same core as soon as the first kernel thread blocks.  After
 * the call, the thread takes the worker back if the spare carrier has not taken it yet.  Otherwise the thread goes to the
 * worker's inbox like a woken thread, and its kernel thread becomes a spare carrier.  So one kernel thread at a time carries
 * a worker, and the number of kernel threads is that of the workers plus that of simultaneous blocking calls.
 *
 * The hand-over uses one word of the spare carrier, `offer`, with the number of the kernel thread that offers its worker.
 * The thread that changes the word to 0 has the worker.  The worker's number would not be enough: while the first call
 * lasts, another kernel thread may offer the same worker to the same spare carrier.  The accesses to `offer` also order
 * all data that only the worker touches.
 *
 * For a blocking call that was not declared, the monitor (monitor.h) hands the worker over in the same way. */
#ifndef MADI_CARRIER_H
#define MADI_CARRIER_H

#include "marcel/monitor.h"
#include "marcel/worker.h"

#include <pthread.h>

/* Counters of a worker's scheduler that change at each switch. */
typedef struct madi_beat {
    const madi_ult_t *current;
    uint64_t periods;
    uint32_t tick;
} madi_beat_t;

enum madi_retake { MADI_RETAKE_NONE, MADI_RETAKE_ASKED, MADI_RETAKE_NOW };

typedef struct madi_carrier {
    madi_worker_t orphan_worker; /* the worker of a thread that returns from a call and has no worker; only `post` is used */
    madi_ult_t base;             /* the scheduler's context on this kernel thread's own stack */
    madi_ult_t *blocked;         /* the thread that occupies this kernel thread during a blocking call; NULL if none */
    unsigned depth;              /* depth of nested blocking calls */
    bool detached_in_syscall;    /* the thread made an undeclared call, and returns to its worker when it next needs one */
    /* carrier to which the worker was offered last; not in the list of spares; NULL if none */
    struct madi_carrier *successor;
    struct madi_carrier *spare; /* the next in the list of spares */
    struct madi_carrier *all;   /* the next in the list of all */
    pthread_t kernel_thread;
    int place;              /* number of the worker to whose place this kernel thread is bound; -1 if none */
    unsigned number;        /* number of this kernel thread */
    madi_worker_t *offered; /* the worker on offer; written by the kernel thread that offers it */
    /* the worker that the carrier runs, for the monitor; NULL if the carrier is spare, or its thread is in a declared
     * call */
    _Atomic(madi_worker_t *) carries;
    int tid;
    void *signal_stack;
    /* Owned by the monitor, except while `retake` is not NONE. */
    madi_call_t stuck_in, last;
    madi_beat_t beat;
    int n_same;
    /* the next successor, created in advance, since a signal handler cannot create one */
    struct madi_carrier *spare_prealloc;
    atomic_uint retake;                        /* enum madi_retake */
    _Alignas(2 * MADI_LINE) atomic_uint offer; /* futex: 0, the number of a kernel thread, or one of the values below */
} madi_carrier_t;

#define MADI_CARRIER_STOP (~0u)  /* value of `offer`: the kernel thread must end */
#define MADI_CARRIER_FIRST (~1u) /* value of `offer`: the carrier's first worker, which no other carrier has run before */

#pragma GCC visibility push(hidden)

/* Create a kernel thread that carries this worker.  Return 0 or an error number. */
int madi_carrier_start(madi_worker_t *worker);
/* For the monitor.  Return the list of all carriers, linked by `all`; return a spare carrier, created if necessary, or
 * NULL. */
madi_carrier_t *madi_carriers_all(void);
madi_carrier_t *madi_carrier_spare(void);
/* Carrier of the calling kernel thread; NULL if that is no carrier. */
madi_carrier_t *madi_carrier_self(void);
/* Offer the worker to carrier->spare_prealloc.  Called in a signal handler that interrupted a system call of the
 * carrier's thread.  Return false if there is no worker, or if the worker runs no thread. */
bool madi_carrier_detach_in_syscall(madi_carrier_t *carrier);

/* True in the child of a fork by a plain pthread: the carriers run in the parent only. */
bool madi_carriers_left_behind(void);

/* Wait until all kernel threads have ended.  All workers must have been closed before. */
void madi_carriers_stop(void);

#pragma GCC visibility pop

#endif
