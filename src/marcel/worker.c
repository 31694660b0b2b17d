/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/worker.h"
#include "base/clock.h"
#include "engine/leader.h"
#include "marcel/bias.h"
#include "marcel/timer_shared.h"
#include "marcel/marcel.h"
#include "marcel/monitor.h"
#include "marcel/plain_thread.h"
#include "marcel/placement.h"
#include "marcel/sched.h"
#include "marcel/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* spins between two checks of other workers' lists; each check takes a cache line away from them */
#define LOOK_EVERY 64
#define STARVED_NS 1000000 /* ns between two attempts to start a seed for which there was no memory */

__thread madi_worker_t *madi_worker_mine;

#if !(defined(__x86_64__) && defined(__LP64__)) && !defined(__aarch64__)
__attribute__((noinline)) madi_worker_t *madi_worker_self(void)
{
    __asm__ volatile("" : : : "memory");
    return madi_worker_mine;
}
#endif

/* ---- Slots ---------------------------------------------------------------------------------------------------- */

madi_ult_t *madi_worker_slot_more(madi_worker_t *worker)
{
    (void)worker;
    return madi_slot_get(madi_marcel.slot_shift);
}

void madi_worker_slot_less(madi_worker_t *worker)
{
    madi_ult_t *kept = worker->slots;
    for (int i = 1; i < MADI_SLOTS_KEPT / 2; i++)
        kept = kept->pooled;
    while (kept->pooled) {
        madi_ult_t *old = kept->pooled;
        kept->pooled = old->pooled;
        worker->n_slots--;
        madi_slot_put(old);
    }
}

/* ---- Sleep ---------------------------------------------------------------------------------------------------- */

/* Announce the sleep.  A thread puts its item into the inbox before it reads `idle`; the worker sets `idle` before it
 * reads the inbox.  All these accesses are sequentially consistent, so one of the two sees the other.  For other workers'
 * lists see share.h. */
void madi_worker_sleeps(madi_worker_t *worker, bool barrier)
{
    atomic_exchange_explicit(&worker->idle, 1, memory_order_seq_cst);
    atomic_fetch_add_explicit(&madi_marcel.n_asleep, 1, memory_order_seq_cst);
    if (barrier && worker->n_near)
        marceli_barrier();
}

/* End the sleep.  Return true for the thread that changes idle to 0, which alone counts. */
static bool worker_idle_end(madi_worker_t *worker)
{
    int idle = 1;
    if (!atomic_load_explicit(&worker->idle, memory_order_seq_cst) ||
        !atomic_compare_exchange_strong_explicit(&worker->idle, &idle, 0, memory_order_relaxed, memory_order_relaxed))
        return false;
    atomic_fetch_sub_explicit(&madi_marcel.n_asleep, 1, memory_order_relaxed);
    return true;
}

void madi_worker_awake(madi_worker_t *worker)
{
    if (!worker_idle_end(worker))
        worker->woken = true;
}

bool madi_worker_wake(madi_worker_t *worker)
{
    if (MADI_LIKELY(!worker_idle_end(worker)))
        return false;
    marceli_waiter_wake(&worker->waiter);
    return true;
}

static bool worker_has_own_work(madi_worker_t *worker)
{
    if (atomic_load_explicit(&madi_timer_shared_first, memory_order_seq_cst) <
            atomic_load_explicit(&worker->until, memory_order_relaxed) &&
        madi_timer_shared_left_alone(worker))
        return true;
    return madi_queue_first(worker) || !madi_deque_empty(&worker->deque) || !madi_movable_empty(worker) ||
           atomic_load_explicit(&worker->stop, memory_order_seq_cst);
}

static bool worker_has_work(void *arg)
{
    madi_worker_t *worker = arg;
    bool last_look = atomic_load_explicit(&worker->idle, memory_order_relaxed);
    if (worker->pending || worker->stolen || worker_has_own_work(worker) ||
        atomic_load_explicit(&worker->inbox.last, memory_order_seq_cst))
        return true;
    if (++worker->looks % LOOK_EVERY && !last_look && madi_outside_empty())
        return false;
    return madi_share_find(worker, last_look);
}

/* True if there is other work than the seeds in the inbox, which could not be started for lack of memory. */
static bool worker_starved_has_work(void *arg)
{
    return worker_has_own_work(arg);
}

static void worker_idle(madi_worker_t *worker)
{
    int64_t until = worker->timers.first ? worker->timers.first->deadline : MADI_NEVER, soon = madi_timer_shared_next();
    if (until > soon && madi_timer_shared_left_alone(worker))
        until = soon;
    if (worker->starved && until > (soon = madi_now() + STARVED_NS))
        until = soon;
    madi_count(&worker->idles);
    worker->looks = 0;
    atomic_store_explicit(&worker->until, until, memory_order_relaxed);
    madi_worker_idle_wait(worker, worker->starved ? worker_starved_has_work : worker_has_work, worker, until);
}

/* ---- The scheduler -------------------------------------------------------------------------------------------- */

void madi_worker_run(madi_worker_t *worker, madi_ult_t *base)
{
    base->worker = worker;
    worker->base = base;
    worker->current = NULL;
    madi_worker_mine = worker;
    madi_cxx_begin(&worker->cxx);
    for (;;) {
        madi_ult_t *to = madi_pick_all(worker);
        if (to) {
            if (MADI_UNLIKELY(worker->cxx.n != atomic_load_explicit(&madi_cxx_found, memory_order_relaxed)))
                madi_cxx_update(&worker->cxx);
            madi_leader_wanted_elsewhere(worker);
            if (MADI_UNLIKELY(madi_timer_shared_next() != MADI_NEVER))
                madi_timer_shared_elsewhere(worker);
            if (MADI_UNLIKELY(worker->woken))
                madi_share_pass_on(worker);
            worker->current = to;
            madi_monitor_hint();
            madi_switch_to(worker, base, to);
            if (MADI_UNLIKELY(madi_worker_self() != worker)) /* the worker was handed over */
                break;
            worker->current = NULL;
        } else if (atomic_load_explicit(&worker->stop, memory_order_acquire)) {
            break;
        } else {
            worker_idle(worker);
        }
    }
    madi_worker_mine = NULL;
}

int madi_worker_init(madi_worker_t *worker, int index, int n)
{
    memset((void *)worker, 0, sizeof *worker);
    worker->index = index;
    worker->bias = madi_bias_of(index);
    worker->tick = worker->period = MADI_PERIOD;
    worker->movable.head.next = worker->movable.head.prev = &worker->movable.head;
    for (int i = 0; i < MADI_LEVELS; i++)
        worker->queue[i].next = worker->queue[i].prev = &worker->queue[i];
    if (madi_deque_init(&worker->deque))
        return ENOMEM;
    if (n > 1 && !(worker->near = malloc((size_t)(n - 1) * sizeof *worker->near)))
        return ENOMEM;
    worker->n_near = n - 1;
    madi_placement_near(index, n, worker->near);
    return 0;
}

void madi_worker_close(madi_worker_t *worker)
{
    atomic_store_explicit(&worker->stop, true, memory_order_seq_cst);
    madi_worker_wake(worker);
}

void madi_worker_fini(madi_worker_t *worker)
{
    while (worker->slots) {
        madi_ult_t *ult = worker->slots;
        worker->slots = ult->pooled;
        madi_slot_put(ult);
    }
    while (worker->records) {
        struct marcel_thread *thread = worker->records;
        worker->records = (struct marcel_thread *)thread->link;
        madi_record_less(NULL, thread);
    }
    free(worker->near);
    worker->near = NULL;
    madi_deque_fini(&worker->deque);
}
