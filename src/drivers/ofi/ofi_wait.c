/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: sleep.  A provider whose completion queue has a descriptor (tcp;ofi_rxm) is watched, and fi_trywait looks once more
 * before the sleep.  One without (shm) is polled by a timer while the process sleeps, at a period that grows while nothing
 * comes. */
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

static void cq_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_adapter_t *a = MADI_CONTAINER(watch, ofi_adapter_t, cq_watch);
    (void)events;
    ofi_heat(a);
    ofi_poll(&a->base, 64);
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
    a->nap_ns = ofi_drain(a) ? NAP_MIN : a->nap_ns < NAP_MAX / 2 ? a->nap_ns * 2 : NAP_MAX;
    nap_set(a, a->nap_ns);
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

mad_status_t ofi_wait_open(ofi_adapter_t *a, char *reason)
{
    mad_status_t status;
    if (a->cq_watch.fd > 0) {
        status = watch_open(a, &a->cq_watch, cq_ready, reason);
        if (status)
            a->cq_watch.fd = 0; /* libfabric's */
        return status;
    }
    a->nap_ns = NAP_MIN;
    a->nap.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    status = watch_open(a, &a->nap, nap_ready, reason);
    if (status && a->nap.fd >= 0)
        madi_fd_close(a->nap.fd);
    if (status)
        a->nap.fd = -1;
    return status;
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
    struct fid *fids[1] = {&a->cq->fid};
    if (a->deferred || a->n_stash || a->tried > 1)
        return false;
    ofi_buffers_post(a);
    if (a->cq_watch.fd > 0) {
        madi_lock(&a->io);
        int rc = fi_trywait(a->fabric, fids, 1);
        madi_unlock(&a->io);
        if (rc)
            ofi_heat(a); /* so that the next poll reads the queue */
        return !rc;
    }
    a->nap_ns = atomic_load_explicit(&a->hot, memory_order_relaxed) > 1 ? NAP_MIN : a->nap_ns;
    nap_set(a, a->nap_ns);
    return true;
}

void ofi_disarm(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    if (a->cq_watch.fd <= 0)
        nap_set(a, 0);
}
