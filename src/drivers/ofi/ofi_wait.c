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
    if (ofi_drain(&a->base) || (a->cq && !queue_is_quiet(a, &error)))
        fabric_heat(&a->base.heat);
}

mad_status_t ofi_wait_open(ofi_adapter_t *a, char *reason)
{
    if (a->cq_watch.fd <= 0)
        return fabric_nap_open(&a->base, reason);
    a->cq_watch.ready = cq_ready;
    a->cq_watch.carries = true;
    if (madi_watch_add(a->base.adapter.session, &a->cq_watch, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "the completion queue cannot be watched: %s%s", strerror(errno), madi_remedy(errno));
    a->cq_watch.fd = 0; /* libfabric owns the descriptor */
    return MAD_ERR_SYSTEM;
}

/* From now on poll by the timer, since the provider's descriptor is unreliable. */
static void descriptor_give_up(ofi_adapter_t *a, int error)
{
    char reason[MADI_REASON_MAX];
    if (fabric_nap_open(&a->base, reason)) /* without a timer: try the descriptor again the next time */
        return;
    madi_watch_del(a->base.adapter.session, &a->cq_watch);
    a->cq_watch.fd = 0;
    madi_log(MADI_LOG_WARN, "ofi", "%s: fi_trywait: %s; the queue is polled by a timer", a->base.adapter.name,
             a->lib->strerror(error));
}

void ofi_wait_close(ofi_adapter_t *a)
{
    if (a->cq_watch.ready && a->cq_watch.fd > 0)
        madi_watch_del(a->base.adapter.session, &a->cq_watch);
    a->cq_watch.fd = 0;
    fabric_nap_close(&a->base);
}

bool ofi_arm(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    int error;
    if (a->base.deferred || a->n_stash || a->base.tried > 1)
        return false;
    ofi_buffers_post(a);
    if (!a->cq)
        return true;
    if (a->cq_watch.fd > 0) {
        if (queue_is_quiet(a, &error))
            return true;
        fabric_heat(&a->base.heat); /* makes the next poll read the queue */
        if (error != FI_EAGAIN)
            descriptor_give_up(a, error);
        return false;
    }
    fabric_nap_arm(&a->base);
    return true;
}

void ofi_disarm(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    if (a->cq_watch.fd <= 0)
        fabric_nap_disarm(&a->base);
}
