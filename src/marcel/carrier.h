/* SPDX-License-Identifier: BSD-3-Clause */
/* Carriers: the kernel threads that run workers, and those in reserve.
 *
 * A thread that declares a blocking call keeps the kernel thread on which it is, and hands the worker, with all its queues,
 * to a spare one, which the kernel runs on the same core as soon as the first one blocks.  Afterwards the thread takes the
 * worker back if the spare one has not come to it; else it goes to the worker's inbox like one that was woken, and its
 * kernel thread is a spare one from then on.  So a worker is carried by one kernel thread at any time, and there are as
 * many kernel threads as workers and blocking calls at the same time.
 *
 * The hand-over is one word of the spare one, `offer`, with the number of the kernel thread that offers.  The thread
 * that changes it to 0 has the worker.  The number is that of a kernel thread, since the same worker may be offered to
 * the same spare one again, by another, while the first call goes on.  All that the worker alone touches is passed on
 * by that word.
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
    madi_worker_t limbo;    /* where a thread is that comes back from a call and has no worker: only `post` counts */
    madi_ult_t base;        /* the scheduler's context on this kernel thread's own stack */
    madi_ult_t *blocked;    /* the thread that has kept it for a blocking call; NULL: none has */
    unsigned depth;         /* such calls one inside the other */
    bool lodged;            /* an undeclared call: the thread comes back when it next asks for its worker */
    struct madi_carrier *heir;  /* to whom the worker was offered last; not in the list of spare ones; NULL: none */
    struct madi_carrier *spare; /* the next in that list */
    struct madi_carrier *all;   /* the next of all */
    pthread_t kernel_thread;
    int place;              /* the worker to whose place it is bound; -1: to none */
    unsigned number;        /* of this kernel thread */
    madi_worker_t *offered; /* the worker; written by the kernel thread that offers */
    _Atomic(madi_worker_t *) carries; /* for the monitor; NULL: it is spare, or its thread is in a declared call */
    int tid;
    void *signal_stack;
    /* Of the monitor, but while `retake` is not NONE. */
    madi_call_t stuck_in, last;
    madi_beat_t beat;
    int n_same;
    struct madi_carrier *gift; /* for the next heir, since a handler cannot make one */
    atomic_uint retake;     /* enum madi_retake */
    _Alignas(2 * MADI_LINE) atomic_uint offer; /* a futex: 0, the number of the kernel thread that offers, or a value below */
} madi_carrier_t;

#define MADI_CARRIER_STOP (~0u)  /* end */
#define MADI_CARRIER_FIRST (~1u) /* its first worker, which nobody had */

#pragma GCC visibility push(hidden)

/* A new kernel thread for this worker.  0 or an error number. */
int madi_carrier_start(madi_worker_t *worker);
/* For the monitor: all carriers, linked by `all`; a spare one, or NULL. */
madi_carrier_t *madi_carriers_all(void);
madi_carrier_t *madi_carrier_spare(void);
/* That of the calling kernel thread; NULL: it is none. */
madi_carrier_t *madi_carrier_self(void);
/* In a handler, in the middle of a system call of the thread's own: offer its worker to carrier->gift.  False: it has none,
 * or runs no thread. */
bool madi_carrier_lodge(madi_carrier_t *carrier);

/* This is the child of a fork by a plain pthread: they run in the parent, and not here. */
bool madi_carriers_left_behind(void);

/* All workers have been closed: wait for the end of all kernel threads. */
void madi_carriers_stop(void);

#pragma GCC visibility pop

#endif
