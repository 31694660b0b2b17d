/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: the completion queue, and when polling is worth a call.
 *
 * A poll makes no system call, but takes a lock of the provider and one of the session, so drivers/fabric/heat.h limits
 * polls.  The completion channel makes the adapter hot again. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

void verbs_fail(verbs_adapter_t *a, const char *what, const char *text)
{
    if (a->base.broken)
        return;
    fabric_links_fail(&a->base, what, text, ENODEV, true);
}

/* Deliver packets that have arrived on a link that is about to break. */
void verbs_rest_deliver(verbs_link_t *l)
{
    if (fabric_link_undefer(&l->base))
        verbs_early_run(&l->base); /* the core defers a packet once */
}

static void pair_failed(verbs_link_t *l, const struct ibv_wc *wc)
{
    char text[MADI_REASON_MAX];
    if (!l || l->base.closed || l->base.down)
        return;
    /* the connection has ended, which verbs_cm.c handles */
    if (wc->status == IBV_WC_WR_FLUSH_ERR && verbs_of(l)->port.iwarp)
        return;
    snprintf(text, sizeof text, "the queue pair of %.40s has failed: %.60s (vendor's error 0x%x)",
             l->base.link.adapter->name, verbs_of(l)->lib->wc_status_str(wc->status), wc->vendor_err);
    verbs_rest_deliver(l);
    fabric_link_down(&l->base, MAD_ERR_PEER, text);
}

static verbs_link_t *pair_link(const verbs_adapter_t *a, uint32_t number)
{
    for (int i = 0; i < a->base.links.n; i++) {
        verbs_link_t *l = a->base.links.links[i];
        if (l && l->pair_number == number)
            return l;
    }
    return NULL;
}

static void received_handle(verbs_adapter_t *a, const struct ibv_wc *wc)
{
    verbs_slot_t *s = (verbs_slot_t *)(uintptr_t)wc->wr_id;
    a->n_posted--;
    if (wc->status == IBV_WC_SUCCESS) {
        s->len = wc->byte_len;
        verbs_arrived(a, s, wc->qp_num);
        return;
    }
    verbs_slot_spend(a, s);
    pair_failed(pair_link(a, wc->qp_num), wc);
}

/* Free the messages up to the one with this number, whose completion has come. */
static void sends_completed(verbs_link_t *l, uint16_t number)
{
    uint32_t completed = atomic_load_explicit(&l->completed, memory_order_relaxed);
    completed += (uint16_t)(number - completed);
    atomic_store_explicit(&l->completed, completed, memory_order_release); /* pairs with verbs_message_begin */
}

static bool completion_is_sending(const struct ibv_wc *wc)
{
    int what = (int)fabric_tag_kind(wc->wr_id);
    return what == VERBS_DONE_SEND || what == VERBS_DONE_READ;
}

static void completion_handle(verbs_adapter_t *a, const struct ibv_wc *wc)
{
    if (!completion_is_sending(wc)) {
        received_handle(a, wc);
        return;
    }
    verbs_link_t *l = verbs_link_of(a, wc->wr_id);
    if (!l || l->base.closed) /* the completion is of a link that has ended */
        return;
    if (wc->status != IBV_WC_SUCCESS)
        pair_failed(l, wc);
    else if ((int)fabric_tag_kind(wc->wr_id) == VERBS_DONE_SEND)
        sends_completed(l, fabric_tag_number(wc->wr_id));
    else
        verbs_body_done(l);
}

/* Handle about `budget` completions at most.  Return their number. */
static int completions_poll(verbs_adapter_t *a, int budget)
{
    struct ibv_wc wc[VERBS_BATCH];
    int events = 0, n = a->n_stash;
    memcpy(wc, a->stash, (size_t)n * sizeof *wc);
    a->n_stash = 0;
    if (!n && !a->cq_failed)
        n = ibv_poll_cq(a->cq, VERBS_BATCH, wc);
    while (n > 0) {
        for (int i = 0; i < n; i++)
            completion_handle(a, &wc[i]);
        events += n;
        n = events < budget ? ibv_poll_cq(a->cq, VERBS_BATCH, wc) : 0;
    }
    if (MADI_UNLIKELY(n < 0)) {
        a->cq_failed = true;
        verbs_fail(a, "the completion queue cannot be read", strerror(-n));
    }
    return events;
}

static void verbs_failures_report(verbs_adapter_t *a)
{
    char text[MADI_REASON_MAX];
    int i = 0;
    atomic_store_explicit(&a->base.failures, false, memory_order_relaxed);
    for (fabric_link_t *l; (l = fabric_link_next(&a->base, &i));) {
        int error = fabric_send_error(l);
        if (!error)
            continue;
        snprintf(text, sizeof text, "%.40s cannot send: %.60s%s", a->base.adapter.name, strerror(error),
                 error == ENOMEM ? "; raise the limit of locked memory (ulimit -l)" : "");
        verbs_rest_deliver((verbs_link_t *)l);
        fabric_link_down(l, error == ENOMEM ? MAD_ERR_NOMEM : MAD_ERR_PEER, text);
    }
}

/* Do rare work.  Return the number of events. */
static int verbs_rare_handle(verbs_adapter_t *a)
{
    int events = 0;
    if (MADI_UNLIKELY(a->base.deferred != NULL))
        events += fabric_deferred(&a->base);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->spilling, memory_order_relaxed)))
        verbs_spills_run(a);
    if (MADI_UNLIKELY(fabric_registrations_reapable(&a->memory)))
        fabric_registrations_reap(&a->memory);
    if (MADI_UNLIKELY(a->owing))
        verbs_return_again(a);
    if (MADI_UNLIKELY(a->flushing))
        verbs_flush_answer(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.failures, memory_order_relaxed)))
        verbs_failures_report(a);
    if (MADI_UNLIKELY(atomic_load_explicit(&a->base.refused, memory_order_relaxed)))
        fabric_refused_report(&a->base);
    return events;
}

int verbs_drain(fabric_adapter_t *adapter)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    int events = 0, n;
    do {
        n = completions_poll(a, VERBS_BATCH) + verbs_rare_handle(a);
        events += n;
    } while (n && events < FABRIC_DRAIN_MAX);
    verbs_slots_post(a);
    return events;
}

/* Take one packet from the queue: the usual case of a spinning thread. */
madi_link_t *verbs_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    struct ibv_wc wc;
    if (a->n_stash || a->cq_failed || !fabric_take_looks(&a->base))
        return NULL;
    a->base.tried = 1;
    if (ibv_poll_cq(a->cq, 1, &wc) <= 0) /* a failure is found again by the next poll but one */
        return NULL;
    a->base.tried = 2;
    if (completion_is_sending(&wc) || wc.status != IBV_WC_SUCCESS) {
        completion_handle(a, &wc);
        return NULL;
    }
    verbs_slot_t *s = (verbs_slot_t *)(uintptr_t)wc.wr_id;
    a->n_posted--;
    s->len = wc.byte_len;
    verbs_link_t *l = verbs_arrived_take(a, s, wc.qp_num, packet, loan);
    if (!l)
        return NULL;
    a->base.tried = 0;
    return fabric_taken(&l->base);
}

int verbs_poll(madi_adapter_t *adapter, int budget)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    int events = fabric_poll_begin(&a->base);
    if (events == FABRIC_POLL_SKIP)
        return 0;
    if (events == FABRIC_POLL_LOOK)
        events = completions_poll(a, budget);
    events += verbs_rare_handle(a);
    if (!events && a->spent)
        verbs_slots_post(a);
    return fabric_poll_end(&a->base, events, true);
}
