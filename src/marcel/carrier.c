/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/carrier.h"
#include "base/log.h"
#include "engine/helper.h"
#include "marcel/bias.h"
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/plain_thread.h"
#include "marcel/placement.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct carriers {
    madi_lock_t lock;
    madi_carrier_t *spares, *all;
    unsigned n;      /* number of carriers made */
    sigset_t before; /* signal mask of the thread that started the workers, before the start */
} carriers;
_Atomic(int) madi_n_detached_in_syscall;

/* A plain thread-local variable: no code switches between taking its address and reading it (worker.h). */
static __thread madi_carrier_t *mine;

/* ---- Life ------------------------------------------------------------------------------------------------------- */

/* Block all signals except those that an instruction causes, and the monitor's, so that signals go to the program's own
 * threads. */
static void signals_block(void)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    int signal = madi_monitor_signal();
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < MADI_COUNT(own); i++)
        sigdelset(&set, own[i]);
    if (signal)
        sigdelset(&set, signal);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

static bool left_behind; /* true if a fork has left this thread behind */

/* Reset in the child of a fork.  If a user-level thread forked, its kernel thread exists in the child and gets the
 * program's signal mask back, because a program that the child executes would inherit the mask.  Otherwise the child has
 * no carrier. */
static void carriers_forked(void)
{
    madi_bias_forked(madi_worker_self());
    if (mine)
        pthread_sigmask(SIG_SETMASK, &carriers.before, NULL);
    else
        left_behind = marcel_worker_count() > 0;
}

bool madi_carriers_left_behind(void)
{
    return left_behind;
}

static void carriers_forks_watch(void)
{
    pthread_atfork(NULL, NULL, carriers_forked);
}

static void context_adopt(madi_ult_t *base)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    if (!pthread_getattr_np(pthread_self(), &attr)) {
        pthread_attr_getstack(&attr, &low, &size);
        pthread_attr_destroy(&attr);
    }
    madi_sanitizer_adopt(&base->sanitizer, low, size);
}

static void spare_put(madi_carrier_t *carrier)
{
    madi_lock(&carriers.lock);
    carrier->spare = carriers.spares;
    carriers.spares = carrier;
    madi_unlock(&carriers.lock);
}

static madi_carrier_t *spare_take(void)
{
    madi_carrier_t *carrier;
    madi_lock(&carriers.lock);
    carrier = carriers.spares;
    if (carrier)
        carriers.spares = carrier->spare;
    madi_unlock(&carriers.lock);
    return carrier;
}

static void worker_carry(madi_carrier_t *carrier, madi_worker_t *worker)
{
    if (madi_marcel.binds && carrier->place != worker->index)
        madi_placement_bind(carrier->place = worker->index);
    atomic_store_explicit(&carrier->carries, worker, memory_order_release);
    madi_worker_run(worker, &carrier->base);
    atomic_store_explicit(&carrier->carries, NULL, memory_order_release);
    spare_put(carrier);
}

static void *carrier_main(void *arg)
{
    madi_carrier_t *carrier = arg;
    unsigned offer;
    mine = carrier;
    carrier->tid = (int)syscall(SYS_gettid);
    signals_block();
    if (madi_guard_thread_start(&carrier->signal_stack))
        madi_log(MADI_LOG_WARN, "marcel", "no memory for a signal stack: overflows of stacks are not reported");
    context_adopt(&carrier->base);
    /* this acquire pairs with the release in worker_offer */
    while ((offer = atomic_exchange_explicit(&carrier->offer, 0, memory_order_acquire)) != MADI_CARRIER_STOP) {
        if (offer)
            worker_carry(carrier, carrier->offered);
        else
            madi_futex_wait(&carrier->offer, 0, MADI_NEVER);
    }
    madi_guard_thread_end(carrier->signal_stack);
    return NULL;
}

/* Create a kernel thread for the worker `first`, or a spare one if `first` is NULL.  On failure return NULL, and set *rc
 * (no memory, or too many threads). */
static madi_carrier_t *carrier_make(madi_worker_t *first, int *rc)
{
    madi_carrier_t *carrier = aligned_alloc(_Alignof(madi_carrier_t), sizeof *carrier);
    char name[16];
    if (!carrier) {
        *rc = ENOMEM;
        return NULL;
    }
    memset((void *)carrier, 0, sizeof *carrier);
    carrier->place = -1;
    carrier->offered = first;
    madi_lock(&carriers.lock);
    carrier->number = ++carriers.n;
    madi_unlock(&carriers.lock);
    atomic_init(&carrier->offer, first ? MADI_CARRIER_FIRST : 0);
    snprintf(name, sizeof name, "marcel-%u", carrier->number);
    *rc = madi_helper_make(&carrier->kernel_thread, NULL, name, carrier_main, carrier);
    if (*rc) {
        free(carrier);
        return NULL;
    }
    madi_lock(&carriers.lock);
    carrier->all = carriers.all;
    carriers.all = carrier;
    madi_unlock(&carriers.lock);
    return carrier;
}

madi_carrier_t *madi_carriers_all(void)
{
    madi_carrier_t *all;
    madi_lock(&carriers.lock);
    all = carriers.all;
    madi_unlock(&carriers.lock);
    return all;
}

madi_carrier_t *madi_carrier_spare(void)
{
    madi_carrier_t *carrier = spare_take();
    int rc;
    return carrier ? carrier : carrier_make(NULL, &rc);
}

madi_carrier_t *madi_carrier_self(void)
{
    return mine;
}

int madi_carrier_start(madi_worker_t *worker)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc;
    pthread_once(&once, carriers_forks_watch);
    pthread_sigmask(SIG_SETMASK, NULL, &carriers.before);
    carrier_make(worker, &rc);
    return rc;
}

void madi_carriers_stop(void)
{
    for (madi_carrier_t *carrier = carriers.all; carrier; carrier = carrier->all) {
        unsigned none = 0;
        /* A carrier that has not started yet takes its worker first. */
        while (!atomic_compare_exchange_weak_explicit(&carrier->offer, &none, MADI_CARRIER_STOP, memory_order_release,
                                                      memory_order_relaxed)) {
            none = 0;
            sched_yield();
        }
        madi_futex_wake(&carrier->offer);
    }
    while (carriers.all) {
        madi_carrier_t *carrier = carriers.all;
        pthread_join(carrier->kernel_thread, NULL);
        carriers.all = carrier->all;
        free(carrier);
    }
    carriers.spares = NULL;
}

/* ---- Blocking calls --------------------------------------------------------------------------------------------- */

/* Find a successor to which the worker can be offered.  Return 0 or an error number. */
static int successor_find(madi_carrier_t *carrier)
{
    int rc = 0;
    if (!carrier->successor)
        carrier->successor = spare_take();
    if (!carrier->successor)
        carrier->successor = carrier_make(NULL, &rc);
    return rc ? EAGAIN : 0;
}

static void worker_offer(madi_carrier_t *carrier, madi_worker_t *worker)
{
    carrier->depth = 1;
    carrier->blocked = worker->current;
    madi_worker_mine = NULL; /* the thread counts as a plain pthread until it returns to its worker */
    atomic_store_explicit(&carrier->carries, NULL, memory_order_release);
    /* release: pairs with carrier_main */
    carrier->successor->offered = worker;
    atomic_store_explicit(&carrier->successor->offer, carrier->number, memory_order_release);
    madi_futex_wake(&carrier->successor->offer);
}

int marcel_blocking_begin(void)
{
    madi_carrier_t *carrier;
    madi_worker_t *worker;
    madi_ult_self(); /* a thread that is detached in a system call first returns to its worker */
    carrier = mine;
    worker = madi_worker_self();
    if (!carrier || (carrier->blocked && ++carrier->depth)) /* plain pthreads and nested calls hand no worker over */
        return 0;
    if (successor_find(carrier))
        return EAGAIN;
    worker_offer(carrier, worker);
    return 0;
}

static void thread_return_post(void *arg)
{
    madi_ready(arg);
}

/* Send the thread back to its worker, which another kernel thread now carries.  The calling kernel thread becomes a spare
 * one. */
static MADI_COLD void thread_return(madi_carrier_t *carrier, madi_ult_t *self)
{
    carrier->successor = NULL;
    self->state = MADI_ULT_BLOCKED;
    madi_cxx_begin(&carrier->orphan_worker.cxx);
    carrier->orphan_worker.post = thread_return_post;
    carrier->orphan_worker.post_arg = self;
    madi_worker_mine = &carrier->orphan_worker;
    madi_switch_to(&carrier->orphan_worker, self, &carrier->base);
}

static void worker_take_back(madi_carrier_t *carrier, madi_worker_t *worker)
{
    madi_worker_mine = worker;
    atomic_store_explicit(&carrier->carries, worker, memory_order_release);
}

int marcel_blocking_end(void)
{
    madi_carrier_t *carrier = mine;
    madi_ult_t *self;
    unsigned offer;
    if (!carrier || !carrier->blocked || --carrier->depth)
        return 0;
    self = carrier->blocked;
    carrier->blocked = NULL;
    offer = carrier->number;
    /* a relaxed exchange suffices, because no other kernel thread has carried the worker meanwhile */
    if (atomic_compare_exchange_strong_explicit(&carrier->successor->offer, &offer, 0, memory_order_relaxed,
                                                memory_order_relaxed))
        worker_take_back(carrier, self->worker);
    else
        thread_return(carrier, self);
    return 0;
}

/* ---- Calls that are not declared -------------------------------------------------------------------------------- */

bool madi_carrier_detach_in_syscall(madi_carrier_t *carrier)
{
    madi_worker_t *worker = madi_worker_self();
    if (carrier->blocked || !worker || !worker->current || (!carrier->successor && !carrier->spare_prealloc))
        return false;
    if (!carrier->successor) {
        carrier->successor = carrier->spare_prealloc;
        carrier->spare_prealloc = NULL;
    }
    carrier->detached_in_syscall = true;
    atomic_fetch_add_explicit(&madi_n_detached_in_syscall, 1, memory_order_relaxed);
    worker_offer(carrier, worker);
    return true;
}

madi_ult_t *madi_ult_reattach(void)
{
    madi_carrier_t *carrier = mine;
    if (!carrier || !carrier->detached_in_syscall)
        return NULL;
    carrier->detached_in_syscall = false;
    atomic_fetch_sub_explicit(&madi_n_detached_in_syscall, 1, memory_order_relaxed);
    marcel_blocking_end();
    return madi_worker_self()->current;
}
