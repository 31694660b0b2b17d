/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker: the scheduler of one core, and its queues.  A kernel thread carries it (carrier.h), mostly the same one.
 *
 * The first part of the structure is touched by the worker alone: by the threads that it runs, and by its scheduler, which
 * runs on its kernel thread's own stack, `base`.  So there are no atomics.  Other threads reach the worker by the inbox,
 * and by the deque.  A worker takes what is ready in this order:
 *   queues    started threads, by priority, first in first out
 *   movable   started threads that others may take, first in first out
 *   deque     seeds of this worker, youngest first
 *   share.h   what other workers have
 * Once in MADI_PERIOD switches (or fewer: worker->period) it looks at the clock, and runs the oldest of what else is passed
 * over.  So nothing starves but by priority: movable and deque have the usual one, and come before queues of lower ones.
 * What others may take is never put into the queues: behind a thread that computes no other worker would find it. */
#ifndef MADI_WORKER_H
#define MADI_WORKER_H

#include "engine/waiter.h"
#include "marcel/cxx.h"
#include "marcel/deque.h"
#include "marcel/inbox.h"
#include "marcel/slot.h"

#include <pthread.h>

#define MADI_LEVELS 8 /* of priority */
#define MADI_USUAL 4  /* level of threads without attributes */
#define MADI_PERIOD 64
#define MADI_SLOTS_KEPT 64
#define MADI_RECORDS_KEPT 256

typedef void (*madi_post_t)(void *arg);

/* Counter that one thread counts and any thread reads. */
typedef _Atomic(uint64_t) madi_counter_t;
static inline __attribute__((always_inline)) void madi_count(madi_counter_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Ready threads that other workers may take (share.h). */
typedef struct madi_movable {
    madi_lock_t lock;
    _Atomic(int) n;
    madi_ring_link_t head;
} madi_movable_t;

static inline __attribute__((always_inline)) void madi_count_release(madi_counter_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_release);
}

typedef struct madi_worker {
    /* Touched by the worker alone. */
    madi_ult_t *current; /* the thread that runs; NULL: the scheduler, on base */
    uint32_t odd;        /* a bit for each level but the usual one that has a ready thread */
    uint32_t tick;       /* counts down to the next look at clock and seeds */
    madi_post_t post;    /* run first by the thread that arrives (sched.h); NULL if none */
    void *post_arg;
    _Atomic(struct madi_waitq *) holds; /* the biased queue in whose section it is (bias.h); NULL if none.  Others read it */
    uint32_t bias;                      /* value of a lock word that is biased to it */
    madi_cxx_t cxx;
    madi_post_t timer_post; /* the post function of a thread whose timer is armed after it (timer_shared.h) */
    void *timer_post_arg;
    madi_ult_t *slots; /* free slots of the default size, the last used first */
    struct marcel_thread *records;
    unsigned n_slots, n_records;
    madi_ring_link_t queue[MADI_LEVELS];
    madi_timers_t timers;
    struct marcel_thread *pending; /* a taken seed that base is to start */
    madi_ult_t *stolen;            /* a thread that moves, taken from another worker, that base is to run */
    bool movable_turn;             /* true if the oldest movable thread came first in the last period, false if a seed */
    int *near, n_near;             /* the other workers, the nearest first */
    unsigned looks;                /* number since it has been idle */
    bool woken;                    /* from its last sleep, and it has not run anything since */
    int waiting;                   /* number of its threads that wait for the polling server */
    uint32_t period;               /* switches between looks at the clock: MADI_PERIOD, or fewer if these take long */
    uint32_t switches;             /* not counted in `periods` yet */
    int64_t ticked;                /* ns: the last look at the clock, while a thread waits for it; else 0 */
    int64_t look_at, look_every;   /* ns: the next poll of the busy scheduler, and the time between two (leader.c) */
    bool starved;                  /* a seed could not start for lack of memory: look again soon */
    madi_ult_t *base;              /* the scheduler's own context, on the stack of the kernel thread that runs it */
    madi_counter_t created, ended, periods, idles, steals; /* a period is MADI_PERIOD switches */

    /* Touched by any thread. */
    _Alignas(2 * MADI_LINE) madi_deque_t deque;
    _Alignas(2 * MADI_LINE) madi_movable_t movable;
    _Alignas(2 * MADI_LINE) madi_inbox_t inbox;
    _Alignas(2 * MADI_LINE) _Atomic(int) idle; /* 1: asleep, or about to be; a thread that sets it to 0 wakes it ... */
    marceli_waiter_t waiter;                   /* ... by this */
    _Atomic(int64_t) until;                    /* ns: when it wakes by itself; written before `idle` */
    atomic_bool stop;
    int index;
} madi_worker_t;

#pragma GCC visibility push(hidden)

/* Make the queues of worker `index` of n.  All are made before the first kernel thread runs, and freed (fini) after the
 * last.  Return 0 or ENOMEM. */
int madi_worker_init(madi_worker_t *worker, int index, int n);
void madi_worker_fini(madi_worker_t *worker); /* fine after a failed init */

/* Run the worker's scheduler on the calling kernel thread (carrier.h), whose context is `base`.  Return when the worker was
 * closed and nothing is left to run, or when another kernel thread runs it. */
void madi_worker_run(madi_worker_t *worker, madi_ult_t *base);
void madi_worker_close(madi_worker_t *worker);

/* Wake the worker if it sleeps and no other thread has woken it; else return false.  Any thread may call. */
bool madi_worker_wake(madi_worker_t *worker);

/* Announce a sleep, and end it; called on base.  Between the two madi_worker_wake wakes the worker.  After the announcement
 * the worker looks at everything once more.  barrier: the caller executes none before that look. */
void madi_worker_sleeps(madi_worker_t *worker, bool barrier);
void madi_worker_awake(madi_worker_t *worker);

static inline bool madi_worker_is_idle(madi_worker_t *worker)
{
    return atomic_load_explicit(&worker->idle, memory_order_relaxed);
}

/* Refill and shorten the worker's list of free slots. */
madi_ult_t *madi_worker_slot_more(madi_worker_t *worker);
void madi_worker_slot_less(madi_worker_t *worker);

#pragma GCC visibility pop

/* The worker whose kernel thread this is, on whatever stack; NULL: a plain pthread.
 *
 * Compilers keep the address of a thread-local variable across calls, and a user-level thread may go on in another kernel
 * thread after a switch: so the variable is read by instructions of our own, each time anew, or behind a call. */
extern __thread madi_worker_t *madi_worker_mine __attribute__((tls_model("initial-exec"), visibility("hidden")));

#if defined(__x86_64__) && defined(__LP64__)
static inline madi_worker_t *madi_worker_self(void)
{
    madi_worker_t *worker;
    __asm__ volatile("movq madi_worker_mine@gottpoff(%%rip), %0\n\t"
                     "movq %%fs:(%0), %0"
                     : "=r"(worker)
                     :
                     : "memory");
    return worker;
}
#elif defined(__aarch64__)
static inline madi_worker_t *madi_worker_self(void)
{
    madi_worker_t *worker;
    uintptr_t base;
    __asm__ volatile("adrp %0, :gottprel:madi_worker_mine\n\t"
                     "ldr %0, [%0, :gottprel_lo12:madi_worker_mine]\n\t"
                     "mrs %1, tpidr_el0\n\t"
                     "ldr %0, [%1, %0]"
                     : "=&r"(worker), "=&r"(base)
                     :
                     : "memory");
    return worker;
}
#else
__attribute__((visibility("hidden"))) madi_worker_t *madi_worker_self(void);
#endif

/* Bring a thread that is detached in a system call (monitor.h) back to its worker; it may go on in another kernel thread.
 * Return the thread, or NULL if the caller is no such thread. */
__attribute__((visibility("hidden"), noinline)) madi_ult_t *madi_ult_reattach(void);
extern _Atomic(int) madi_n_detached_in_syscall __attribute__((visibility("hidden")));

/* The calling user-level thread; NULL for a plain pthread, and for a scheduler. */
static inline madi_ult_t *madi_ult_self(void)
{
    madi_worker_t *worker = madi_worker_self();
    if (MADI_LIKELY(worker != NULL))
        return worker->current;
    if (MADI_UNLIKELY(atomic_load_explicit(&madi_n_detached_in_syscall, memory_order_relaxed)))
        return madi_ult_reattach();
    return NULL;
}

static inline bool madi_movable_empty(const madi_worker_t *worker)
{
    return atomic_load_explicit(&worker->movable.n, memory_order_relaxed) == 0;
}

static inline madi_ult_t *madi_worker_slot_get(madi_worker_t *worker)
{
    madi_ult_t *ult = worker->slots;
    if (MADI_UNLIKELY(!ult))
        return madi_worker_slot_more(worker);
    worker->slots = ult->pooled;
    worker->n_slots--;
    return ult;
}

/* Give a slot back.  The caller may still be on it, since it is not used before the next slot is taken. */
static inline void madi_worker_slot_put(madi_worker_t *worker, madi_ult_t *ult)
{
    ult->pooled = worker->slots;
    worker->slots = ult;
    if (MADI_UNLIKELY(++worker->n_slots > MADI_SLOTS_KEPT))
        madi_worker_slot_less(worker);
}

#endif
