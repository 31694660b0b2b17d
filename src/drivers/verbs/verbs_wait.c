/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: sleep, by the completion channel; and events of the device. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

static void channel_ready(madi_watch_t *watch, uint32_t events)
{
    verbs_adapter_t *a = MADI_CONTAINER(watch, verbs_adapter_t, channel_watch);
    struct ibv_cq *cq;
    void *arg;
    (void)events;
    while (!a->lib->get_cq_event(a->channel, &cq, &arg))
        a->lib->ack_cq_events(cq, 1);
    if (errno != EAGAIN && errno != EINTR)
        verbs_fail(a, "the completion channel cannot be read", strerror(errno));
    fabric_heat(&a->base.heat);
    verbs_drain(&a->base);
}

/* Handle an event of the device.  Events of a queue pair are only logged, since its completions report them, too. */
static void event_handle(verbs_adapter_t *a, enum ibv_event_type type)
{
    const char *text = a->lib->event_type_str(type);
    switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR: verbs_fail(a, "the device has failed", text); break;
    case IBV_EVENT_PORT_ERR: madi_log(MADI_LOG_WARN, "verbs", "%s: the port is down: %s", a->base.adapter.name, text); break;
    default: madi_log(MADI_LOG_DEBUG, "verbs", "%s: %s", a->base.adapter.name, text); break;
    }
}

static void device_event_ready(madi_watch_t *watch, uint32_t events)
{
    verbs_adapter_t *a = MADI_CONTAINER(watch, verbs_adapter_t, event_watch);
    struct ibv_async_event event;
    (void)events;
    while (!a->lib->get_async_event(a->context, &event)) {
        enum ibv_event_type type = event.event_type;
        /* acknowledged before an upcall, because destroying a queue pair waits for this acknowledgement */
        a->lib->ack_async_event(&event);
        event_handle(a, type);
    }
    if (errno != EAGAIN && errno != EINTR) {
        verbs_fail(a, "the events of the device cannot be read", strerror(errno));
        madi_watch_del(a->base.adapter.session, watch); /* else the failure would be reported again and again */
        watch->fd = 0;
    }
    verbs_drain(&a->base);
}

static bool descriptor_watch(verbs_adapter_t *a, madi_watch_t *watch, int fd,
                             mad_status_t (*add)(struct mad_session *session, madi_watch_t *watch, uint32_t events))
{
    int flags = fcntl(fd, F_GETFL);
    watch->fd = fd;
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) >= 0 && add(a->base.adapter.session, watch, EPOLLIN) == MAD_OK)
        return true;
    watch->fd = 0;
    return false;
}

mad_status_t verbs_wait_open(verbs_adapter_t *a, char *reason)
{
    a->channel_watch.ready = channel_ready;
    a->channel_watch.carries = true;
    a->event_watch.ready = device_event_ready;
    a->cm_watch.ready = verbs_cm_ready;
    if (descriptor_watch(a, &a->channel_watch, a->channel->fd, madi_watch_add) &&
        descriptor_watch(a, &a->event_watch, a->context->async_fd, madi_watch_add_rare) &&
        (!a->cm || descriptor_watch(a, &a->cm_watch, a->cm_channel->fd, madi_watch_add_rare)))
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "the completion channel of %.40s cannot be watched: %s", a->base.adapter.name,
             strerror(errno));
    return MAD_ERR_SYSTEM;
}

void verbs_wait_close(verbs_adapter_t *a)
{
    if (a->channel_watch.fd > 0)
        madi_watch_del(a->base.adapter.session, &a->channel_watch);
    if (a->event_watch.fd > 0)
        madi_watch_del(a->base.adapter.session, &a->event_watch);
    if (a->cm_watch.fd > 0)
        madi_watch_del(a->base.adapter.session, &a->cm_watch);
    a->channel_watch.fd = a->event_watch.fd = a->cm_watch.fd = 0;
}

bool verbs_arm(madi_adapter_t *adapter)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    if (a->base.deferred || a->n_stash || a->base.tried > 1 || a->cq_failed ||
        atomic_load_explicit(&a->base.failures, memory_order_relaxed)) {
        fabric_heat(&a->base.heat);
        return a->cq_failed;
    }
    if (a->base.broken) /* no connection is left */
        return true;
    verbs_slots_post(a);
    int rc = ibv_req_notify_cq(a->cq, 0), n = ibv_poll_cq(a->cq, VERBS_BATCH, a->stash);
    a->n_stash = n > 0 ? n : 0;
    if (rc) /* do not sleep, since nothing would wake the thread */
        verbs_fail(a, "the completion queue cannot be armed", strerror(rc));
    if (rc || n) {
        fabric_heat(&a->base.heat); /* makes the next poll handle the completions */
        return false;
    }
    return true;
}
