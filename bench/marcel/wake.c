/* SPDX-License-Identifier: BSD-3-Clause */
/* A plain pthread wakes a thread of a worker that sleeps in the kernel, on the same processor.  The time is from before
 * the post until the thread runs.  Another thread of the worker waits for a descriptor, so the worker leads, and sleeps
 * in epoll.  For comparison, in turn: a pthread that sleeps in epoll and is woken by a write to an eventfd, which is
 * the kernel's part of the time; and a pthread that sleeps on a futex, which cannot wait for descriptors. */
#include "../marcel_perf.h"

#include <errno.h>
#include <linux/futex.h>
#include <marcel.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YIELDS 4 /* yields until the woken thread sleeps again */

static double posted, waited;
static int turns;

static void let_it_sleep(void)
{
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
}

static marcel_sem_t go, back;

static int descriptor[2];

static void *wait_for_descriptor(void *arg)
{
    char c;
    return marcel_read(descriptor[0], &c, 1) == 1 ? arg : NULL;
}

static void *woken_marcel(void *arg)
{
    for (int i = turns; i > 0; i--) {
        marcel_sem_wait(&go);
        waited += perf_now() - posted;
        marcel_sem_post(&back);
    }
    return arg;
}

static double batch_marcel(int n)
{
    marcel_t thread, beside;
    turns = n;
    waited = 0;
    marcel_sem_init(&go, 0, 0);
    marcel_sem_init(&back, 0, 0);
    if (!perf_ok("pipe", pipe(descriptor) ? errno : 0) ||
        !perf_ok("marcel_create", marcel_create(&beside, NULL, wait_for_descriptor, NULL)) ||
        !perf_ok("marcel_create", marcel_create(&thread, NULL, woken_marcel, NULL)))
        return -1;
    for (int i = 0; i < n; i++) {
        let_it_sleep();
        posted = perf_now();
        marcel_sem_post(&go);
        marcel_sem_wait(&back);
    }
    marcel_join(thread, NULL);
    if (write(descriptor[1], "", 1) == 1)
        marcel_join(beside, NULL);
    close(descriptor[0]);
    close(descriptor[1]);
    return waited / n;
}

static atomic_uint word[2];

static void futex_wait(atomic_uint *at, unsigned value)
{
    while (atomic_load(at) == value)
        syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_post(atomic_uint *at)
{
    atomic_fetch_add(at, 1);
    syscall(SYS_futex, at, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *woken_posix(void *arg)
{
    for (unsigned i = 0; i < (unsigned)turns; i++) {
        futex_wait(&word[0], i);
        waited += perf_now() - posted;
        futex_post(&word[1]);
    }
    return arg;
}

static int bell = -1, bells = -1; /* an eventfd, and the edge-triggered epoll set that holds it */

static void *woken_epoll(void *arg)
{
    struct epoll_event event;
    for (int i = 0; i < turns; i++) {
        if (epoll_pwait2(bells, &event, 1, NULL, NULL) != 1)
            return NULL;
        waited += perf_now() - posted;
        futex_post(&word[1]);
    }
    return arg;
}

static bool bell_open(void)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bells = epoll_create1(EPOLL_CLOEXEC);
    return bell >= 0 && bells >= 0 && !epoll_ctl(bells, EPOLL_CTL_ADD, bell, &event);
}

static double batch_epoll(int n)
{
    const uint64_t one = 1;
    pthread_t thread;
    turns = n;
    waited = 0;
    atomic_store(&word[1], 0);
    if (!perf_ok("epoll", bell >= 0 || bell_open() ? 0 : errno) ||
        !perf_ok("pthread_create", pthread_create(&thread, NULL, woken_epoll, &bell)))
        return -1;
    for (unsigned i = 0; i < (unsigned)n; i++) {
        let_it_sleep();
        posted = perf_now();
        if (write(bell, &one, sizeof one) != sizeof one)
            return -1;
        futex_wait(&word[1], i);
    }
    pthread_join(thread, NULL);
    return waited / n;
}

static double batch_posix(int n)
{
    pthread_t thread;
    turns = n;
    waited = 0;
    atomic_store(&word[0], 0);
    atomic_store(&word[1], 0);
    if (!perf_ok("pthread_create", pthread_create(&thread, NULL, woken_posix, NULL)))
        return -1;
    for (unsigned i = 0; i < (unsigned)n; i++) {
        let_it_sleep();
        posted = perf_now();
        futex_post(&word[0]);
        futex_wait(&word[1], i);
    }
    pthread_join(thread, NULL);
    return waited / n;
}

const perf_test_t perf_wake = {
    .name = "wake",
    .help = "wake a thread whose worker sleeps in epoll, on one processor; beside it epoll alone, and a futex",
    .marcel = batch_marcel,
    .pthread = batch_posix,
    .beside = batch_epoll,
    .beside_name = "epoll",
    .n = 2000,
    .pthread_n = 2000,
    .workers = 1,
    .one_cpu = true};
