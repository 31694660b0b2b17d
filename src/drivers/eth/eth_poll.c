/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: progress, timeouts, and sleep.  All functions but eth_pure_poll are called under the session's lock.
 *
 *   a frame comes     a thread that spins sees it in the ring; one that sleeps is woken by the ring's descriptor
 *   a time is due     a thread that spins polls now and then; one that sleeps is woken by `timer`, which arm sets; while the
 *                     program computes, `tick` does both rarely */
#include "drivers/eth/eth.h"

#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define READY_MAX 256 /* maximum number of frames that are handled before other descriptors are checked */

void eth_touch(eth_link_t *l)
{
    eth_adapter_t *a = eth_of(l);
    if (l->is_touched || l->closed)
        return;
    l->is_touched = true;
    l->next_touched = a->touched;
    a->touched = l;
    eth_attend(a);
}

/* ---- Work at the end of a poll -------------------------------------------------------------------------------- */

/* Acknowledge now or note when. */
static void ack_settle(eth_link_t *l, int64_t now)
{
    uint32_t owed = eth_in_owed(&l->in);
    if (l->in.now || owed >= ETH_ACK_EVERY || (l->ack_due && now >= l->ack_due && owed)) {
        eth_ack_send(l, false);
    } else if (!owed) {
        l->ack_due = 0;
    } else {
        l->ack_due = l->ack_due ? l->ack_due : now + ETH_ACK_NS;
        eth_due(eth_of(l), l->ack_due);
    }
}

/* Send what a link owes or may send, and complete its ops.  Return the number of events. */
static int link_settle(eth_link_t *l, int64_t now)
{
    int events;
    madi_link_lock_tx(&l->base);
    if (l->out.lost || l->cutting)
        eth_flush(l, now);
    bool room = l->n_packets < ETH_PACKETS;
    madi_link_unlock_tx(&l->base);
    ack_settle(l, now);
    events = eth_ops_done(l);
    if (!l->closed && room && atomic_exchange_explicit(&l->refused, false, memory_order_relaxed)) {
        madi_link_writable(&l->base);
        events++;
    }
    if (!l->closed)
        eth_bye_check(l, false);
    return events;
}

static int touched_settle(eth_adapter_t *a, int64_t now)
{
    int events = 0;
    for (eth_link_t *l; (l = a->touched);) {
        a->touched = l->next_touched;
        l->is_touched = false;
        events += link_settle(l, now);
    }
    return events;
}

/* Return link number i; NULL if there is none that is up. */
static eth_link_t *link_up_at(const eth_adapter_t *a, int i)
{
    eth_link_t *l = a->links.links[i];
    return l && l->started && !l->closed && !l->down ? l : NULL;
}

/* Handle expired timeouts, and find the next timeout. */
static void times_handle(eth_adapter_t *a, int64_t now)
{
    atomic_store_explicit(&a->due, INT64_MAX, memory_order_relaxed);
    for (int i = 0; i < a->links.n; i++) {
        eth_link_t *l = link_up_at(a, i);
        if (!l)
            continue;
        madi_link_lock_tx(&l->base);
        eth_out_expire(&l->out, now);
        if (l->out.lost || l->cutting)
            eth_flush(l, now);
        eth_due(a, eth_out_due(&l->out, l->cutting != NULL));
        bool too_long = l->too_long;
        l->too_long = false;
        madi_link_unlock_tx(&l->base);
        ack_settle(l, now);
        if (MADI_UNLIKELY(too_long))
            eth_too_long(l);
    }
}

/* ---- Polling ---------------------------------------------------------------------------------------------------- */

bool eth_pure_poll(madi_adapter_t *adapter)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    size_t len;
    return atomic_load_explicit(&a->attention, memory_order_relaxed) || eth_ring_frame(&a->ring, &len);
}

int eth_poll(madi_adapter_t *adapter, int budget)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    int events = 0;
    size_t len;
    atomic_store_explicit(&a->attention, false, memory_order_relaxed);
    if (MADI_UNLIKELY(a->deferred != NULL))
        events += eth_deferred_run(a);
    for (const void *frame; events < budget && (frame = eth_ring_frame(&a->ring, &len)); events++) {
        unsigned slot = eth_ring_step(&a->ring, frame);
        eth_frame_handle(a, frame, len);
        eth_ring_release(&a->ring, slot);
    }
    int64_t now = madi_now();
    if (MADI_UNLIKELY(now >= atomic_load_explicit(&a->due, memory_order_relaxed)))
        times_handle(a, now);
    return events + touched_settle(a, now);
}

static void eth_frames_ready(madi_watch_t *watch, uint32_t events)
{
    eth_adapter_t *a = MADI_CONTAINER(watch, eth_adapter_t, frames);
    int error = 0;
    socklen_t len = sizeof error;
    if (events & (EPOLLERR | EPOLLHUP) && !getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &len) && error)
        madi_log(MADI_LOG_WARN, "eth", "%s: %s; connections wait until the interface is up", a->base.name, strerror(error));
    eth_poll(&a->base, READY_MAX);
}

static void eth_xdp_ready(madi_watch_t *watch, uint32_t events)
{
    (void)events;
    eth_poll(&MADI_CONTAINER(watch, eth_adapter_t, xdp_frames)->base, READY_MAX);
}

static void eth_timer_ready(madi_watch_t *watch, uint32_t events)
{
    eth_adapter_t *a = MADI_CONTAINER(watch, eth_adapter_t, timer);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) == sizeof n)
        a->armed = 0;
    eth_poll(&a->base, READY_MAX);
}

/* Check a link whose peer nothing else watches. */
static void eth_link_look(eth_link_t *l)
{
    char text[MADI_REASON_MAX];
    switch (fabric_end_look(&l->end, text)) {
    case FABRIC_LOOK_HEARD: break;
    case FABRIC_LOOK_SILENT: eth_ack_send(l, true); break;
    case FABRIC_LOOK_GONE: eth_down(l, MAD_ERR_PEER, text); break;
    }
}

static void eth_tick_ready(madi_watch_t *watch, uint32_t events)
{
    eth_adapter_t *a = MADI_CONTAINER(watch, eth_adapter_t, tick);
    (void)events;
    if (!fabric_tick_take(watch))
        return;
    eth_poll(&a->base, READY_MAX);
    int64_t now = madi_now();
    times_handle(a, now);
    bool looks = now - a->looked >= fabric_look_ns();
    if (looks)
        a->looked = now;
    for (int i = 0; i < a->links.n; i++) {
        eth_link_t *l = link_up_at(a, i);
        if (!l)
            continue;
        eth_bye_check(l, true);
        if (looks && !l->closed)
            eth_link_look(l);
        if (looks)
            eth_stall_check(l, now);
    }
}

/* ---- Sleep ------------------------------------------------------------------------------------------------------ */

static bool timer_set(eth_adapter_t *a, int64_t at)
{
    struct itimerspec when = {.it_value = {at / 1000000000, at % 1000000000}};
    if (at == INT64_MAX || (a->armed && a->armed <= at))
        return true;
    a->armed = at;
    return !timerfd_settime(a->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

bool eth_arm(madi_adapter_t *adapter)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    if (eth_pure_poll(adapter) || a->deferred)
        return false;
    for (int i = 0; i < a->links.n; i++) {
        eth_link_t *l = link_up_at(a, i);
        if (l && eth_in_owed(&l->in))
            eth_ack_send(l, false);
    }
    return timer_set(a, atomic_load_explicit(&a->due, memory_order_relaxed)) && !eth_pure_poll(adapter);
}

mad_status_t eth_wait_open(eth_adapter_t *a, char *reason)
{
    struct mad_session *session = a->base.session;
    atomic_store_explicit(&a->due, INT64_MAX, memory_order_relaxed);
    a->hellos.ready = eth_hellos_ready;
    a->frames = (madi_watch_t){.fd = a->ring.fd, .ready = eth_frames_ready, .carries = true};
    a->xdp_frames = (madi_watch_t){.fd = a->ring.xdp.fd, .ready = eth_xdp_ready, .carries = true};
    a->timer = (madi_watch_t){.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
                              .ready = eth_timer_ready};
    a->tick.ready = eth_tick_ready;
    if (a->timer.fd < 0 || madi_watch_add(session, &a->timer, EPOLLIN) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "no timer: %s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    if (madi_watch_add(session, &a->frames, EPOLLIN) != MAD_OK ||
        (a->xdp_frames.fd > 0 && madi_watch_add(session, &a->xdp_frames, EPOLLIN) != MAD_OK) ||
        madi_watch_add_rare(session, &a->hellos, EPOLLIN) != MAD_OK) {
        snprintf(reason, MADI_REASON_MAX, "the packet sockets cannot be watched: %s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    a->watched = true;
    int64_t period = fabric_look_ns();
    return fabric_tick_open(session, &a->tick, period < ETH_TICK_NS ? period : ETH_TICK_NS, reason);
}

/* Also legal after a failed eth_wait_open: closing a descriptor ends its watch, too. */
void eth_wait_close(eth_adapter_t *a)
{
    if (a->watched) {
        madi_watch_del(a->base.session, &a->timer);
        madi_watch_del(a->base.session, &a->frames);
        if (a->xdp_frames.fd > 0)
            madi_watch_del(a->base.session, &a->xdp_frames);
        madi_watch_del(a->base.session, &a->hellos);
        fabric_tick_close(a->base.session, &a->tick);
    }
    a->watched = false;
}

void eth_wait_fini(eth_adapter_t *a)
{
    if (a->timer.fd > 0)
        madi_fd_close(a->timer.fd);
    a->timer.fd = 0;
}
