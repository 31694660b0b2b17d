/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of threads: the record that a marcel_t points to, the party that waits, and the control block.
 *
 *   struct marcel_thread   64 bytes from a pool.  marcel_create makes it (a seed: function and argument), marcel_join
 *                          takes the result from it.  The record lives as long as another thread may name its thread.
 *   madi_ult_t             the control block of a started user-level thread, at the top of its slot (slot.h).  It lives
 *                          as long as the thread runs.
 *   madi_party_t           any thread that can wait: the first part of a control block, or the record of a plain pthread
 *                          (plain_thread.c).
 *
 * Memory of pools and slots is never freed while the library is in use.  So a pointer to one of these objects always
 * points to an object of the same type, in use or not.  Stale hints (deque.h) rely on this. */
#ifndef MADI_THREAD_H
#define MADI_THREAD_H

#include "base/base.h"
#include "marcel/cxx.h"
#include "marcel/switch.h"
#include "marcel/timer.h"
#include "marcel/sanitizer.h"

#include <unwind.h>

struct madi_worker;
struct madi_keys;
struct marcel_cleanup;

/* ---- The record ----------------------------------------------------------------------------------------------- */

enum madi_thread_state {
    MADI_SEED = 1, /* no worker has taken it: a compare-and-swap changes it to TAKEN, and the winner starts the thread */
    MADI_TAKEN,    /* the thread starts, runs, or has ended: see `joiner` */
    MADI_GONE      /* the record is in a pool */
};

/* Values of `joiner` that are not a party. */
#define MADI_JOINER_NONE ((uintptr_t)0)
#define MADI_JOINER_ENDED ((uintptr_t)1)    /* the thread has ended, and has not been joined yet */
#define MADI_JOINER_DETACHED ((uintptr_t)2) /* the thread cannot be joined: its record returns to a pool at its end */

struct marcel_thread {
    void *(*run)(void *);
    void *value;                    /* the argument; after the end of the thread, its result */
    _Atomic(uintptr_t) joiner;      /* a party that waits in marcel_join, or one of the values above */
    _Atomic(struct madi_ult *) ult; /* control block of the thread while it runs */
    uintptr_t link;                 /* link in a pool, or in an inbox (inbox.h) */
    struct madi_traits *traits;     /* set by attributes and marcel_setname; NULL if none */
    atomic_uint state;
    atomic_uint cancel; /* cancel.h */
};

/* True if the thread was joined, or has ended detached, and its record has not been reused yet. */
static inline bool madi_gone(const struct marcel_thread *thread)
{
    return atomic_load_explicit(&((struct marcel_thread *)thread)->state, memory_order_relaxed) == MADI_GONE;
}

/* ---- Threads that can wait ------------------------------------------------------------------------------------ */

/* State of a wait.  A wait that only a wake can end stays PLAIN.  A wait that the clock may end begins as TIMED; one that
 * a cancel may also end begins as OPEN.  The thread that changes TIMED or OPEN by compare-and-swap decides how the wait
 * ends: a waker writes WOKEN, the clock EXPIRED, a canceller CANCELLED.  (In a biased queue the waker stores WOKEN:
 * bias.h.)
 *
 * In a join, the field `joiner` of the other thread decides: the thread that changes it from the party to another value
 * ends the wait.  A join is PLAIN, JOINS_TIMED, or JOINS_OPEN, and keeps that state when it is woken.  JOINS_SOON soon
 * becomes JOINS_OPEN or CANCELLED; a canceller waits for that. */
enum madi_wait {
    MADI_WAIT_PLAIN,
    MADI_WAIT_TIMED,
    MADI_WAIT_OPEN,
    MADI_WAIT_JOINS_TIMED,
    MADI_WAIT_JOINS_OPEN,
    MADI_WAIT_JOINS_SOON,
    MADI_WAIT_WOKEN,
    MADI_WAIT_EXPIRED,
    MADI_WAIT_CANCELLED
};

/* Values of `woken`.  A plain pthread sleeps while it is 0.  A user-level thread that spins during its wait sets SPINS. */
enum madi_party_woken { MADI_PARTY_WOKEN = 1, MADI_PARTY_SPINS = 2 };

typedef struct madi_party {
    struct madi_party *next, *prev; /* neighbours in a wait queue, under the queue's lock */
    struct madi_waitq *queue;       /* the queue of a TIMED or OPEN wait; NULL if it is in none */
    struct marcel_thread *thread;   /* record of the thread */
    atomic_uint wait;               /* enum madi_wait */
    bool plain;                     /* true for a plain pthread, whose futex is `woken` */
    bool noted;                     /* a mark of the object that has the queue (a lock, a barrier), under the queue's lock */
    atomic_uint woken;              /* enum madi_party_woken */
    unsigned n_read;                /* number of rwlocks that the thread holds for reading */
    _Atomic(struct marcel_thread *) joins; /* the thread that this one joins, while `wait` is JOINS_* */
    struct madi_keys *keys;                /* thread-specific data of the party; NULL if none */
    struct marcel_cleanup *cleanup;        /* the cleanup handler pushed last; NULL if none */
    madi_lock_t interrupt_lock;
    struct marceli_waiter *interrupted; /* a waiter that a cancel wakes (cancel.h); under interrupt_lock */
} madi_party_t;

/* ---- The control block ---------------------------------------------------------------------------------------- */

/* States of a thread, written only by the thread's worker.  Other threads may read the state, and see a recent value. */
enum madi_ult_state { MADI_ULT_NONE, MADI_ULT_READY, MADI_ULT_RUNNING, MADI_ULT_BLOCKED };

/* Link of a run queue, which is a ring with a head, so that adding and removing need no branch. */
typedef struct madi_ring_link {
    struct madi_ring_link *next, *prev;
} madi_ring_link_t;

enum {
    /* Flags for extra work at a switch from or to the thread. */
    MADI_ULT_KEEPS_FP = 1,
    MADI_ULT_CANARY = 2,
    MADI_ULT_THROWS = 4, /* the thread was switched out while it handled an exception, whose state is in `cxx` */
    MADI_ULT_BOTH = 0xff,
    /* Flags for extra work at the next switch from the thread to another. */
    MADI_ULT_IN_PLACE = 0x100,    /* a joiner of the same worker runs as soon as the thread ends */
    MADI_ULT_TIMER_SHARED = 0x200 /* the deadline is in the shared heap (timer_shared.h) */
};

typedef struct madi_ult {
    void *sp;                   /* stack pointer of the thread's context while switched out (switch.h) */
    madi_ring_link_t link;      /* link in a run queue of its worker */
    struct madi_worker *worker; /* the worker that runs the thread; changes only while the thread is in no queue */
    uint8_t state;              /* enum madi_ult_state */
    uint8_t priority;           /* number of the thread's run queue; 0 runs first */
    uint8_t shift;              /* the thread's slot has 1 << shift bytes */
    bool moves;                 /* true if it may move: when ready, it is in a list that other workers see (share.h) */
    uint32_t flags;             /* MADI_ULT, of its worker alone */
    atomic_bool clocks;         /* true while a migratable thread is about to wait with a deadline (timer_shared.h) */
    madi_sanitizer_t sanitizer;
    uintptr_t inbox;                        /* link in an inbox (inbox.h) */
    struct madi_ult *pooled;                /* the next in a list of free slots */
    _Alignas(MADI_LINE) madi_party_t party; /* the first cache line of `party` travels to the waker and back */
    madi_timer_t timer;                     /* armed while the thread waits with a deadline */
    madi_fp_t fp;                           /* floating-point control words of a thread that keeps its own */
    /* indexed by run time: C++ state of a thread that handles an exception while it is switched out */
    madi_cxx_state_t cxx[MADI_CXX_MAX];
    struct _Unwind_Exception exit; /* the exception that unwinds the thread's stack (unwind.h) */
} madi_ult_t;

/* Set the worker atomically: marcel_yield_to reads control blocks that may belong to other threads by now. */
static inline void madi_ult_worker_set(madi_ult_t *ult, struct madi_worker *worker)
{
    __atomic_store_n(&ult->worker, worker, __ATOMIC_RELAXED);
}

#define MADI_RING_ULT(l) MADI_CONTAINER(l, madi_ult_t, link)
#define MADI_PARTY_ULT(p) MADI_CONTAINER(p, madi_ult_t, party)

#endif
