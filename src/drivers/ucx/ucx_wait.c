/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: sleep.  A worker has a descriptor for all its transports, which ucp_worker_arm arms. */
#include "drivers/ucx/ucx.h"

#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* Return true if no event waits in UCX.  UCX then makes the descriptor readable when an event comes. */
static bool worker_arm(ucx_adapter_t *a)
{
    madi_lock(&a->io);
    ucs_status_t status = a->base.broken ? UCS_OK : a->lib->worker_arm(a->worker);
    madi_unlock(&a->io);
    return status == UCS_OK;
}

static void wakeup_ready(madi_watch_t *watch, uint32_t events)
{
    ucx_adapter_t *a = MADI_CONTAINER(watch, ucx_adapter_t, wakeup);
    (void)events;
    if (ucx_drain(&a->base) || !worker_arm(a)) /* some transports' descriptors stay readable until they are armed */
        fabric_heat(&a->base.heat);
}

mad_status_t ucx_wakeup_open(ucx_adapter_t *a, char *reason)
{
    ucs_status_t status = a->lib->worker_get_efd(a->worker, &a->wakeup.fd);
    a->wakeup.ready = wakeup_ready;
    a->wakeup.carries = true;
    if (status != UCS_OK) {
        a->wakeup.fd = 0;
        snprintf(reason, MADI_REASON_MAX, "UCX has no descriptor that wakes a waiting thread for device %s: %.60s",
                 a->base.adapter.name, a->lib->status_string(status));
        return MAD_ERR_SYSTEM;
    }
    if (madi_watch_add(a->base.adapter.session, &a->wakeup, EPOLLIN) == MAD_OK)
        return MAD_OK;
    a->wakeup.fd = 0;
    snprintf(reason, MADI_REASON_MAX, "UCX's worker cannot be watched: %s%s", strerror(errno), madi_remedy(errno));
    return MAD_ERR_SYSTEM;
}

void ucx_wakeup_close(ucx_adapter_t *a)
{
    if (a->wakeup.fd > 0)
        madi_watch_del(a->base.adapter.session, &a->wakeup);
    a->wakeup.fd = 0; /* UCX's */
}

bool ucx_arm(madi_adapter_t *adapter)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    if (a->base.deferred || a->first_arrived || a->landed || a->bodies || a->base.tried > 1)
        return false;
    if (worker_arm(a))
        return true;
    fabric_heat(&a->base.heat); /* makes the next poll call UCX */
    return false;
}
