/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: when polling is worth a call (drivers/fabric/heat.h), and sleep.  MPI has no descriptor that reports messages: while the
 * process sleeps, a timer polls, at a period that grows while nothing comes. */
#include "drivers/mpi/mpi.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOKS 16                    /* looks for a message in one take.  rationale.md, "How does the driver mpi use MPI?" */
#define AWAIT_NS INT64_C(500000000) /* ns: wait for memory that MPI uses as a link is closed */
#define DEAD_CALLS 8192             /* calls in which MPI handles what a dead process has sent */
#define DRAIN_MAX 4096              /* events */
#define NAP_MIN INT64_C(50000)      /* ns: first period */
#define NAP_MAX INT64_C(4000000)    /* ns: longest period */

/* ---- Rare events ---------------------------------------------------------------------------------------------------- */

static void mpi_failures_report(mpi_adapter_t *a)
{
    char text[MADI_REASON_MAX], error_text[MPI_ERROR_TEXT_MAX];
    int i = 0;
    atomic_store_explicit(&a->failures, false, memory_order_relaxed);
    for (mpi_link_t *l; (l = mpi_link_next(a, &i));) {
        int error = atomic_load_explicit(&l->failed, memory_order_relaxed);
        error = error ? error : a->world->error;
        if (l->down || l->closed || !error)
            continue;
        a->world->lib.calls->error_text(error, error_text);
        snprintf(text, sizeof text, "MPI has lost rank %u: %.120s", l->peer.rank, error_text);
        mpi_lib_peer_died();
        mpi_down(l, MAD_ERR_PEER, text);
    }
}

static void mpi_refused_report(mpi_adapter_t *a)
{
    int i = 0;
    atomic_store_explicit(&a->refused, false, memory_order_relaxed);
    for (mpi_link_t *l; (l = mpi_link_next(a, &i));)
        if (!l->closed && !l->down && atomic_exchange_explicit(&l->refused, false, memory_order_relaxed))
            madi_link_writable(&l->base);
}

/* Returns the number of events. */
static int mpi_rest_handle(mpi_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(atomic_load_explicit(&a->listed, memory_order_relaxed)))
        events += mpi_flights_land(a) + mpi_bodies_land(a);
    if (MADI_UNLIKELY(a->deferred != NULL))
        events += mpi_deferred(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->failures, memory_order_relaxed)))
        mpi_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->refused, memory_order_relaxed)))
        mpi_refused_report(a);
    return events;
}

/* Handle up to `budget` messages.  Returns the number of events. */
static int mpi_messages_handle(mpi_adapter_t *a, int budget)
{
    int events = mpi_progress(a), n = 0;
    for (mpi_buffer_t *b; n < budget && (b = mpi_arrived_take(a)); n++)
        mpi_packet_handle(a, b);
    return events + n;
}

int mpi_drain(mpi_adapter_t *a)
{
    int events = 0, n;
    do {
        n = mpi_messages_handle(a, INT32_MAX) + mpi_rest_handle(a);
        events += n;
    } while (n && events < DRAIN_MAX);
    return events;
}

/* True if MPI uses memory for the link. */
static bool mpi_link_is_busy(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    madi_lock(&a->world->io);
    mpi_body_t *body = a->ended;
    while (body && body != l->receiving)
        body = body->next;
    madi_unlock(&a->world->io);
    return (l->receiving && !body) || mpi_flights_exist(l);
}

/* A peer that lives receives every body, and sends every body of which the header has left.  After the death of a peer of this
 * host nothing more comes than what it has left in this process's queues. */
void mpi_link_await(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    int64_t end = madi_now() + AWAIT_NS;
    int calls = 0;
    if (l->dead)
        mpi_body_cancel(l);
    while (mpi_link_is_busy(l) && !a->world->error && calls < DEAD_CALLS) {
        calls += l->dead;
        mpi_progress(a);
        if (madi_now() < end)
            continue;
        mpi_body_cancel(l);
        mpi_progress(a);
        if (mpi_link_is_busy(l))
            madi_log(
                MADI_LOG_ERROR, "mpi",
                "a peer has ended while a block was on its way, and MPI does not end that: the block's memory may change");
        break;
    }
    fabric_heat(&a->heat);
}

/* ---- When to poll --------------------------------------------------------------------------------------------------- */

bool mpi_pure_poll(madi_adapter_t *adapter)
{
    return fabric_heat_polls(&((mpi_adapter_t *)adapter)->heat);
}

int mpi_poll(madi_adapter_t *adapter, int budget)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    int events;
    if (a->tried) {
        events = a->tried - 1;
        a->tried = 0;
    } else {
        if (!fabric_heat_polls(&a->heat))
            return 0;
        events = mpi_messages_handle(a, budget);
    }
    events += mpi_rest_handle(a);
    if (events)
        fabric_heat(&a->heat);
    else
        fabric_heat_cool(&a->heat, false);
    return events;
}

/* Copy or lend the message of the first slot if it is a packet whose turn it is.  Under io. */
static mpi_link_t *message_take(mpi_adapter_t *a, mpi_buffer_t *b, void *packet, madi_foreign_t *loan)
{
    mpi_world_t *w = a->world;
    madi_wire_hdr_t hdr;
    if (b->len < sizeof hdr)
        return NULL;
    memcpy(&hdr, b->data, sizeof hdr);
    mpi_link_t *l = mpi_turn(a, b->tag);
    if (!l || !mpi_header_fits(&hdr, b->len))
        return NULL;
    if (hdr.length <= MADI_TAKE_MAX) {
        madi_copy(packet, b->data, b->len);
        mpi_slot_free(w);
        return l;
    }
    if (hdr.type != MADI_WIRE_MSG || atomic_load_explicit(&w->lent, memory_order_relaxed) >= WORLD_LENT_MAX)
        return NULL;
    memcpy(packet, &hdr, sizeof hdr);
    *loan = madi_foreign_of(b->data + sizeof hdr);
    atomic_fetch_add_explicit(&w->lent, 1, memory_order_relaxed);
    mpi_slot_detach(w);
    return l;
}

/* Take a message that has just come.  Others are handled.  *events: the number of those. */
static mpi_link_t *mpi_first_take(mpi_adapter_t *a, void *packet, madi_foreign_t *loan, int *events)
{
    mpi_world_t *w = a->world;
    mpi_link_t *l = NULL;
    madi_lock(&w->io);
    if (!a->first_arrived &&
        mpi_world_works(w)) { /* another session may have listed a message meanwhile, which is earlier */
        mpi_buffer_t *b = NULL;
        for (int i = 0; i < LOOKS && !b; i++)
            b = mpi_slot_look(w);
        l = b ? message_take(a, b, packet, loan) : NULL;
        if (b && !l) {
            mpi_slot_route(w, a);
            ++*events;
        }
        if (!b && MADI_UNLIKELY(w->sending || w->flying || w->bodies))
            *events += mpi_sends_test(w) + mpi_bodies_test(w);
    }
    madi_unlock(&w->io);
    return l;
}

/* Take one packet: the usual case of a spinning thread. */
madi_link_t *mpi_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    int events = 0;
    if (a->tried || a->deferred || !fabric_heat_polls(&a->heat))
        return NULL;
    bool listed = atomic_load_explicit(&a->listed, memory_order_relaxed);
    mpi_link_t *l = listed ? NULL : mpi_first_take(a, packet, loan, &events);
    if (!l) {
        for (mpi_buffer_t *b; (b = mpi_arrived_take(a)); events++)
            mpi_packet_handle(a, b);
        a->tried = 1 + events; /* poll handles the other lists */
        return NULL;
    }
    l->end.got++;
    l->end.arrived = true;
    fabric_heat(&a->heat);
    return &l->base;
}

/* ---- Sleep ------------------------------------------------------------------------------------------------------------ */

static void mpi_nap_set(mpi_adapter_t *a, int64_t ns)
{
    timerfd_settime(a->nap.fd, 0, &(struct itimerspec){{0, 0}, {ns / 1000000000, ns % 1000000000}}, NULL);
}

static void mpi_nap_ready(madi_watch_t *watch, uint32_t events)
{
    mpi_adapter_t *a = MADI_CONTAINER(watch, mpi_adapter_t, nap);
    uint64_t n;
    (void)events;
    if (read(watch->fd, &n, sizeof n) < 0)
        return;
    if (mpi_drain(a))
        fabric_heat(&a->heat);
}

mad_status_t mpi_nap_open(mpi_adapter_t *a, char *reason)
{
    a->nap_ns = NAP_MIN;
    a->nap.ready = mpi_nap_ready;
    a->nap.carries = true;
    a->nap.fd = madi_fd_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (a->nap.fd >= 0 && madi_watch_add(a->base.session, &a->nap, EPOLLIN) == MAD_OK)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "no timer: %s%s", strerror(errno), madi_remedy(errno));
    if (a->nap.fd >= 0)
        madi_fd_close(a->nap.fd);
    a->nap.fd = -1;
    return MAD_ERR_SYSTEM;
}

void mpi_nap_close(mpi_adapter_t *a)
{
    if (a->nap.fd <= 0)
        return;
    madi_watch_del(a->base.session, &a->nap);
    madi_fd_close(a->nap.fd);
    a->nap.fd = -1;
}

bool mpi_arm(madi_adapter_t *adapter)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    if (a->deferred || atomic_load_explicit(&a->listed, memory_order_relaxed) || a->tried > 1)
        return false;
    bool idle = fabric_heat_left(&a->heat) <= 1; /* true if nothing came since the last sleep */
    a->nap_ns = !idle ? NAP_MIN : a->nap_ns < NAP_MAX / 2 ? a->nap_ns * 2 : NAP_MAX;
    atomic_store_explicit(&a->heat.hot, 1, memory_order_relaxed);
    mpi_nap_set(a, a->nap_ns);
    return true;
}

void mpi_disarm(madi_adapter_t *adapter)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    mpi_nap_set(a, 0);
    atomic_store_explicit(&a->heat.skip, 0, memory_order_relaxed); /* the next poll calls MPI */
}
