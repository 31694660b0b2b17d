/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: sleep.  A provider whose completion queue has a descriptor (tcp;ofi_rxm) is watched, and fi_trywait looks once more
 * before the sleep.  A provider without a descriptor (shm, sockets) is polled by a timer while the process sleeps, at a period
 * that grows while nothing comes. */
#include "drivers/ofi/ofi.h"

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

/* True if the provider has nothing, and will make the descriptor readable when it has something.  Else *error is why not. */
static bool queue_is_quiet(ofi_adapter_t *a, int *error)
{
    struct fid *fids[1] = {&a->cq->fid};
    madi_lock(&a->io);
    *error = -fi_trywait(a->fabric, fids, 1);
    madi_unlock(&a->io);
    return !*error;
}

/* The descriptor of ofi_rxm stays readable after a message, until fi_trywait is called: call it when the queue is empty. */
static void cq_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_adapter_t *a = MADI_CONTAINER(watch, ofi_adapter_t, cq_watch);
    int error;
    (void)events;
    if (ofi_drain(a) || !queue_is_quiet(a, &error))
        fabric_heat(&a->heat);
}

static void nap_set(ofi_adapter_t *a, int64_t ns)
{
    timerfd_settime(a->nap.fd, 0, &(struct itimerspec){{0, 0}, {ns / 1000000000, ns % 1000000000}}, NULL);
}

static void nap_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_adapter_t *a = MADI_CONTAINER(watch, ofi_adapter_t, nap);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    if (ofi_drain(a))
        fabric_heat(&a->heat);
}

static mad_status_t watch_open(ofi_adapter_t *a, madi_watch_t *watch, void (*ready)(madi_watch_t *, uint32_t), char *reason)
{
    watch->ready = ready;
    watch->carries = true;
    if (watch->fd >= 0 && madi_watch_add(a->base.session, watch, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "the completion queue cannot be watched: %s%s", strerror(errno), madi_remedy(errno));
    return MAD_ERR_SYSTEM;
}

static mad_status_t nap_open(ofi_adapter_t *a, char *reason)
{
    mad_status_t status;
    a->nap_ns = NAP_MIN;
    a->nap.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    status = watch_open(a, &a->nap, nap_ready, reason);
    if (status && a->nap.fd >= 0)
        madi_fd_close(a->nap.fd);
    if (status)
        a->nap.fd = -1;
    return status;
}

mad_status_t ofi_wait_open(ofi_adapter_t *a, char *reason)
{
    if (a->cq_watch.fd <= 0)
        return nap_open(a, reason);
    mad_status_t status = watch_open(a, &a->cq_watch, cq_ready, reason);
    if (status)
        a->cq_watch.fd = 0; /* libfabric owns the descriptor */
    return status;
}

/* Poll by the timer from now on, since the descriptor cannot be relied upon. */
static void descriptor_give_up(ofi_adapter_t *a, int error)
{
    char reason[MADI_REASON_MAX];
    if (nap_open(a, reason)) /* without a timer: try the descriptor again the next time */
        return;
    madi_watch_del(a->base.session, &a->cq_watch);
    a->cq_watch.fd = 0;
    madi_log(MADI_LOG_WARN, "ofi", "%s: fi_trywait: %s; the queue is polled by a timer", a->base.name,
             a->fi->strerror(error));
}

void ofi_wait_close(ofi_adapter_t *a)
{
    if (a->cq_watch.ready && a->cq_watch.fd > 0)
        madi_watch_del(a->base.session, &a->cq_watch);
    a->cq_watch.fd = 0;
    if (a->nap.fd <= 0)
        return;
    madi_watch_del(a->base.session, &a->nap);
    madi_fd_close(a->nap.fd);
    a->nap.fd = -1;
}

bool ofi_arm(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    int error;
    if (a->deferred || a->n_stash || a->tried > 1)
        return false;
    ofi_buffers_post(a);
    if (a->cq_watch.fd > 0) {
        if (queue_is_quiet(a, &error))
            return true;
        fabric_heat(&a->heat); /* so that the next poll reads the queue */
        if (error != FI_EAGAIN)
            descriptor_give_up(a, error);
        return false;
    }
    bool idle = fabric_heat_left(&a->heat) <= 1; /* true if nothing came since the last sleep */
    a->nap_ns = !idle ? NAP_MIN : a->nap_ns < NAP_MAX / 2 ? a->nap_ns * 2 : NAP_MAX;
    atomic_store_explicit(&a->heat.hot, 1, memory_order_relaxed);
    nap_set(a, a->nap_ns);
    return true;
}

void ofi_disarm(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    if (a->cq_watch.fd > 0)
        return;
    nap_set(a, 0);
    atomic_store_explicit(&a->heat.skip, 0, memory_order_relaxed); /* the next poll reads the queue */
}
