/* SPDX-License-Identifier: BSD-3-Clause */
/* Carriers: the kernel threads that run workers, and those in reserve.
 *
 * A thread that declares a blocking call keeps the kernel thread on which it is, and hands the worker, with all its queues,
 * to a spare one, which the kernel runs on the same core as soon as the first one blocks.  Afterwards the thread takes the
 * worker back if the spare one has not come to it; else it goes to the worker's inbox like one that was woken, and its
 * kernel thread is a spare one from then on.  So a worker is carried by one kernel thread at any time, and there are as
 * many kernel threads as workers and blocking calls at the same time.
 *
 * The hand-over is one word of the spare one, `offer`: who changes it from the number of who offers to 0 has the worker.
 * That is the number of a kernel thread, since the same worker may be offered to the same spare one again, by another, while
 * the first call goes on.  All that the worker alone touches is passed on by that word. */
#ifndef MADI_CARRIER_H
#define MADI_CARRIER_H

#include "marcel/worker.h"

#include <pthread.h>

typedef struct madi_carrier {
    madi_worker_t limbo;    /* where a thread is that comes back from a call and has no worker: only `post` counts */
    madi_ult_t base;        /* the scheduler's context on this kernel thread's own stack */
    madi_ult_t *blocked;    /* the thread that has kept it for a blocking call; NULL: none has */
    unsigned depth;         /* such calls one inside the other */
    struct madi_carrier *heir;  /* to whom the worker was offered last; not in the list of spare ones; NULL: none */
    struct madi_carrier *spare; /* the next in that list */
    struct madi_carrier *all;   /* the next of all */
    pthread_t kernel_thread;
    int place;              /* the worker to whose place it is bound; -1: to none */
    unsigned number;        /* of this kernel thread */
    madi_worker_t *offered; /* the worker; written by who offers */
    _Alignas(2 * MADI_LINE) atomic_uint offer; /* a futex: 0, the number of who offers, or a value below */
} madi_carrier_t;

#define MADI_CARRIER_STOP (~0u)  /* end */
#define MADI_CARRIER_FIRST (~1u) /* its first worker, which nobody had */

#pragma GCC visibility push(hidden)

/* A new kernel thread for this worker.  0 or an error number. */
int madi_carrier_start(madi_worker_t *worker);
/* All workers have been closed: wait for the end of all kernel threads. */
void madi_carriers_stop(void);

#pragma GCC visibility pop

#endif
