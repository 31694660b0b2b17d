/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/accept_thread.h"
#include "base/clock.h"
#include "base/own.h"
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

static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER; /* one opens or closes; outside of `turn` */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;     /* the list, and answers */
static marceli_door_t *doors;
static int epfd, bell_fd; /* while the thread runs */
static _Atomic(bool) stopping;
static pthread_t thread;
static _Atomic(int) runs;

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

enum found { NOBODY, ANSWERED, IN_VAIN };

static enum found answer_all(int64_t *again)
{
    enum found found = NOBODY;
    *again = INT64_MAX;
    pthread_mutex_lock(&turn);
    for (marceli_door_t *door = doors; door; door = door->next) {
        bool somebody = readable(door->fd, 0);
        int64_t call_at = atomic_exchange_explicit(&door->call_at, INT64_MAX, memory_order_acquire); /* marceli_door_call */
        if (call_at < door->again)
            door->again = call_at;
        if (somebody || madi_now() >= door->again) {
            door->again = INT64_MAX;
            if (door->answer(door->arg, &door->again))
                found = ANSWERED;
            else if (somebody && !found)
                found = IN_VAIN;
        }
        if (door->again < *again)
            *again = door->again;
    }
    pthread_mutex_unlock(&turn);
    return found;
}

static int ms_until(int64_t then)
{
    int64_t ms;
    if (then == INT64_MAX)
        return -1;
    ms = (then - madi_now()) / 1000000 + 1;
    return ms < MADI_NAP_MIN_MS ? MADI_NAP_MIN_MS : ms > INT_MAX ? INT_MAX : (int)ms;
}

static void ring(void)
{
    eventfd_write(bell_fd, 1);
}

static void *run(void *arg)
{
    int64_t again = INT64_MAX;
    int nap = MADI_NAP_MIN_MS;
    struct epoll_event event;
    eventfd_t rings;
    for (;;) {
        int n = epoll_wait(epfd, &event, 1, ms_until(again));
        if (readable(bell_fd, n > 0 ? nap : 0))
            eventfd_read(bell_fd, &rings);
        if (stopping)
            return arg;
        switch (answer_all(&again)) {
        case NOBODY: nap = MADI_NAP_MIN_MS; break; /* a thread inside the library was first */
        case ANSWERED: nap = 0; break;     /* nobody is, and more will come */
        case IN_VAIN: nap = !nap ? MADI_NAP_MIN_MS : nap < MADI_NAP_MAX_MS ? 2 * nap : MADI_NAP_MAX_MS; break;
        }
    }
}

static int thread_make(void)
{
    pthread_attr_t attr;
    int error;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    error = madi_helper_make(&thread, &attr, "mad-door", run, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

static int watch(int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

static int start(void)
{
    int error;
    epfd = madi_fd_own(epoll_create1(EPOLL_CLOEXEC));
    if (epfd < 0)
        return errno;
    bell_fd = madi_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    error = bell_fd < 0 ? errno : watch(bell_fd);
    if (!error)
        error = thread_make();
    if (!error) {
        runs = 1;
        return 0;
    }
    if (bell_fd >= 0)
        madi_fd_close(bell_fd);
    madi_fd_close(epfd);
    return error;
}

static void stop(void)
{
    stopping = true;
    ring();
    pthread_join(thread, NULL);
    stopping = false;
    runs = 0;
    madi_fd_close(bell_fd);
    madi_fd_close(epfd);
}

int marceli_door_open(marceli_door_t *door)
{
    int error;
    pthread_mutex_lock(&changing);
    error = runs ? 0 : start();
    if (!error)
        error = watch(door->fd);
    pthread_mutex_lock(&turn);
    if (!error) {
        door->next = doors;
        doors = door;
        atomic_store_explicit(&door->call_at, INT64_MAX, memory_order_relaxed);
        atomic_store_explicit(&door->open, true, memory_order_release); /* pairs with marceli_door_call */
        ring(); /* it may be called at once */
    }
    pthread_mutex_unlock(&turn);
    if (runs && !doors)
        stop();
    pthread_mutex_unlock(&changing);
    return error;
}

void marceli_door_close(marceli_door_t *door)
{
    marceli_door_t **at;
    pthread_mutex_lock(&changing);
    pthread_mutex_lock(&turn);
    for (at = &doors; *at && *at != door; at = &(*at)->next)
        ;
    if (*at) {
        atomic_store_explicit(&door->open, false, memory_order_relaxed);
        epoll_ctl(epfd, EPOLL_CTL_DEL, door->fd, NULL);
        *at = door->next;
    }
    pthread_mutex_unlock(&turn);
    if (runs && !doors)
        stop();
    pthread_mutex_unlock(&changing);
}

void madi_door_forked(void)
{
    doors = NULL;
    runs = 0;
    pthread_mutex_init(&changing, NULL);
    pthread_mutex_init(&turn, NULL);
}

void marceli_door_call(marceli_door_t *door, int64_t when)
{
    int64_t before;
    if (!atomic_load_explicit(&door->open, memory_order_acquire))
        return;
    before = atomic_load_explicit(&door->call_at, memory_order_relaxed);
    while (when < before && !atomic_compare_exchange_weak_explicit(&door->call_at, &before, when, memory_order_release,
                                                                   memory_order_relaxed))
        ;
    ring();
}

int madi_door_runs(void)
{
    return runs;
}
