/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: progress, when polling is worth a call (drivers/fabric/heat.h), and sleep.  A worker has a descriptor for all its
 * transports, which ucp_worker_arm arms. */
#include "drivers/ucx/ucx.h"

#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define AWAIT_NS INT64_C(500000000) /* wait for memory that UCX uses as a link is closed */
#define DRAIN_MAX 4096              /* events */
#define DEAD_CALLS 8192             /* calls in which UCX handles a whole queue of shared memory */
#define PART 16                     /* packets between two looks at what is rare */

void ucx_links_fail(ucx_adapter_t *a, const char *what, ucs_status_t status, bool for_good)
{
    a->broken |= for_good;
    madi_log(MADI_LOG_ERROR, "ucx", "%s: %s: %s; the connections of this adapter are closed%s", a->base.name, what,
             a->lib->status_string(status), for_good ? ", and it takes no further ones" : "");
    for (int i = 0; i < a->links.n; i++)
        if (a->links.links[i])
            ucx_send_failed(a->links.links[i], status);
}

int ucx_progress(ucx_adapter_t *a)
{
    unsigned n = 0;
    madi_lock(&a->io);
    if (a->worker && !a->broken)
        n = a->lib->worker_progress(a->worker);
    madi_unlock(&a->io);
    if (n)
        fabric_heat(&a->heat); /* a rendezvous takes many calls of which most deliver nothing */
    return (int)n;
}

/* Return a message that has arrived, if there is one without progress or after it. */
static ucx_packet_t *packet_next(ucx_adapter_t *a)
{
    ucx_packet_t *p = ucx_arrived_take(a);
    if (p)
        return p;
    ucx_progress(a);
    return ucx_arrived_take(a);
}

/* ---- Rare events ------------------------------------------------------------------------------------------------ */

static void ucx_failures_report(ucx_adapter_t *a)
{
    char text[MADI_REASON_MAX];
    atomic_store_explicit(&a->failures, false, memory_order_relaxed);
    for (int i = 0; i < a->links.n; i++) {
        ucx_link_t *l = a->links.links[i];
        if (!l || l->down || l->closed)
            continue;
        ucs_status_t status = (ucs_status_t)atomic_load_explicit(&l->failed, memory_order_relaxed);
        status = status == UCS_OK ? l->peer->error : status;
        if (status == UCS_OK)
            continue;
        snprintf(text, sizeof text, "UCX has lost the peer over device %.40s: %.80s", a->base.name,
                 a->lib->status_string(status));
        ucx_down(l, MAD_ERR_PEER, text);
    }
    ucx_peers_reap(a);
}

static void ucx_refused_report(ucx_adapter_t *a)
{
    atomic_store_explicit(&a->refused, false, memory_order_relaxed);
    for (int i = 0; i < a->links.n; i++) {
        ucx_link_t *l = a->links.links[i];
        if (l && !l->closed && !l->down && atomic_exchange_explicit(&l->refused, false, memory_order_relaxed))
            madi_link_writable(&l->base);
    }
}

/* Returns the number of events. */
static int ucx_rest_handle(ucx_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(a->landed != NULL))
        events += ucx_flights_land(a);
    if (MADI_UNLIKELY(a->bodies != NULL))
        events += ucx_bodies_land(a);
    if (MADI_UNLIKELY(a->deferred != NULL))
        events += ucx_deferred(a);
    if (MADI_UNLIKELY(a->lost)) {
        a->lost = false;
        ucx_links_fail(a, "a message was lost", UCS_ERR_NO_MEMORY, false);
    }
    if (MADI_UNLIKELY(atomic_load_explicit(&a->failures, memory_order_relaxed)))
        ucx_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->refused, memory_order_relaxed)))
        ucx_refused_report(a);
    return events;
}

/* Handle up to `budget` messages.  Returns their number. */
static int messages_handle(ucx_adapter_t *a, int budget)
{
    int events = 0;
    for (ucx_packet_t *p; events < budget && (p = packet_next(a)); events++)
        ucx_packet_handle(a, p);
    return events;
}

int ucx_drain(ucx_adapter_t *a)
{
    int events = 0, n;
    do {
        n = ucx_progress(a);
        n += messages_handle(a, PART) + ucx_rest_handle(a);
        events += n;
    } while (n && events < DRAIN_MAX);
    return events;
}

/* True if UCX uses memory for the link. */
static bool link_is_busy(ucx_link_t *l)
{
    return (l->receiving && !l->receiving->ended) || ucx_flights_exist(l);
}

/* Within a host, UCX does not end a transfer to a process that has died while that process's queue was full.  Once the
 * messages that the dead process has left in this process's queue are handled, nothing reads or writes for the transfer. */
static void dead_await(ucx_link_t *l)
{
    for (int i = 0; i < DEAD_CALLS && link_is_busy(l); i++)
        ucx_progress(ucx_of(l));
}

void ucx_link_await(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    if (!link_is_busy(l))
        return;
    ucx_peer_break(a, l->peer, UCS_ERR_CANCELED);
    if (l->dead && a->device.memory) {
        dead_await(l);
        return;
    }
    int64_t end = madi_now() + AWAIT_NS;
    while (!a->broken && link_is_busy(l)) {
        ucx_progress(a);
        if (madi_now() >= end)
            ucx_links_fail(a, "a peer has ended while a block was on its way, and UCX does not end that", UCS_ERR_TIMED_OUT,
                           true);
    }
    fabric_heat(&a->heat);
}

/* ---- When to poll --------------------------------------------------------------------------------------------------- */

bool ucx_pure_poll(madi_adapter_t *adapter)
{
    return fabric_heat_polls(&((ucx_adapter_t *)adapter)->heat);
}

int ucx_poll(madi_adapter_t *adapter, int budget)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    int events;
    if (a->tried) {
        events = a->tried - 1;
        a->tried = 0;
    } else {
        if (!fabric_heat_polls(&a->heat))
            return 0;
        events = messages_handle(a, budget);
    }
    events += ucx_rest_handle(a);
    if (events)
        fabric_heat(&a->heat);
    else
        fabric_heat_cool(&a->heat, true);
    return events;
}

/* Take a message that is listed.  NULL: it was handled otherwise. */
static madi_link_t *listed_take(ucx_adapter_t *a, ucx_packet_t *p, void *packet, madi_foreign_t *loan)
{
    bool is_lent = p->where == UCX_WHERE_LENT, is_small = p->where == UCX_WHERE_SMALL && p->len >= sizeof(madi_wire_hdr_t);
    ucx_link_t *l = is_lent || is_small ? ucx_turn(a, p->early.tag) : NULL;
    madi_wire_hdr_t hdr;
    if (l) {
        madi_foreign_copy(&hdr, madi_foreign_of(p->data), sizeof hdr);
        if (!ucx_header_fits(&hdr, p->len) || (is_lent ? hdr.type != MADI_WIRE_MSG : hdr.length > MADI_TAKE_MAX))
            l = NULL;
    }
    if (!l) {
        ucx_packet_handle(a, p);
        return NULL;
    }
    if (is_lent) {
        memcpy(packet, &hdr, sizeof hdr);
        *loan = madi_foreign_of(p->data + sizeof hdr);
        ucx_packet_lend(a, p);
    } else {
        madi_copy(packet, p->data, p->len);
        ucx_packet_put(a, p);
    }
    return &l->base;
}

/* Take one packet: the usual case of a spinning thread. */
madi_link_t *ucx_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    if (a->tried || a->deferred || !fabric_heat_polls(&a->heat))
        return NULL;
    ucx_packet_t *p = ucx_arrived_take(a);
    madi_link_t *link = NULL;
    if (!p) {
        a->taken = NULL;
        a->taking = packet;
        ucx_progress(a);
        a->taking = NULL;
        link = a->taken ? &a->taken->base : NULL;
        p = link ? NULL : ucx_arrived_take(a);
    }
    if (p)
        link = listed_take(a, p, packet, loan);
    if (!link) {
        a->tried = p ? 2 : 1;
        return NULL;
    }
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_packet_count(l);
    l->end.arrived = true;
    fabric_heat(&a->heat);
    return link;
}

/* ---- Sleep ----------------------------------------------------------------------------------------------------------- */

/* Return true if no event waits in UCX.  UCX then makes the descriptor readable when an event comes. */
static bool worker_arm(ucx_adapter_t *a)
{
    madi_lock(&a->io);
    ucs_status_t status = a->broken ? UCS_OK : a->lib->worker_arm(a->worker);
    madi_unlock(&a->io);
    return status == UCS_OK;
}

static void wakeup_ready(madi_watch_t *watch, uint32_t events)
{
    ucx_adapter_t *a = MADI_CONTAINER(watch, ucx_adapter_t, wakeup);
    (void)events;
    if (ucx_drain(a) || !worker_arm(a)) /* some transports' descriptors stay readable until they are armed */
        fabric_heat(&a->heat);
}

mad_status_t ucx_wakeup_open(ucx_adapter_t *a, char *reason)
{
    ucs_status_t status = a->lib->worker_get_efd(a->worker, &a->wakeup.fd);
    a->wakeup.ready = wakeup_ready;
    a->wakeup.carries = true;
    if (status != UCS_OK) {
        a->wakeup.fd = 0;
        snprintf(reason, MADI_REASON_MAX, "UCX has no descriptor that wakes a waiting thread for device %s: %.60s",
                 a->base.name, a->lib->status_string(status));
        return MAD_ERR_SYSTEM;
    }
    if (madi_watch_add(a->base.session, &a->wakeup, EPOLLIN) == MAD_OK)
        return MAD_OK;
    a->wakeup.fd = 0;
    snprintf(reason, MADI_REASON_MAX, "UCX's worker cannot be watched: %s%s", strerror(errno), madi_remedy(errno));
    return MAD_ERR_SYSTEM;
}

void ucx_wakeup_close(ucx_adapter_t *a)
{
    if (a->wakeup.fd > 0)
        madi_watch_del(a->base.session, &a->wakeup);
    a->wakeup.fd = 0; /* UCX's */
}

bool ucx_arm(madi_adapter_t *adapter)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    if (a->deferred || a->first_arrived || a->landed || a->bodies || a->tried > 1)
        return false;
    if (worker_arm(a))
        return true;
    fabric_heat(&a->heat); /* so that the next poll calls UCX */
    return false;
}
