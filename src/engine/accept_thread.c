/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/accept_thread.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/static_mutex.h"
#include "engine/helper.h"
#include "engine/wait_policy.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK (256 * 1024)

static madi_static_mutex_t changing = MADI_STATIC_MUTEX; /* protects opening and closing; taken before `turn` */
static madi_static_mutex_t turn = MADI_STATIC_MUTEX;     /* protects the list of entries; held during calls of serve */
static marceli_accept_entry_t *entries;
static int epfd, wake_fd; /* valid while the thread runs */
static _Atomic(bool) stopping;
static pthread_t thread;
static _Atomic(int) runs;

static bool fd_is_readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

enum found { NONE_PENDING, SERVED, NOT_SERVED };

static enum found entries_serve(int64_t *again)
{
    enum found found = NONE_PENDING;
    *again = INT64_MAX;
    madi_static_mutex_lock(&turn);
    for (marceli_accept_entry_t *entry = entries; entry; entry = entry->next) {
        bool pending = fd_is_readable(entry->fd, 0);
        /* acquire: pairs with marceli_accept_entry_call_at */
        int64_t serve_at = atomic_exchange_explicit(&entry->serve_at, INT64_MAX, memory_order_acquire);
        if (serve_at < entry->again)
            entry->again = serve_at;
        if (pending || madi_now() >= entry->again) {
            entry->again = INT64_MAX;
            if (entry->serve(entry->arg, &entry->again))
                found = SERVED;
            else if (pending && !found)
                found = NOT_SERVED;
        }
        if (entry->again < *again)
            *again = entry->again;
    }
    madi_static_mutex_unlock(&turn);
    return found;
}

static int milliseconds_until(int64_t then)
{
    int64_t ms;
    if (then == INT64_MAX)
        return -1;
    ms = (then - madi_now()) / 1000000 + 1;
    return ms < MADI_NAP_MIN_MS ? MADI_NAP_MIN_MS : ms > INT_MAX ? INT_MAX : (int)ms;
}

static void accept_thread_wake(void)
{
    eventfd_write(wake_fd, 1);
}

static void *accept_thread_main(void *arg)
{
    int64_t again = INT64_MAX;
    int nap = MADI_NAP_MIN_MS;
    struct epoll_event event;
    eventfd_t wakes;
    for (;;) {
        int n = epoll_wait(epfd, &event, 1, milliseconds_until(again));
        if (fd_is_readable(wake_fd, n > 0 ? nap : 0))
            eventfd_read(wake_fd, &wakes);
        if (stopping)
            return arg;
        switch (entries_serve(&again)) {
        case NONE_PENDING: nap = MADI_NAP_MIN_MS; break; /* a thread inside the library has already accepted it */
        case SERVED: nap = 0; break; /* no thread is inside the library, and more connections are likely to come soon */
        case NOT_SERVED: nap = !nap ? MADI_NAP_MIN_MS : nap < MADI_NAP_MAX_MS ? 2 * nap : MADI_NAP_MAX_MS; break;
        }
    }
}

static int accept_thread_make(void)
{
    pthread_attr_t attr;
    int error;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    error = madi_helper_make(&thread, &attr, "mad-accept", accept_thread_main, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static int accept_thread_watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

static int accept_thread_start(void)
{
    int error;
    epfd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
    if (epfd < 0)
        return errno;
    wake_fd = madi_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    error = wake_fd < 0 ? errno : accept_thread_watch(wake_fd);
    if (!error)
        error = accept_thread_make();
    if (!error) {
        runs = 1;
        return 0;
    }
    if (wake_fd >= 0)
        madi_fd_close(wake_fd);
    madi_fd_close(epfd);
    return error;
}

static void accept_thread_stop(void)
{
    stopping = true;
    accept_thread_wake();
    pthread_join(thread, NULL);
    stopping = false;
    runs = 0;
    madi_fd_close(wake_fd);
    madi_fd_close(epfd);
}

int marceli_accept_entry_open(marceli_accept_entry_t *entry)
{
    int error;
    madi_static_mutex_lock(&changing);
    error = runs ? 0 : accept_thread_start();
    if (!error)
        error = accept_thread_watch(entry->fd);
    madi_static_mutex_lock(&turn);
    if (!error) {
        entry->next = entries;
        entries = entry;
        atomic_store_explicit(&entry->serve_at, INT64_MAX, memory_order_relaxed);
        atomic_store_explicit(&entry->open, true, memory_order_release); /* pairs with marceli_accept_entry_call_at */
        accept_thread_wake();                                            /* the time `again` may have come already */
    }
    madi_static_mutex_unlock(&turn);
    if (runs && !entries)
        accept_thread_stop();
    madi_static_mutex_unlock(&changing);
    return error;
}

void marceli_accept_entry_close(marceli_accept_entry_t *entry)
{
    marceli_accept_entry_t **at;
    madi_static_mutex_lock(&changing);
    madi_static_mutex_lock(&turn);
    for (at = &entries; *at && *at != entry; at = &(*at)->next)
        ;
    if (*at) {
        atomic_store_explicit(&entry->open, false, memory_order_relaxed);
        epoll_ctl(epfd, EPOLL_CTL_DEL, entry->fd, NULL);
        *at = entry->next;
    }
    madi_static_mutex_unlock(&turn);
    if (runs && !entries)
        accept_thread_stop();
    madi_static_mutex_unlock(&changing);
}

void madi_accept_thread_forked(void)
{
    entries = NULL;
    runs = 0;
}

void marceli_accept_entry_call_at(marceli_accept_entry_t *entry, int64_t when)
{
    int64_t before;
    if (!atomic_load_explicit(&entry->open, memory_order_acquire))
        return;
    before = atomic_load_explicit(&entry->serve_at, memory_order_relaxed);
    while (when < before && !atomic_compare_exchange_weak_explicit(&entry->serve_at, &before, when, memory_order_release,
                                                                   memory_order_relaxed))
        ;
    accept_thread_wake();
}

int madi_accept_thread_runs(void)
{
    return runs;
}
