/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: progress, and when polling is worth a call (drivers/fabric/heat.h). */
#include "drivers/ucx/ucx.h"

#include "base/clock.h"
#include <stdio.h>
#include <string.h>

#define AWAIT_NS INT64_C(500000000) /* ns: longest wait, when a link is closed, until UCX no longer uses memory */
#define DEAD_CALLS 8192             /* number of calls after which UCX has handled a full queue of shared memory */
#define PART 16                     /* number of packets between two checks for rare work */

static void ucx_links_fail(ucx_adapter_t *a, const char *what, ucs_status_t status, bool for_good)
{
    fabric_links_fail(&a->base, what, a->lib->status_string(status), status, for_good);
}

int ucx_progress(ucx_adapter_t *a)
{
    unsigned n = 0;
    madi_lock(&a->io);
    if (a->worker && !a->base.broken)
        n = a->lib->worker_progress(a->worker);
    madi_unlock(&a->io);
    if (n)
        fabric_heat(&a->base.heat); /* a rendezvous takes many calls of which most deliver nothing */
    return (int)n;
}

/* Return a message that has arrived, now or after one call of UCX to progress; NULL if there is none. */
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
    int i = 0;
    atomic_store_explicit(&a->base.failures, false, memory_order_relaxed);
    for (fabric_link_t *l; (l = fabric_link_next(&a->base, &i));) {
        ucs_status_t status = (ucs_status_t)fabric_send_error(l);
        status = status == UCS_OK ? ((ucx_link_t *)l)->peer->error : status;
        if (status == UCS_OK)
            continue;
        snprintf(text, sizeof text, "UCX has lost the peer over device %.40s: %.80s", a->base.adapter.name,
                 a->lib->status_string(status));
        fabric_link_down(l, MAD_ERR_PEER, text);
    }
    ucx_peers_reap(a);
}

/* Returns the number of events. */
static int ucx_rare_handle(ucx_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(a->landed != NULL))
        events += ucx_flights_land(a);
    if (MADI_UNLIKELY(a->bodies != NULL))
        events += ucx_bodies_land(a);
    if (MADI_UNLIKELY(a->base.deferred != NULL))
        events += fabric_deferred(&a->base);
    if (MADI_UNLIKELY(a->lost)) {
        a->lost = false;
        ucx_links_fail(a, "a message was lost", UCS_ERR_NO_MEMORY, false);
    }
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.failures, memory_order_relaxed)))
        ucx_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.refused, memory_order_relaxed)))
        fabric_refused_report(&a->base);
    return events;
}

/* Handle up to `budget` messages.  Return their number. */
static int messages_handle(ucx_adapter_t *a, int budget)
{
    int events = 0;
    for (ucx_packet_t *p; events < budget && (p = packet_next(a)); events++)
        ucx_packet_handle(a, p);
    return events;
}

int ucx_drain(fabric_adapter_t *adapter)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    int events = 0, n;
    do {
        n = ucx_progress(a);
        n += messages_handle(a, PART) + ucx_rare_handle(a);
        events += n;
    } while (n && events < FABRIC_DRAIN_MAX);
    return events;
}

bool ucx_tick(fabric_adapter_t *adapter)
{
    ucx_drain(adapter);
    ucx_peers_reap((ucx_adapter_t *)adapter);
    return true;
}

/* True if UCX uses memory for the link. */
static bool link_is_busy(ucx_link_t *l)
{
    const ucx_body_t *body = l->base.receiving;
    return (body && !body->ended) || ucx_flights_exist(l);
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
    if (l->base.dead && a->device.memory) {
        dead_await(l);
        return;
    }
    int64_t end = madi_now() + AWAIT_NS;
    while (!a->base.broken && link_is_busy(l)) {
        ucx_progress(a);
        if (madi_now() >= end)
            ucx_links_fail(a, "a peer has ended while a block was on its way, and UCX does not end that", UCS_ERR_TIMED_OUT,
                           true);
    }
    fabric_heat(&a->base.heat);
}

/* ---- When to poll --------------------------------------------------------------------------------------------------- */

int ucx_poll(madi_adapter_t *adapter, int budget)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    int events = fabric_poll_begin(&a->base);
    if (events == FABRIC_POLL_SKIP)
        return 0;
    if (events == FABRIC_POLL_LOOK)
        events = messages_handle(a, budget);
    return fabric_poll_end(&a->base, events + ucx_rare_handle(a), true);
}

/* Take a message from the list of arrivals.  Return NULL if the message was handled here instead. */
static __attribute__((noinline)) madi_link_t *listed_take(ucx_adapter_t *a, ucx_packet_t *p, void *packet,
                                                          madi_foreign_t *loan)
{
    bool is_lent = p->where == UCX_WHERE_LENT, is_small = p->where == UCX_WHERE_SMALL && p->len >= sizeof(madi_wire_hdr_t);
    ucx_link_t *l = is_lent || is_small ? ucx_turn(a, p->early.tag) : NULL;
    madi_wire_hdr_t hdr;
    if (l) {
        madi_foreign_copy(&hdr, madi_foreign_of(p->data), sizeof hdr);
        if (!fabric_header_fits(&hdr, p->len) || (is_lent ? hdr.type != MADI_WIRE_MSG : hdr.length > MADI_TAKE_MAX))
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
    return &l->base.link;
}

/* Have UCX progress until it reports an event, or for a few looks.  Return the link of the packet that has arrived at
 * `packet`; NULL if none has. */
static inline ucx_link_t *arriving_take(ucx_adapter_t *a, void *packet)
{
    int tries = fabric_take_tries(&a->base);
    unsigned n = 0;
    a->taken = NULL;
    a->taking = packet;
    madi_lock(&a->io);
    if (MADI_LIKELY(a->worker && !a->base.broken))
        do
            n = a->lib->worker_progress(a->worker);
        while (!n && --tries > 0);
    madi_unlock(&a->io);
    a->taking = NULL;
    if (MADI_UNLIKELY(n && !a->taken))
        fabric_heat(&a->base.heat); /* as in ucx_progress */
    return a->taken;
}

/* Take one packet: the usual case of a spinning thread. */
madi_link_t *ucx_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    if (!fabric_take_looks(&a->base))
        return NULL;
    if (MADI_LIKELY(!a->first_arrived)) {
        ucx_link_t *l = arriving_take(a, packet);
        if (MADI_LIKELY(l != NULL))
            return fabric_taken(&l->base);
    }
    ucx_packet_t *p = ucx_arrived_take(a);
    madi_link_t *link = p ? listed_take(a, p, packet, loan) : NULL;
    if (link)
        return fabric_taken((fabric_link_t *)link);
    a->base.tried = p ? 2 : 1;
    return NULL;
}
