/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/worker.h"
#include "base/clock.h"
#include "base/log.h"
#include "marcel/guard.h"
#include "marcel/lead.h"
#include "marcel/marcel.h"
#include "marcel/party.h"
#include "marcel/place.h"
#include "marcel/sched.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STARVED_NS 1000000 /* how often a seed is tried again for which there was no memory */

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

/* seq_cst on both sides: the worker says that it is idle, then looks at the inbox; who puts something in, puts it in, then
 * looks whether it is idle.  One of the two sees the other. */
void madi_worker_wake(madi_worker_t *worker)
{
    if (atomic_load_explicit(&worker->idle, memory_order_seq_cst))
        marceli_waiter_wake(&worker->waiter);
}

static bool something_came(void *arg)
{
    madi_worker_t *worker = arg;
    return madi_queue_first(worker) || atomic_load_explicit(&worker->inbox.last, memory_order_seq_cst) ||
           atomic_load_explicit(&worker->stop, memory_order_seq_cst);
}

/* The inbox holds what could not be started: it is no reason to wake up. */
static bool starved_came(void *arg)
{
    madi_worker_t *worker = arg;
    return madi_queue_first(worker) || atomic_load_explicit(&worker->stop, memory_order_seq_cst);
}

static void idle(madi_worker_t *worker)
{
    int64_t until = worker->timers.first ? worker->timers.first->deadline : MADI_NEVER, soon;
    if (worker->starved && until > (soon = madi_now() + STARVED_NS))
        until = soon;
    madi_count(&worker->idles);
    atomic_exchange_explicit(&worker->idle, 1, memory_order_seq_cst);
    madi_idle_wait(worker, worker->starved ? starved_came : something_came, worker, until);
    atomic_store_explicit(&worker->idle, 0, memory_order_relaxed);
}

/* ---- The scheduler -------------------------------------------------------------------------------------------- */

/* Signals go to the program's own threads, but for those that an instruction causes. */
static void signals_block(void)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < MADI_COUNT(own); i++)
        sigdelset(&set, own[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void tools_adopt(madi_worker_t *worker)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    if (!pthread_getattr_np(pthread_self(), &attr)) {
        pthread_attr_getstack(&attr, &low, &size);
        pthread_attr_destroy(&attr);
    }
    madi_tools_adopt(&worker->base.tools, low, size);
}

static void *worker_main(void *arg)
{
    madi_worker_t *worker = arg;
    madi_worker_mine = worker;
    signals_block();
    if (madi_guard_thread_start(&worker->signal_stack))
        madi_log(MADI_LOG_WARN, "marcel", "no memory for a signal stack: overflows of stacks are not reported");
    madi_place_bind(worker->index);
    tools_adopt(worker);
    for (;;) {
        madi_ult_t *to = madi_pick_all(worker);
        if (to) {
            madi_switch_to(worker, &worker->base, to);
            worker->current = NULL;
        } else if (atomic_load_explicit(&worker->stop, memory_order_acquire)) {
            break;
        } else {
            idle(worker);
        }
    }
    madi_guard_thread_end(worker->signal_stack);
    return NULL;
}

int madi_worker_start(madi_worker_t *worker, int index)
{
    int rc;
    memset((void *)worker, 0, sizeof *worker);
    worker->index = index;
    worker->tick = MADI_PERIOD;
    worker->base.worker = worker;
    for (int i = 0; i < MADI_LEVELS; i++)
        worker->queue[i].next = worker->queue[i].prev = &worker->queue[i];
    if (madi_deque_init(&worker->deque))
        return ENOMEM;
    rc = pthread_create(&worker->kernel_thread, NULL, worker_main, worker);
    if (rc)
        madi_deque_fini(&worker->deque);
    return rc;
}

void madi_worker_stop(madi_worker_t *worker)
{
    atomic_store_explicit(&worker->stop, true, memory_order_seq_cst);
    madi_worker_wake(worker);
    pthread_join(worker->kernel_thread, NULL);
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
    madi_deque_fini(&worker->deque);
}
