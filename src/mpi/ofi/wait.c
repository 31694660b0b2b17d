/* SPDX-License-Identifier: BSD-3-Clause */
/* How a thread sleeps until something is queued.  The thread sleeps either in a call of this provider, like a receive of the
 * library, which makes progress.  Or it sleeps outside, on a descriptor, while the library's progress thread makes progress.
 * The descriptor is written to only if a thread may be sleeping on it. */
#include "engine/wait_policy.h"
#include "ofi.h"

#include <errno.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int mad_ofi_wait_open(mad_ofi_wait_t *wait, enum fi_wait_obj kind)
{
    atomic_init(&wait->armed, false);
    atomic_init(&wait->soon, true);
    wait->fd = -1;
    if (kind == FI_WAIT_NONE)
        return 0;
    if (kind != FI_WAIT_UNSPEC && kind != FI_WAIT_FD && kind != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    wait->cond = mad_cond_new();
    if (!wait->cond)
        return -FI_ENOMEM;
    wait->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wait->fd >= 0)
        return 0;
    mad_cond_free(wait->cond);
    return -errno;
}

void mad_ofi_wait_close(mad_ofi_wait_t *wait)
{
    if (wait->fd < 0)
        return;
    close(wait->fd);
    mad_cond_free(wait->cond);
}

void mad_ofi_wait_wake(mad_ofi_wait_t *wait)
{
    uint64_t one = 1;
    if (wait->fd < 0)
        return;
    /* the fence in mad_cond_wake pairs with that in mad_ofi_wait_arm: the sleeper sees the entry, or this thread sees
     * `armed` */
    mad_cond_wake(wait->cond);
    if (atomic_load_explicit(&wait->armed, memory_order_relaxed) && atomic_exchange(&wait->armed, false)) {
        ssize_t n = write(wait->fd, &one, sizeof one);
        (void)n; /* the descriptor is readable in any case */
        atomic_store(&wait->soon, now_ns() - atomic_load(&wait->armed_at) < MADI_OFI_MOMENT_NS);
    }
}

void mad_ofi_wait_arm(mad_ofi_wait_t *wait)
{
    uint64_t value;
    ssize_t n = read(wait->fd, &value, sizeof value);
    (void)n;
    atomic_store(&wait->armed_at, now_ns());
    atomic_store(&wait->armed, true);
    atomic_thread_fence(memory_order_seq_cst);
}

bool mad_ofi_wait_moment(mad_ofi_wait_t *wait, int (*test)(void *arg), void *arg)
{
    return mad_cond_wait(wait->cond, test, arg, MADI_OFI_MOMENT_NS) == MAD_OK;
}

/* True if messages are taken only by polling, because no thread sleeps on these endpoints. */
static bool polls(const mad_ofi_wait_t *wait, const mad_ofi_eps_t *eps)
{
    bool polled = wait->fd < 0;
    int n = eps ? atomic_load(&eps->n) : 0;
    for (int i = 0; i < n && !polled; i++)
        polled = !eps->at[i]->by_handler;
    return polled;
}

bool mad_ofi_wait_for(mad_ofi_wait_t *wait, mad_ofi_eps_t *eps, int (*test)(void *arg), void *arg, int64_t begin, int ms)
{
    bool polled = polls(wait, eps);
    for (;;) {
        int left = mad_ofi_left(begin, ms);
        int64_t slice = left < 0 || left > MADI_OFI_SLICE_MS ? MADI_OFI_SLICE_MS : left;
        if (polled ? test(arg) : mad_cond_wait(wait->cond, test, arg, slice * 1000000) == MAD_OK)
            return true;
        if ((!eps || !mad_ofi_eps_progress(eps)) && polled)
            sched_yield();
        if (!left)
            return test(arg);
    }
}

int mad_ofi_wait_control(mad_ofi_wait_t *wait, int command, void *arg)
{
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = wait->fd < 0 ? FI_WAIT_NONE : FI_WAIT_FD;
        return 0;
    }
    if (command != FI_GETWAIT || wait->fd < 0)
        return -FI_ENOSYS;
    *(int *)arg = wait->fd;
    return 0;
}

int mad_ofi_left(int64_t begin, int ms)
{
    int64_t left;
    if (ms < 0)
        return -1;
    left = begin + ms - mad_dev_clock();
    return left > 0 ? (int)left : 0;
}
