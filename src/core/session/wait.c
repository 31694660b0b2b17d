/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session's threads wait: the session is a category of the polling server (engine/engine.h), which does the
 * waiting. */
#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "core/api/api.h"
#include "core/connect/hello.h"
#include "core/driver.h"
#include "core/progress/progress.h"
#include "core/session/session.h"
#include "core/session/session_own.h"
#include "engine/wait_policy.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- Calls by the polling server ------------------------------------------------------------------------------ */

static int session_poll(void *arg, bool deep)
{
    mad_session_t *session = arg;
    int n;
    if (!madi_trylock(&session->lock)) /* if the lock is taken, the thread that holds it does the work */
        return 0;
    n = madi_progress_locked(session);
    /* poll the descriptors, since an unhandled event would end the next sleep in vain */
    if (deep && (!n || session->own->slept)) {
        n += madi_poll_descriptors(session);
        madi_hello_expire(session, madi_now());
    }
    session->own->slept = false;
    madi_unlock(&session->lock);
    return n;
}

static bool session_pure_poll(void *arg)
{
    return madi_pure_poll(arg);
}

static bool session_arm(void *arg, int64_t *deadline)
{
    mad_session_t *session = arg;
    bool quiet = true;
    int64_t hello;
    madi_lock(&session->lock);
    for (int i = 0; i < session->n_adapters; i++) {
        madi_adapter_t *a = session->adapters[i];
        if (a->driver->wait.arm && !a->driver->wait.arm(a))
            quiet = false;
    }
    hello = madi_hello_deadline(session);
    madi_unlock(&session->lock);
    if (hello < *deadline)
        *deadline = hello;
    if (!atomic_load_explicit(&session->has_work, memory_order_relaxed))
        return quiet;
    if (*deadline > madi_now() + MADI_RETRY_SEND_NS)
        *deadline = madi_now() + MADI_RETRY_SEND_NS;
    return quiet && !atomic_load_explicit(&session->strides_left, memory_order_relaxed);
}

static void session_disarm(void *arg)
{
    mad_session_t *session = arg;
    madi_lock(&session->lock);
    session->own->slept = true;
    for (int i = 0; i < session->n_adapters; i++) {
        madi_adapter_t *a = session->adapters[i];
        if (a->driver->wait.disarm)
            a->driver->wait.disarm(a);
    }
    madi_unlock(&session->lock);
}

/* Serve incoming connections, in the accept thread.  Connections through gateways arrive in the gateways' messages, and
 * no descriptor distinguishes these messages from others.  So the accept thread also polls the session at regular times. */
static bool session_serve_accept(void *arg, int64_t *again)
{
    mad_session_t *session = arg;
    int64_t hello;
    int n;
    if (session->forward)
        *again = madi_deadline(MADI_FORWARDED_LOOK_NS);
    /* another thread is in the library: come back soon, since descriptors report again but the clock does not */
    if (!madi_trylock(&session->lock)) {
        *again = madi_deadline(MADI_LOCKED_LOOK_NS);
        return false;
    }
    n = madi_progress_after(session, madi_look_around(session));
    hello = madi_hello_deadline(session);
    if (hello < *again)
        *again = hello;
    madi_unlock(&session->lock);
    return n > 0;
}

static bool session_has_calls(void *arg)
{
    return madi_calls_wait(arg);
}

static void session_run_calls(void *arg)
{
    madi_calls_run(arg);
}

/* ---- Start and end -------------------------------------------------------------------------------------------- */

mad_status_t madi_wait_init(mad_session_t *session)
{
    if (marceli_server_open())
        return MAD_ERR_SYSTEM;
    session->epfd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
    session->rare_epfd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
    session->rare = (madi_watch_t){.fd = session->rare_epfd, .ready = madi_rare_ready};
    if (session->epfd < 0 || session->rare_epfd < 0 || madi_watch_add(session, &session->rare, EPOLLIN)) {
        madi_log(MADI_LOG_ERROR, "core", "no descriptors for waiting: %s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    session->spins = marceli_spins(session->processes);
    return MAD_OK;
}

/* Set the number of processes that may run on this host. */
static void processes_set(mad_session_t *session, int processes)
{
    session->processes = processes;
    session->spins = marceli_spins(processes);
    marceli_category_processes(session->own->category, processes);
}

void madi_wait_job(mad_session_t *session, const madi_boot_t *boot)
{
    int all = boot->size + boot->gateways;
    processes_set(session, boot->sharers ? marceli_processes_equivalent(boot->sharers) : boot->local ? boot->local : all);
}

void madi_wait_sharers(mad_session_t *session, int sharers)
{
    processes_set(session, marceli_processes_equivalent(sharers));
}

mad_status_t madi_wait_start(mad_session_t *session)
{
    marceli_category_t c = {.name = "a session",
                            .arg = session,
                            .poll = session_poll,
                            .pure_poll = session_pure_poll,
                            .enter_blocking = session_arm,
                            .exit_blocking = session_disarm,
                            .fd = session->epfd,
                            .has_calls = session_has_calls,
                            .run_calls = session_run_calls,
                            .processes = session->processes};
    session->own->category = marceli_category_add(&c);
    return session->own->category ? MAD_OK : MAD_ERR_SYSTEM;
}

void madi_wait_accept(mad_session_t *session)
{
    int error;
    session->accept_entry = (marceli_accept_entry_t){
        .fd = session->rare_epfd, .serve = session_serve_accept, .arg = session, .again = session->forward ? 0 : INT64_MAX};
    error = marceli_accept_entry_open(&session->accept_entry);
    if (error)
        madi_log(MADI_LOG_WARN, "core",
                 "no accept thread: incoming connections wait until the program calls the library: %s%s", strerror(error),
                 madi_remedy(error));
    marceli_progress_kick(); /* have the progress thread run, since a gateway forwards while its program computes */
}

void madi_wait_stop(mad_session_t *session)
{
    marceli_accept_entry_close(&session->accept_entry);
    if (session->own->category)
        marceli_category_del(session->own->category);
    session->own->category = 0;
}

void madi_wait_fini(mad_session_t *session)
{
    if (session->rare_epfd >= 0)
        madi_fd_close(session->rare_epfd);
    if (session->epfd >= 0)
        madi_fd_close(session->epfd);
}
