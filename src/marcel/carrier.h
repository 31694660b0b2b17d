/* SPDX-License-Identifier: BSD-3-Clause */
/* Carriers: the kernel threads that run workers, and those in reserve.
 *
 * A thread that declares a blocking call keeps the kernel thread on which it is.  It hands the worker, with all its
 * queues, to a spare one, which the kernel runs on the same core as soon as the first one blocks.  Afterwards the thread
 * takes the worker back if the spare one has not come to it.  Else it goes to the worker's inbox like a woken thread, and
 * its kernel thread is a spare one from then on.  So one kernel thread at a time carries a worker, and there are as many
 * kernel threads as workers and simultaneous blocking calls.
 *
 * The hand-over is one word of the spare carrier, `offer`, with the number of the kernel thread that offers.  The thread
 * that changes it to 0 has the worker.  The worker's number would not do: while the first call goes on, another kernel
 * thread may offer the same worker to the same spare one.  All that the worker alone touches is passed on by that word.
 *
 * A call that was not declared is handed over by the monitor (monitor.h) in the same way. */
#ifndef MADI_CARRIER_H
#define MADI_CARRIER_H

#include "marcel/monitor.h"
#include "marcel/worker.h"

#include <pthread.h>

/* Values that a worker's scheduler changes at each switch. */
typedef struct madi_beat {
    const madi_ult_t *current;
    uint64_t periods;
    uint32_t tick;
} madi_beat_t;

enum madi_retake { MADI_RETAKE_NONE, MADI_RETAKE_ASKED, MADI_RETAKE_NOW };

typedef struct madi_carrier {
    madi_worker_t orphan_worker;    /* of a thread that comes back from a call and has no worker; only `post` is used */
    madi_ult_t base;                /* the scheduler's context on this kernel thread's own stack */
    madi_ult_t *blocked;            /* the thread that keeps this kernel thread for a blocking call; NULL if none */
    unsigned depth;                 /* of nested blocking calls */
    bool detached_in_syscall;       /* in an undeclared call: the thread comes back when it next needs its worker */
    struct madi_carrier *successor; /* to which the worker was offered last; not in the list of spares; NULL if none */
    struct madi_carrier *spare;     /* the next in the list of spares */
    struct madi_carrier *all;       /* the next in the list of all */
    pthread_t kernel_thread;
    int place;                        /* the worker to whose place this kernel thread is bound; -1 if none */
    unsigned number;                  /* of this kernel thread */
    madi_worker_t *offered;           /* the worker; written by the kernel thread that offers */
    _Atomic(madi_worker_t *) carries; /* read by the monitor; NULL: it is spare, or its thread is in a declared call */
    int tid;
    void *signal_stack;
    /* Owned by the monitor, except while `retake` is not NONE. */
    madi_call_t stuck_in, last;
    madi_beat_t beat;
    int n_same;
    struct madi_carrier *spare_prealloc;       /* the next successor, since a signal handler cannot make one */
    atomic_uint retake;                        /* enum madi_retake */
    _Alignas(2 * MADI_LINE) atomic_uint offer; /* a futex: 0, a kernel thread's number, or a value below */
} madi_carrier_t;

#define MADI_CARRIER_STOP (~0u)  /* the kernel thread is to end */
#define MADI_CARRIER_FIRST (~1u) /* its first worker, which no other carried before */

#pragma GCC visibility push(hidden)

/* Make a kernel thread for this worker.  Return 0 or an error number. */
int madi_carrier_start(madi_worker_t *worker);
/* For the monitor: the list of all carriers, linked by `all`; a spare carrier, made if need be, or NULL. */
madi_carrier_t *madi_carriers_all(void);
madi_carrier_t *madi_carrier_spare(void);
/* Carrier of the calling kernel thread; NULL if it is none. */
madi_carrier_t *madi_carrier_self(void);
/* In a signal handler that interrupted a system call of the carrier's thread: offer the worker to carrier->spare_prealloc.
 * False if there is no worker, or if it runs no thread. */
bool madi_carrier_detach_in_syscall(madi_carrier_t *carrier);

/* True in the child of a fork by a plain pthread: the carriers run in the parent only. */
bool madi_carriers_left_behind(void);

/* Wait for the end of all kernel threads.  All workers have been closed before. */
void madi_carriers_stop(void);

#pragma GCC visibility pop

#endif
