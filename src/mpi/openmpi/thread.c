/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that makes Open MPI's progress while the program makes none, so that long messages are matched and
 * received during computation.  The thread checks periodically whether the program is in MPI: if it ran for each
 * message, it would take the core from the program.  If the program made no call between two checks, the thread
 * sleeps in the library until a fragment arrives. */
#include "btl_mad.h"
#include "engine/wait_policy.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

static pthread_t thread;
static atomic_bool stop;
/* true in the component's thread, from which Open MPI may add or remove peers while another thread waits for this one's
 * end */
static _Thread_local bool is_it;
static bool runs; /* under the lock */
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

/* True if the program has made no progress since `seen`.  Return false before the program's first call: until then Open
 * MPI has not set the receiver of fragments, which would be lost. */
static bool away(unsigned seen)
{
    return seen && atomic_load_explicit(&mad_btl->calls, memory_order_relaxed) == seen &&
           !atomic_load_explicit(&stop, memory_order_relaxed);
}

static void *thread_loop(void *arg)
{
    is_it = true;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        unsigned seen = atomic_load_explicit(&mad_btl->calls, memory_order_relaxed);
        nanosleep(&(struct timespec){.tv_nsec = MADI_BTL_LOOK_NS}, NULL);
        while (away(seen))
            mad_btl_serve(atomic_load_explicit(&mad_btl->gets, memory_order_relaxed) ? MADI_BTL_BUSY_NS : MADI_BTL_LOOK_NS);
    }
    return arg;
}

void mad_btl_thread_start(void)
{
    sigset_t all, before;
    if (mad_btl->async < 2 || is_it)
        return;
    opal_mutex_lock(&lock);
    if (!runs) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        runs = !pthread_create(&thread, NULL, thread_loop, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    opal_mutex_unlock(&lock);
}

void mad_btl_thread_stop(void)
{
    if (is_it)
        return;
    opal_mutex_lock(&lock);
    if (runs) {
        atomic_store(&stop, true);
        pthread_join(thread, NULL);
        atomic_store(&stop, false);
        runs = false;
    }
    opal_mutex_unlock(&lock);
}
