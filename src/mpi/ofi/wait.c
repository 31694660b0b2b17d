/* SPDX-License-Identifier: BSD-3-Clause */
/* How a thread sleeps until something is queued: a descriptor that is written to only if somebody may be waiting. */
#include "ofi.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SLICE 100 /* ms: so often who waits looks for peers that are lost */

int mad_ofi_wait_open(mad_ofi_wait_t *wait, enum fi_wait_obj kind)
{
    atomic_init(&wait->armed, false);
    wait->fd = -1;
    if (kind == FI_WAIT_NONE)
        return 0;
    if (kind != FI_WAIT_UNSPEC && kind != FI_WAIT_FD && kind != FI_WAIT_YIELD)
        return -FI_ENOSYS;
    wait->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return wait->fd < 0 ? -errno : 0;
}

void mad_ofi_wait_close(mad_ofi_wait_t *wait)
{
    if (wait->fd >= 0)
        close(wait->fd);
}

void mad_ofi_wait_wake(mad_ofi_wait_t *wait)
{
    uint64_t one = 1;
    if (wait->fd < 0)
        return;
    /* the fence pairs with that of arm: the waiter sees what is queued, or is seen */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&wait->armed, memory_order_relaxed) && atomic_exchange(&wait->armed, false)) {
        ssize_t n = write(wait->fd, &one, sizeof one);
        (void)n; /* it is readable, whatever is in it */
    }
}

void mad_ofi_wait_arm(mad_ofi_wait_t *wait)
{
    uint64_t value;
    ssize_t n = read(wait->fd, &value, sizeof value);
    (void)n;
    atomic_store(&wait->armed, true);
    atomic_thread_fence(memory_order_seq_cst);
}

void mad_ofi_wait_sleep(mad_ofi_wait_t *wait, int timeout_ms)
{
    struct pollfd p = {.fd = wait->fd, .events = POLLIN};
    poll(&p, 1, timeout_ms < 0 || timeout_ms > SLICE ? SLICE : timeout_ms);
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
