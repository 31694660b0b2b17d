/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/carrier.h"
#include "base/log.h"
#include "engine/helper.h"
#include "marcel/bias.h"
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/party.h"
#include "marcel/place.h"
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
    unsigned n; /* that have been made */
    sigset_t before; /* signals that the thread that started the workers blocks */
} carriers;
_Atomic(int) madi_n_lodged;

/* Threads do not move while they have a carrier, so the compiler may do as it likes with this. */
static __thread madi_carrier_t *mine;

/* ---- Life ------------------------------------------------------------------------------------------------------- */

/* Signals go to the program's own threads, but for those that an instruction causes. */
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

static bool left_behind; /* by a fork */

/* In the child of a fork.  A user-level thread that made it has the only kernel thread there, and a program that it executes
 * would inherit what is blocked.  Else there is none. */
static void forked(void)
{
    madi_bias_forked(madi_worker_self());
    if (mine)
        pthread_sigmask(SIG_SETMASK, &carriers.before, NULL);
    else
        left_behind = marcel_workers() > 0;
}

bool madi_carriers_left_behind(void)
{
    return left_behind;
}

static void forks_watch(void)
{
    pthread_atfork(NULL, NULL, forked);
}

static void tools_adopt(madi_ult_t *base)
{
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    if (!pthread_getattr_np(pthread_self(), &attr)) {
        pthread_attr_getstack(&attr, &low, &size);
        pthread_attr_destroy(&attr);
    }
    madi_tools_adopt(&base->tools, low, size);
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

static void carry(madi_carrier_t *carrier, madi_worker_t *worker)
{
    if (madi_marcel.binds && carrier->place != worker->index)
        madi_place_bind(carrier->place = worker->index);
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
    tools_adopt(&carrier->base);
    /* acquire: pairs with the release in offer */
    while ((offer = atomic_exchange_explicit(&carrier->offer, 0, memory_order_acquire)) != MADI_CARRIER_STOP) {
        if (offer)
            carry(carrier, carrier->offered);
        else
            madi_futex_wait(&carrier->offer, 0, MADI_NEVER);
    }
    madi_guard_thread_end(carrier->signal_stack);
    return NULL;
}

/* A kernel thread; `first`: for this worker, or NULL.  NULL: no memory, or there are too many (*rc). */
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
    pthread_once(&once, forks_watch);
    pthread_sigmask(SIG_SETMASK, NULL, &carriers.before);
    carrier_make(worker, &rc);
    return rc;
}

void madi_carriers_stop(void)
{
    for (madi_carrier_t *carrier = carriers.all; carrier; carrier = carrier->all) {
        unsigned none = 0;
        /* One that has not begun takes its worker first. */
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

/* To whom the worker can be offered.  0 or an error number. */
static int heir_find(madi_carrier_t *carrier)
{
    int rc = 0;
    if (!carrier->heir)
        carrier->heir = spare_take();
    if (!carrier->heir)
        carrier->heir = carrier_make(NULL, &rc);
    return rc ? EAGAIN : 0;
}

static void offer(madi_carrier_t *carrier, madi_worker_t *worker)
{
    carrier->depth = 1;
    carrier->blocked = worker->current;
    madi_worker_mine = NULL; /* a plain pthread meanwhile */
    atomic_store_explicit(&carrier->carries, NULL, memory_order_release);
    /* release: pairs with carrier_main */
    carrier->heir->offered = worker;
    atomic_store_explicit(&carrier->heir->offer, carrier->number, memory_order_release);
    madi_futex_wake(&carrier->heir->offer);
}

int marcel_enter_blocking(void)
{
    madi_carrier_t *carrier;
    madi_worker_t *worker;
    madi_ult_self(); /* if it lodges it goes home first */
    carrier = mine;
    worker = madi_worker_self();
    if (!carrier || (carrier->blocked && ++carrier->depth)) /* a plain pthread; one inside the other */
        return 0;
    if (heir_find(carrier))
        return EAGAIN;
    offer(carrier, worker);
    return 0;
}

static void back_post(void *arg)
{
    madi_ready(arg);
}

/* Its worker is carried by another: the thread goes there, and this kernel thread is free. */
static MADI_COLD void come_back(madi_carrier_t *carrier, madi_ult_t *self)
{
    carrier->heir = NULL;
    self->state = MADI_ULT_BLOCKED;
    madi_cxx_begin(&carrier->limbo.cxx);
    carrier->limbo.post = back_post;
    carrier->limbo.post_arg = self;
    madi_worker_mine = &carrier->limbo;
    madi_switch_to(&carrier->limbo, self, &carrier->base);
}

static void again(madi_carrier_t *carrier, madi_worker_t *worker)
{
    madi_worker_mine = worker;
    atomic_store_explicit(&carrier->carries, worker, memory_order_release);
}

int marcel_leave_blocking(void)
{
    madi_carrier_t *carrier = mine;
    madi_ult_t *self;
    unsigned offer;
    if (!carrier || !carrier->blocked || --carrier->depth)
        return 0;
    self = carrier->blocked;
    carrier->blocked = NULL;
    offer = carrier->number;
    /* relaxed: nobody else had it */
    if (atomic_compare_exchange_strong_explicit(&carrier->heir->offer, &offer, 0, memory_order_relaxed,
                                                memory_order_relaxed))
        again(carrier, self->worker);
    else
        come_back(carrier, self);
    return 0;
}

/* ---- Calls that are not declared -------------------------------------------------------------------------------- */

bool madi_carrier_lodge(madi_carrier_t *carrier)
{
    madi_worker_t *worker = madi_worker_self();
    if (carrier->blocked || !worker || !worker->current || (!carrier->heir && !carrier->gift))
        return false;
    if (!carrier->heir) {
        carrier->heir = carrier->gift;
        carrier->gift = NULL;
    }
    carrier->lodged = true;
    atomic_fetch_add_explicit(&madi_n_lodged, 1, memory_order_relaxed);
    offer(carrier, worker);
    return true;
}

madi_ult_t *madi_ult_home(void)
{
    madi_carrier_t *carrier = mine;
    if (!carrier || !carrier->lodged)
        return NULL;
    carrier->lodged = false;
    atomic_fetch_sub_explicit(&madi_n_lodged, 1, memory_order_relaxed);
    marcel_leave_blocking();
    return madi_worker_self()->current;
}
