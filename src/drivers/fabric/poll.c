/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/poll.h"

#include "base/log.h"
#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define NAP_MIN INT64_C(50000)   /* ns: first period */
#define NAP_MAX INT64_C(4000000) /* ns: longest period */

bool fabric_pure_poll(madi_adapter_t *adapter)
{
    return fabric_heat_polls(&((fabric_adapter_t *)adapter)->heat);
}

static void fabric_nap_set(fabric_adapter_t *a, int64_t ns)
{
    timerfd_settime(a->nap.fd, 0, &(struct itimerspec){{0, 0}, {ns / 1000000000, ns % 1000000000}}, NULL);
}

static void fabric_nap_ready(madi_watch_t *watch, uint32_t events)
{
    fabric_adapter_t *a = MADI_CONTAINER(watch, fabric_adapter_t, nap);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    if (a->ops->drain(a))
        fabric_heat(&a->heat);
}

mad_status_t fabric_nap_open(fabric_adapter_t *a, char *reason)
{
    a->nap_ns = NAP_MIN;
    a->nap.ready = fabric_nap_ready;
    a->nap.carries = true;
    a->nap.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (a->nap.fd >= 0 && madi_watch_add(a->adapter.session, &a->nap, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no timer: %s%s", strerror(errno), madi_remedy(errno));
    if (a->nap.fd >= 0)
        madi_fd_close(a->nap.fd);
    a->nap.fd = -1;
    return MAD_ERR_SYSTEM;
}

void fabric_nap_close(fabric_adapter_t *a)
{
    if (a->nap.fd <= 0)
        return;
    madi_watch_del(a->adapter.session, &a->nap);
    madi_fd_close(a->nap.fd);
    a->nap.fd = -1;
}

void fabric_nap_arm(fabric_adapter_t *a)
{
    bool idle = fabric_heat_left(&a->heat) <= 1; /* true if nothing came since the last sleep */
    a->nap_ns = !idle ? NAP_MIN : a->nap_ns < NAP_MAX / 2 ? a->nap_ns * 2 : NAP_MAX;
    atomic_store_explicit(&a->heat.hot, 1, memory_order_relaxed);
    fabric_nap_set(a, a->nap_ns);
}

void fabric_nap_disarm(fabric_adapter_t *a)
{
    fabric_nap_set(a, 0);
    atomic_store_explicit(&a->heat.skip, 0, memory_order_relaxed);
}
