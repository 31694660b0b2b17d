/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: the completion queue, and when polling is worth a call.
 *
 * Reading the queue makes the provider progress, and may cost system calls: drivers/fabric/heat.h.  The queue's descriptor, or
 * the timer of ofi_wait.c, makes the adapter hot again. */
#include "drivers/ofi/ofi.h"

#include "base/clock.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 16                  /* completions of one read */
#define AWAIT_NS INT64_C(500000000) /* ns: longest wait for a body that is being written when its link is closed */
#define CANCEL_NS INT64_C(50000000) /* ns: longest wait for cancelled reads to end */
#define NO_TAG (~UINT64_C(0))       /* a tag that no peer sends: its kind is unknown */

/* Record that the provider no longer writes to a part of a body. */
static void context_landed(const ofi_context_t *context)
{
    if (context && context->use == OFI_USE_BODY)
        ((ofi_body_t *)context->object)->flying--;
}

void ofi_links_fail(ofi_adapter_t *a, const char *what, int error, bool for_good)
{
    fabric_links_fail(&a->base, what, a->lib->strerror(error), error, for_good);
}

static void queue_failed(ofi_adapter_t *a, int error)
{
    if (!a->base.broken)
        ofi_links_fail(a, "the completion queue cannot be read", error, true);
}

/* Read the completion of an operation that has failed.  Return the number of completions: 0 or 1. */
static int queue_read_error(ofi_adapter_t *a, ofi_stash_t *to)
{
    struct fi_cq_err_entry e = {0};
    char text[sizeof a->failure] = "";
    madi_lock(&a->io);
    ssize_t n = fi_cq_readerr(a->cq, &e, 0);
    if (n == 1)
        snprintf(a->failure, sizeof a->failure, "%s", fi_cq_strerror(a->cq, e.prov_errno, e.err_data, text, sizeof text));
    madi_unlock(&a->io);
    if (n < 0 && n != -FI_EAGAIN)
        queue_failed(a, (int)-n);
    /* without a context: an injected message has failed; liveness checks find out what has happened to the peer */
    if (n != 1 || !e.op_context)
        return 0;
    madi_log(MADI_LOG_DEBUG, "ofi", "%s: an operation has failed: %s (%d); the provider: %s (%d)", a->base.adapter.name,
             a->lib->strerror(e.err), e.err, a->failure, e.prov_errno);
    *to = (ofi_stash_t){e.op_context, e.len, NO_TAG, e.err ? e.err : FI_EOTHER};
    context_landed(to->context);
    return 1;
}

/* Look up to `looks` times for completions, and read up to max.  Return what fi_cq_read returns. */
static inline ssize_t entries_read(ofi_adapter_t *a, struct fi_cq_data_entry *e, size_t max, int looks)
{
    ssize_t n = -FI_EAGAIN;
    madi_lock(&a->io);
    if (MADI_LIKELY(a->cq != NULL))
        do
            n = fi_cq_read(a->cq, e, max);
        while (n == -FI_EAGAIN && --looks > 0);
    madi_unlock(&a->io);
    return n;
}

/* Find out what has happened if fi_cq_read returned no completion but n.  Return the number of completions: 0 or 1. */
static __attribute__((noinline)) int queue_read_nothing(ofi_adapter_t *a, ssize_t n, ofi_stash_t *to)
{
    if (n == -FI_EAGAIN || !n)
        return 0;
    if (n == -FI_EAVAIL)
        return queue_read_error(a, to);
    queue_failed(a, (int)-n);
    return 0;
}

static inline ofi_stash_t stash_of(const struct fi_cq_data_entry *e)
{
    return (ofi_stash_t){e->op_context, e->len, e->flags & FI_REMOTE_CQ_DATA ? e->data : NO_TAG, 0};
}

/* Read completions.  Return their number. */
static int queue_read(ofi_adapter_t *a, ofi_stash_t *to, int max)
{
    struct fi_cq_data_entry e[ENTRIES];
    ssize_t n = entries_read(a, e, (size_t)(max < ENTRIES ? max : ENTRIES), 1);
    if (n <= 0)
        return queue_read_nothing(a, n, to);
    for (int i = 0; i < n; i++) {
        to[i] = stash_of(&e[i]);
        context_landed(to[i].context);
    }
    return (int)n;
}

static void buffer_done(ofi_adapter_t *a, ofi_buffer_t *b, const ofi_stash_t *e)
{
    a->n_posted--;
    b->early.tag = e->tag;
    b->len = e->len;
    if (!e->error && e->len <= OFI_PACKET_MAX) {
        ofi_packet_handle(a, b);
        return;
    }
    ofi_buffer_put(a, b);
    /* Otherwise the message was too long, and belongs to no link. */
    if (e->error && e->error != FI_ETRUNC && e->error != FI_ECANCELED)
        ofi_links_fail(a, "a message was lost", e->error, false);
}

static void entry_handle(ofi_adapter_t *a, const ofi_stash_t *e)
{
    if (!e->context) /* the completion of an injected message */
        return;
    switch (e->context->use) {
    case OFI_USE_BUFFER: buffer_done(a, e->context->object, e); break;
    case OFI_USE_BODY: ofi_body_done(a, e->context->object, e->error); break;
    case OFI_USE_BOUNCE: ofi_bounce_done(a, e->context->object, e->error); break;
    case OFI_USE_COPY: ofi_copy_done(a, e->context->object, e->error); break;
    }
}

static int stash_handle(ofi_adapter_t *a)
{
    int n = a->n_stash;
    ofi_stash_t *stash = a->stash;
    a->stash = NULL; /* an upcall may fill another stash */
    a->n_stash = a->room_stash = 0;
    for (int i = 0; i < n; i++)
        entry_handle(a, &stash[i]);
    free(stash);
    return n;
}

/* Keep a completion for the next poll.  If out of memory, the completion and its buffer are lost. */
static void stash_add(ofi_adapter_t *a, const ofi_stash_t *e)
{
    if (a->n_stash == a->room_stash) {
        int room = a->room_stash ? a->room_stash * 2 : ENTRIES;
        ofi_stash_t *p = realloc(a->stash, (size_t)room * sizeof *p);
        if (!p)
            return;
        a->stash = p;
        a->room_stash = room;
    }
    a->stash[a->n_stash++] = *e;
}

/* True if the endpoint must not be closed.  tcp of libfabric 1.17 crashes when an endpoint is closed of which a read has
 * arrived in part.  Such a provider writes memory only in calls of this process, so it writes none if no call follows. */
static bool close_crashes(const ofi_adapter_t *a)
{
    return a->info->domain_attr->data_progress == FI_PROGRESS_MANUAL && !strncmp(a->info->fabric_attr->prov_name, "tcp", 3);
}

/* Close the endpoint, or give up all of libfabric's objects, which the end of the process releases.  The provider then writes
 * no memory of this process.  All links break. */
static void endpoint_end(ofi_adapter_t *a)
{
    bool crashes = close_crashes(a);
    int rc = 0;
    if (crashes)
        ofi_wait_close(a);
    madi_lock(&a->io);
    if (crashes)
        a->av = NULL, a->cq = NULL, a->domain = NULL, a->fabric = NULL;
    else
        rc = fi_close(&a->ep->fid);
    a->ep = NULL;
    madi_unlock(&a->io);
    ofi_released(a, rc, "an endpoint");
    ofi_links_fail(a, "a peer has ended while a block was being read from it, and the provider does not end the read",
                   FI_ETIMEDOUT, true);
}

/* Ask the provider to cancel the reads of a body's parts.  fi_cancel may be called for every operation, but most providers
 * cancel receives only, and ignore others. */
static void reads_cancel(ofi_adapter_t *a, ofi_body_t *body)
{
    madi_lock(&a->io);
    for (int i = 0; a->ep && i < body->unposted; i++)
        fi_cancel(&a->ep->fid, &body->part[i].context);
    madi_unlock(&a->io);
}

/* Read completions, for the next poll, until no part is written any more.  Return false if that takes longer than `limit`
 * (ns). */
static bool reads_end(ofi_adapter_t *a, const ofi_body_t *body, int64_t limit)
{
    ofi_stash_t e[ENTRIES];
    int64_t end = madi_now() + limit;
    while (a->ep && body->flying) {
        int n = queue_read(a, e, ENTRIES);
        for (int i = 0; i < n; i++)
            stash_add(a, &e[i]);
        if (!n && madi_now() >= end)
            return false;
    }
    return true;
}

/* A read that a peer does not answer must not write the program's memory after the link's end.  libfabric offers two ways:
 * to cancel the read, or to close the endpoint that has posted the read.  The endpoint serves all links of the adapter.  No
 * provider has to end a read when the address of the peer, or the registration of the memory, is removed. */
void ofi_body_await(ofi_adapter_t *a, ofi_body_t *body)
{
    bool ended = reads_end(a, body, AWAIT_NS);
    if (!ended) {
        reads_cancel(a, body);
        ended = reads_end(a, body, CANCEL_NS);
    }
    if (!ended)
        endpoint_end(a);
    fabric_heat(&a->base.heat);
}

/* Handle about `budget` completions at most.  Return their number. */
static int queue_handle(ofi_adapter_t *a, int budget)
{
    ofi_stash_t e[ENTRIES];
    int events = a->n_stash ? stash_handle(a) : 0, n;
    do {
        n = events < budget ? queue_read(a, e, budget - events) : 0;
        for (int i = 0; i < n; i++)
            entry_handle(a, &e[i]);
        events += n;
    } while (n == ENTRIES && events < budget);
    return events;
}

static void ofi_failures_report(ofi_adapter_t *a)
{
    char text[MADI_REASON_MAX];
    int i = 0;
    atomic_store_explicit(&a->base.failures, false, memory_order_relaxed);
    for (fabric_link_t *l; (l = fabric_link_next(&a->base, &i));) {
        int error = fabric_send_error(l);
        if (!error)
            continue;
        snprintf(text, sizeof text, "provider %.40s has failed: %.50s%s%.60s", a->info->fabric_attr->prov_name,
                 a->lib->strerror(error), a->failure[0] ? "; its last error: " : "", a->failure);
        fabric_link_down(l, MAD_ERR_PEER, text);
    }
}

/* Handle what occurs rarely: packets that arrived early, buffers to post again, failed and refused sends.  Return the
 * number of events. */
static int ofi_rare_handle(ofi_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(a->base.deferred != NULL))
        events += fabric_deferred(&a->base);
    if (MADI_UNLIKELY(a->unposted > 0))
        events += ofi_bodies_post(a);
    if (MADI_UNLIKELY(a->later != NULL))
        ofi_later_post(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->copying, memory_order_relaxed)))
        events += ofi_copying_post(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.failures, memory_order_relaxed)))
        ofi_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.refused, memory_order_relaxed)))
        fabric_refused_report(&a->base);
    return events;
}

static void queue_post(ofi_adapter_t *a, int events)
{
    if (a->n_posted < OFI_BUFFERS && (!events || a->n_posted <= OFI_BUFFERS - OFI_REPOST))
        ofi_buffers_post(a);
}

int ofi_drain(fabric_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    int events = 0, n;
    do {
        n = queue_handle(a, ENTRIES) + ofi_rare_handle(a);
        ofi_buffers_post(a);
        events += n;
    } while (n && events < FABRIC_DRAIN_MAX);
    return events;
}

/* ---- When to poll --------------------------------------------------------------------------------------------------- */

int ofi_poll(madi_adapter_t *adapter, int budget)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    int events = fabric_poll_begin(&a->base);
    if (events == FABRIC_POLL_SKIP)
        return 0;
    if (events == FABRIC_POLL_LOOK)
        events = queue_handle(a, budget);
    events += ofi_rare_handle(a);
    queue_post(a, events);
    return fabric_poll_end(&a->base, events, a->cq_watch.fd > 0);
}

/* Return the link whose next packet has completed with e, and may be taken; NULL if it is something else.  *buffer: the buffer
 * of the packet. */
static inline ofi_link_t *entry_link(ofi_adapter_t *a, const struct fi_cq_data_entry *e, ofi_buffer_t **buffer)
{
    const ofi_context_t *context = e->op_context;
    madi_wire_hdr_t hdr;
    if (!(e->flags & FI_REMOTE_CQ_DATA) || !context || context->use != OFI_USE_BUFFER || e->len < sizeof hdr)
        return NULL;
    ofi_link_t *l = (ofi_link_t *)fabric_link_in_turn(&a->base.links, e->data, true);
    *buffer = context->object;
    memcpy(&hdr, (*buffer)->data, sizeof hdr);
    return l && !l->missing && fabric_header_fits(&hdr, e->len) ? l : NULL;
}

/* Handle in another way what ofi_take has read. */
static __attribute__((noinline)) madi_link_t *entry_not_taken(ofi_adapter_t *a, ssize_t n, const struct fi_cq_data_entry *e)
{
    ofi_stash_t one;
    int events = 1;
    if (n == 1) {
        one = stash_of(e);
        context_landed(one.context);
    } else {
        events = queue_read_nothing(a, n, &one);
    }
    if (events)
        entry_handle(a, &one);
    a->base.tried = 1 + events;
    return NULL;
}

/* Take one packet from the queue: the usual case of a spinning thread. */
madi_link_t *ofi_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    struct fi_cq_data_entry e;
    ofi_buffer_t *b = NULL;
    if (a->n_stash || !fabric_take_looks(&a->base))
        return NULL;
    ssize_t n = entries_read(a, &e, 1, fabric_take_tries(&a->base));
    ofi_link_t *l = MADI_LIKELY(n == 1) ? entry_link(a, &e, &b) : NULL;
    bool lend = l && e.len > MADI_TAKE_MAX + sizeof(madi_wire_hdr_t);
    if (MADI_UNLIKELY(!l || (lend && (b->data[0] != MADI_WIRE_MSG || !ofi_buffer_lend(a)))))
        return entry_not_taken(a, n, &e);
    a->n_posted--;
    if (lend) {
        memcpy(packet, b->data, sizeof(madi_wire_hdr_t));
        *loan = madi_foreign_of(b->data + sizeof(madi_wire_hdr_t));
        return fabric_taken(&l->base);
    }
    if (MADI_UNLIKELY(a->n_posted <= OFI_BUFFERS / 2))
        ofi_buffers_post(a);
    memcpy(packet, b->data, MADI_PACKET_SHORT);
    if (e.len > MADI_PACKET_SHORT)
        memcpy((char *)packet + MADI_PACKET_SHORT, b->data + MADI_PACKET_SHORT, e.len - MADI_PACKET_SHORT);
    ofi_buffer_put(a, b);
    return fabric_taken(&l->base);
}
