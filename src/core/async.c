/* SPDX-License-Identifier: BSD-3-Clause */
/* The progress thread: operations go on while the application computes.
 *
 * It exists from the first operation on that needs it (a request of several packets, a handler), and it sleeps: on a
 * futex while nothing is pending or while a thread of the application waits in the library, and so makes progress
 * itself; else in epoll, as the leader, with every driver armed.  A program that only waits never pays for it.
 *
 * Why no wake-up is lost: who makes an operation pending counts it, then looks whether the thread leads; the thread says
 * that it leads, then looks at the count, and again after it has stopped.  All of that is sequentially consistent.  The same
 * with a callback that is to be run: the last operation may be done and its callback not.
 */
#include "core/core.h"
#include "base/knob.h"
#include "base/log.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct madi_async {
    pthread_t thread;
    madi_waiter_t waiter;
    _Atomic(int) pending; /* operations that need progress from elsewhere */
    _Atomic(int) inside;  /* threads of the application that wait in the library */
    _Atomic(int) leading;
    _Atomic(int) stop;
    _Atomic(int) exists;
    _Atomic(uint32_t) go; /* futex; changes when there may be something to do */
};

static bool needed(const struct madi_async *a)
{
    return (atomic_load(&a->pending) > 0 || madi_calls_wait(a->waiter.session)) && !atomic_load(&a->inside) &&
           !atomic_load(&a->stop);
}

static bool not_needed(void *arg)
{
    return !needed(arg);
}

static void *run(void *arg)
{
    struct madi_async *a = arg;
    while (!atomic_load(&a->stop)) {
        uint32_t seen = atomic_load(&a->go);
        if (!needed(a)) {
            syscall(SYS_futex, &a->go, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
            continue;
        }
        atomic_store(&a->leading, 1);
        madi_lead_once(&a->waiter, not_needed, a); /* if another thread leads it is inside, or was until just now */
        atomic_store(&a->leading, 0); /* before any sleep on go: as long as it is 1 nobody calls */
    }
    return NULL;
}

static void call(struct madi_async *a)
{
    atomic_fetch_add(&a->go, 1);
    syscall(SYS_futex, &a->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Signals are the application's: the thread takes none. */
static void start(struct madi_async *a)
{
    sigset_t all, before;
    int error;
    if (atomic_exchange(&a->exists, 1))
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&a->thread, NULL, run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        madi_log(MADI_LOG_WARN, "core", "no progress thread: %s; operations go on when the program calls the library",
                 strerror(error));
        atomic_store(&a->stop, 1);
        atomic_store(&a->exists, 0);
    }
}

mad_status_t madi_async_init(mad_session_t *session)
{
    session->async = calloc(1, sizeof *session->async);
    if (!session->async)
        return MAD_ERR_NOMEM;
    madi_waiter_init(&session->async->waiter, session);
    atomic_init(&session->async->stop, !madi_knob_int(MADI_KNOB_PROGRESS_THREAD));
    return MAD_OK;
}

void madi_async_stop(mad_session_t *session)
{
    struct madi_async *a = session->async;
    if (!a)
        return;
    atomic_store(&a->stop, 1);
    if (atomic_load(&a->exists)) {
        madi_waiter_wake(&a->waiter);
        call(a);
        pthread_join(a->thread, NULL);
    }
}

void madi_async_count(mad_session_t *session, int n)
{
    atomic_fetch_add(&session->async->pending, n);
}

void madi_async_has_calls(mad_session_t *session)
{
    struct madi_async *a = session->async;
    atomic_thread_fence(memory_order_seq_cst); /* what was added is seen, or that the thread leads */
    if (atomic_load(&a->exists) && !atomic_load(&a->leading) && needed(a))
        call(a);
}

void madi_async_kick(mad_session_t *session)
{
    struct madi_async *a = session->async;
    if (!needed(a) || atomic_load(&a->leading))
        return;
    start(a);
    call(a);
}

int madi_async_enter(mad_session_t *session)
{
    struct madi_async *a = session->async;
    int waiting = atomic_fetch_add(&a->inside, 1) + 1;
    if (atomic_load(&a->leading))
        madi_waiter_wake(&a->waiter); /* it makes room */
    return waiting;
}

void madi_async_leave(mad_session_t *session)
{
    atomic_fetch_sub(&session->async->inside, 1);
    madi_async_kick(session);
}
