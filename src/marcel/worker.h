/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker: the scheduler of one core, and its queues.  A kernel thread carries the worker (carrier.h), usually the
 * same one.
 *
 * The first part of the structure is touched by the worker alone: by the threads that it runs, and by its scheduler,
 * which runs on its kernel thread's own stack, `base`.  So there are no atomics.  Other threads reach the worker through
 * the inbox and the deque.  A worker takes ready threads in this order:
 *   queues    started threads, by priority, first in first out
 *   movable   started threads that others may take, first in first out
 *   deque     seeds of this worker, youngest first
 *   share.h   what other workers have
 * Once in MADI_PERIOD switches (or fewer: worker->period) it checks the clock, and runs the oldest thread that is
 * otherwise passed over.  So threads starve only by priority: those of movable and deque have the usual priority, and
 * come before queues of lower priority.  Threads that other workers may take are never put into the queues, where no
 * other worker could take them from behind a thread that computes. */
#ifndef MADI_WORKER_H
#define MADI_WORKER_H

#include "engine/waiter.h"
#include "marcel/cxx.h"
#include "marcel/deque.h"
#include "marcel/inbox.h"
#include "marcel/slot.h"

#include <pthread.h>

#define MADI_LEVELS 8 /* number of priority levels */
#define MADI_USUAL 4  /* level of threads without attributes */
#define MADI_PERIOD 64
#define MADI_SLOTS_KEPT 64
#define MADI_RECORDS_KEPT 256

typedef void (*madi_post_t)(void *arg);

/* Counter that one thread increments and any thread reads. */
typedef _Atomic(uint64_t) madi_counter_t;
static inline __attribute__((always_inline)) void madi_count(madi_counter_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* List of ready threads that other workers may take (share.h). */
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
    /* Fields that only the worker touches. */
    madi_ult_t *current; /* the thread that runs; NULL for the scheduler, on base */
    uint32_t odd;        /* bits: levels, other than the usual one, that have a ready thread */
    uint32_t tick;       /* switches until the next check of clock and seeds */
    madi_post_t post;    /* function that the next thread runs first after a switch (sched.h); NULL if none */
    void *post_arg;
    /* the biased queue in whose section the worker is (bias.h); NULL if none.  Read by other threads */
    _Atomic(struct madi_waitq *) holds;
    uint32_t bias; /* value of a lock word that is biased to this worker */
    madi_cxx_t cxx;
    madi_post_t timer_post; /* post-switch function of a thread whose timer is armed after the switch (timer_shared.h) */
    void *timer_post_arg;
    madi_ult_t *slots; /* free slots of the default size, the most recently used first */
    struct marcel_thread *records;
    unsigned n_slots, n_records;
    madi_ring_link_t queue[MADI_LEVELS];
    madi_timers_t timers;
    struct marcel_thread *pending; /* a seed taken by this worker, which its scheduler (base) will start */
    madi_ult_t *stolen;            /* a migratable thread taken from another worker, which base will run */
    bool movable_turn;             /* true if the oldest movable thread came first in the last period, false if a seed */
    int *near, n_near;             /* the other workers, the nearest first */
    unsigned looks;                /* number of checks since the worker became idle */
    bool woken;                    /* true if another thread has woken the worker, and the worker has run no thread since */
    int waiting;                   /* number of the worker's threads that wait for the polling server */
    /* switches between two checks of the clock: MADI_PERIOD, or fewer if switches take long */
    uint32_t period;
    uint32_t switches; /* number of switches that `periods` does not count yet */
    int64_t ticked;    /* ns: time of the last check of the clock, while a thread waits for it; else 0 */
    /* ns: time of the busy scheduler's next poll, and the interval between two polls (leader.c) */
    int64_t look_at, look_every;
    bool starved; /* a seed could not start for lack of memory: try again soon */
    /* the scheduler's own context, on the stack of the kernel thread that carries the worker */
    madi_ult_t *base;
    madi_counter_t created, ended, periods, idles, steals; /* a period is MADI_PERIOD switches */

    /* Fields that any thread touches. */
    _Alignas(2 * MADI_LINE) madi_deque_t deque;
    _Alignas(2 * MADI_LINE) madi_movable_t movable;
    _Alignas(2 * MADI_LINE) madi_inbox_t inbox;
    /* 1 if the worker sleeps or is about to sleep; a thread that sets `idle` to 0 wakes the worker */
    _Alignas(2 * MADI_LINE) _Atomic(int) idle;
    marceli_waiter_t waiter; /* the waiter by which the worker is woken */
    _Atomic(int64_t) until;  /* ns: when the worker wakes by itself; written before `idle` */
    atomic_bool stop;
    int index;
} madi_worker_t;

#pragma GCC visibility push(hidden)

/* Create the queues of worker `index` of n.  All queues are created before the first kernel thread runs, and freed (fini)
 * after the last.  Return 0 or ENOMEM. */
int madi_worker_init(madi_worker_t *worker, int index, int n);
void madi_worker_fini(madi_worker_t *worker); /* also after a failed init */

/* Run the worker's scheduler on the calling kernel thread (carrier.h), whose context is `base`.  Return when the worker
 * was closed and nothing is left to run, or when another kernel thread has taken it over. */
void madi_worker_run(madi_worker_t *worker, madi_ult_t *base);
void madi_worker_close(madi_worker_t *worker);

/* Wake the worker if it sleeps and no other thread has woken it; otherwise return false.  Any thread may call. */
bool madi_worker_wake(madi_worker_t *worker);

/* Announce a sleep, and end it; called on base.  Between the two calls madi_worker_wake wakes the worker.  After the
 * announcement the worker checks everything once more.  barrier: true if the caller executes no barrier before that
 * check. */
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

/* The worker that the calling kernel thread carries, on whatever stack; NULL for a plain pthread.
 *
 * Compilers keep the address of a thread-local variable across calls, but a user-level thread may continue on another
 * kernel thread after a switch.  So each read of the variable uses instructions of our own, or a call. */
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

/* Return a thread that is detached in a system call (monitor.h) to its worker; the thread may continue on another kernel
 * thread.  Return the thread, or NULL if the caller is no detached thread. */
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

/* Return a slot.  The caller may still be on it, since the slot is not used before the next one is taken. */
static inline void madi_worker_slot_put(madi_worker_t *worker, madi_ult_t *ult)
{
    ult->pooled = worker->slots;
    worker->slots = ult;
    if (MADI_UNLIKELY(++worker->n_slots > MADI_SLOTS_KEPT))
        madi_worker_slot_less(worker);
}

#endif
