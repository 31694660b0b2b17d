/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: when polling is worth a call (drivers/fabric/heat.h), and sleep.  MPI has no descriptor that reports messages: while the
 * process sleeps, a timer polls (drivers/fabric/poll.h). */
#include "drivers/mpi/mpi.h"

#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

#define AWAIT_NS INT64_C(500000000) /* ns: longest wait, when a link is closed, until MPI no longer uses memory */
#define DEAD_CALLS 8192             /* number of calls after which MPI has handled all that a dead process has sent */

/* ---- Rare events ---------------------------------------------------------------------------------------------------- */

static void mpi_failures_report(mpi_adapter_t *a)
{
    char text[MADI_REASON_MAX], error_text[MPI_ERROR_TEXT_MAX];
    int i = 0;
    atomic_store_explicit(&a->base.failures, false, memory_order_relaxed);
    for (fabric_link_t *l; (l = fabric_link_next(&a->base, &i));) {
        int error = fabric_send_error(l);
        error = error ? error : a->world->error;
        if (!error)
            continue;
        bool too_long = atomic_load_explicit(&((mpi_link_t *)l)->too_long, memory_order_relaxed);
        a->world->lib.calls->error_text(error, error_text);
        snprintf(text, sizeof text, "%s rank %u: %.120s",
                 too_long ? "a message is longer than a packet, from" : "MPI has lost", ((mpi_link_t *)l)->peer.rank,
                 error_text);
        mpi_lib_peer_died();
        fabric_link_down(l, too_long ? MAD_ERR_PROTOCOL : MAD_ERR_PEER, text);
    }
}

/* Returns the number of events. */
static int mpi_rare_handle(mpi_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(atomic_load_explicit(&a->listed, memory_order_relaxed)))
        events += mpi_flights_land(a) + mpi_bodies_land(a);
    if (MADI_UNLIKELY(a->base.deferred != NULL))
        events += fabric_deferred(&a->base);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.failures, memory_order_relaxed)))
        mpi_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.refused, memory_order_relaxed)))
        fabric_refused_report(&a->base);
    return events;
}

/* Handle up to `budget` messages.  Return the number of events. */
static int mpi_messages_handle(mpi_adapter_t *a, int budget)
{
    int events = mpi_progress(a), n = 0;
    for (mpi_buffer_t *b; n < budget && (b = mpi_arrived_take(a)); n++)
        mpi_packet_handle(a, b);
    return events + n;
}

int mpi_drain(fabric_adapter_t *adapter)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    int events = 0, n;
    do {
        n = mpi_messages_handle(a, INT32_MAX) + mpi_rare_handle(a);
        events += n;
    } while (n && events < FABRIC_DRAIN_MAX);
    return events;
}

bool mpi_tick(fabric_adapter_t *adapter)
{
    if (!mpi_lib_may_call(&((mpi_adapter_t *)adapter)->world->lib))
        return false;
    mpi_drain(adapter);
    return true;
}

/* True if MPI uses memory for the link. */
static bool mpi_link_is_busy(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    madi_lock(&a->world->io);
    mpi_body_t *body = a->ended;
    while (body && body != l->base.receiving)
        body = body->next;
    madi_unlock(&a->world->io);
    return (l->base.receiving && !body) || mpi_flights_exist(l);
}

/* A peer that lives receives every body, and sends every body of which the header has left.  After the death of a peer of this
 * host nothing more comes than what it has left in this process's queues. */
void mpi_link_await(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    int64_t end = madi_now() + AWAIT_NS;
    int calls = 0;
    if (l->base.dead)
        mpi_body_cancel(l);
    while (mpi_link_is_busy(l) && !a->world->error && calls < DEAD_CALLS) {
        calls += l->base.dead;
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
    fabric_heat(&a->base.heat);
}

/* ---- When to poll --------------------------------------------------------------------------------------------------- */

int mpi_poll(madi_adapter_t *adapter, int budget)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    int events = fabric_poll_begin(&a->base);
    if (events == FABRIC_POLL_SKIP)
        return 0;
    if (events == FABRIC_POLL_LOOK)
        events = mpi_messages_handle(a, budget);
    return fabric_poll_end(&a->base, events + mpi_rare_handle(a), false);
}

/* Copy or lend the message of the first slot if it is a packet whose turn it is.  Under the lock io. */
static mpi_link_t *message_take(mpi_adapter_t *a, mpi_buffer_t *b, void *packet, madi_foreign_t *loan)
{
    mpi_world_t *w = a->world;
    madi_wire_hdr_t hdr;
    if (b->len < sizeof hdr)
        return NULL;
    memcpy(&hdr, b->data, sizeof hdr);
    mpi_link_t *l = mpi_turn(a, b->early.tag);
    if (!l || (uint32_t)b->source != l->peer.rank || !fabric_header_fits(&hdr, b->len))
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

/* Take a packet that has just arrived.  Messages of other kinds are handled; *events is their number. */
static mpi_link_t *mpi_first_take(mpi_adapter_t *a, void *packet, madi_foreign_t *loan, int *events)
{
    mpi_world_t *w = a->world;
    mpi_link_t *l = NULL;
    madi_lock(&w->io);
    if (!a->first_arrived && mpi_world_works(w)) { /* another session may have listed an earlier message meanwhile */
        mpi_buffer_t *b = NULL;
        bool failed = false; /* true if a message was lost: what comes behind it must not be delivered */
        for (int tries = fabric_take_tries(&a->base); tries > 0 && !b && !failed; tries--) {
            b = mpi_slot_look(w);
            failed = atomic_load_explicit(&a->base.failures, memory_order_relaxed);
        }
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
    if (!fabric_take_looks(&a->base))
        return NULL;
    bool listed = atomic_load_explicit(&a->listed, memory_order_relaxed);
    mpi_link_t *l = listed ? NULL : mpi_first_take(a, packet, loan, &events);
    if (!l) {
        for (mpi_buffer_t *b; (b = mpi_arrived_take(a)); events++)
            mpi_packet_handle(a, b);
        a->base.tried = 1 + events; /* poll handles the other lists */
        return NULL;
    }
    return fabric_taken(&l->base);
}

/* ---- Sleep ------------------------------------------------------------------------------------------------------------ */

bool mpi_arm(madi_adapter_t *adapter)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    if (a->base.deferred || atomic_load_explicit(&a->listed, memory_order_relaxed) || a->base.tried > 1)
        return false;
    fabric_nap_arm(&a->base);
    return true;
}

void mpi_disarm(madi_adapter_t *adapter)
{
    fabric_nap_disarm((fabric_adapter_t *)adapter);
}
