/* SPDX-License-Identifier: BSD-3-Clause */
/* fault: upcalls of the inner driver, passed on to the core immediately or later. */
#include "drivers/fault/fault.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GONE 0xdb /* pattern written into memory after the core has returned it */

static fault_link_t *outer_of(madi_link_t *inner)
{
    return (fault_link_t *)inner->outer;
}

/* True if the core must get no further upcalls for this link. */
static bool link_deaf(fault_link_t *l)
{
    return l->closed || l->is_down || atomic_load_explicit(&l->cut, memory_order_relaxed);
}

/* ---- Storing -------------------------------------------------------------------------------------------------- */

static fault_in_t *in_new(fault_link_t *l, const madi_wire_hdr_t *hdr)
{
    size_t room = hdr->length > MADI_SHORT_MAX ? hdr->length : MADI_SHORT_MAX;
    fault_in_t *p = malloc(sizeof *p + room + 8);
    if (!p)
        return NULL;
    memset(p, 0, sizeof *p);
    p->hdr = *hdr;
    p->body = (unsigned char *)(p + 1) + fault_roll(&l->dice, 8); /* bodies are not aligned */
    return p;
}

static void in_add(fault_link_t *l, fault_in_t *p)
{
    p->next = NULL;
    p->due = fault_delay(fault_of(l), &l->dice, madi_now());
    *l->in_tail = p;
    l->in_tail = &p->next;
    fault_due(fault_of(l), p->due);
}

static madi_foreign_t bytes_of(const fault_in_t *p)
{
    return madi_foreign_is_set(p->loan) ? p->loan : madi_foreign_of(p->body);
}

static void in_free(fault_link_t *l, fault_in_t *p)
{
    const madi_driver_t *inner = l->inner->driver;
    if (madi_foreign_is_set(p->loan)) {
        inner->fast.slot_put(l->inner, p->loan);
        atomic_fetch_sub_explicit(&l->inner->loans, 1, memory_order_relaxed);
    } else {
        memset(p->body, GONE, p->hdr.length);
    }
    free(p);
}

/* True if a packet may be delivered now: the link is up, and no earlier packet waits. */
static bool packet_passes(fault_link_t *l)
{
    return l->up_reported && !l->in && fault_delay(fault_of(l), &l->dice, 0) == 0 &&
           !fault_chance(&l->dice, fault_of(l)->plan.lend);
}

static void fault_no_memory(fault_link_t *l)
{
    madi_link_down(&l->base, MAD_ERR_NOMEM, "no memory for a packet");
}

/* ---- Upcalls -------------------------------------------------------------------------------------------------- */

static madi_place_t up_rx_begin(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    fault_link_t *l = outer_of(inner);
    madi_place_t place;

    l->storing = NULL;
    if (link_deaf(l))
        return MADI_PLACE_DROP;
    fault_count(l, &l->dice);
    if (fault_of(l)->plan.lend < 0)
        rx->loan = (madi_foreign_t){0};
    if (packet_passes(l)) {
        /* the loan is counted first, because the core may return it during the call */
        atomic_fetch_add_explicit(&inner->loans, 1, memory_order_relaxed);
        place = madi_rx_begin(&l->base, hdr, rx);
        if (place != MADI_PLACE_KEEP)
            atomic_fetch_sub_explicit(&inner->loans, 1, memory_order_relaxed);
        return place;
    }
    l->storing = in_new(l, hdr);
    if (!l->storing) {
        fault_no_memory(l);
        return MADI_PLACE_DROP;
    }
    if (madi_foreign_is_set(rx->loan) && fault_chance(&l->dice, 50)) {
        l->storing->loan = rx->loan;
        atomic_fetch_add_explicit(&inner->loans, 1, memory_order_relaxed);
        in_add(l, l->storing);
        l->storing = NULL;
        return MADI_PLACE_KEEP;
    }
    rx->base = l->storing->body;
    return MADI_PLACE_COPY;
}

static void up_rx_done(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_rx_t *rx)
{
    fault_link_t *l = outer_of(inner);
    if (l->storing)
        in_add(l, l->storing);
    else
        madi_rx_done(&l->base, hdr, rx);
    l->storing = NULL;
}

/* Store a short packet. */
static void keep_short(fault_link_t *l, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    fault_in_t *p = in_new(l, hdr);
    if (!p) {
        fault_no_memory(l);
        return;
    }
    madi_foreign_copy(p->body, body,
                      hdr->length > MADI_SHORT_MAX ? hdr->length : MADI_SHORT_MAX); /* MADI_SHORT_MAX bytes are readable
                                                                                     * even if the body is shorter */
    in_add(l, p);
}

static void up_rx_short(madi_link_t *inner, const madi_wire_hdr_t *hdr, madi_foreign_t body)
{
    fault_link_t *l = outer_of(inner);
    if (link_deaf(l))
        return;
    fault_count(l, &l->dice);
    if (packet_passes(l))
        madi_rx_short(&l->base, hdr, body);
    else
        keep_short(l, hdr, body);
}

void fault_up_report(fault_link_t *l)
{
    if (!l->is_up || l->up_reported)
        return;
    l->up_reported = true;
    madi_link_up(&l->base);
}

static void up_link_up(madi_link_t *inner)
{
    fault_link_t *l = outer_of(inner);
    int64_t now = madi_now();
    atomic_store_explicit(&inner->state, MADI_LINK_UP, memory_order_relaxed);
    l->is_up = true;
    l->up_due = fault_delay(fault_of(l), &l->dice, now);
    if (l->up_due > now)
        fault_due(fault_of(l), l->up_due);
    else
        fault_up_report(l);
}

static void fault_report_down(fault_link_t *l)
{
    char text[MADI_REASON_MAX];
    memcpy(text, l->down_text, sizeof text);
    fault_up_report(l);
    madi_link_down(&l->base, l->down_status, text);
}

/* Report the end only after the packets that arrived before it were delivered. */
static void up_link_down(madi_link_t *inner, mad_status_t status, const char *text)
{
    fault_link_t *l = outer_of(inner);
    if (l->closed || l->is_down)
        return;
    atomic_store_explicit(&inner->state, MADI_LINK_DOWN, memory_order_relaxed);
    l->is_down = true;
    l->down_status = status;
    snprintf(l->down_text, sizeof l->down_text, "%s", text);
    if (!l->in)
        fault_report_down(l);
    else
        fault_due(fault_of(l), 0);
}

static void up_link_writable(madi_link_t *inner)
{
    madi_link_writable(&outer_of(inner)->base);
}

const madi_upcalls_t fault_upcalls = {
    .rx_begin = up_rx_begin,
    .rx_done = up_rx_done,
    .rx_short = up_rx_short,
    .link_up = up_link_up,
    .link_down = up_link_down,
    .link_writable = up_link_writable,
};

/* ---- Delivering ----------------------------------------------------------------------------------------------- */

static void packet_lend(fault_link_t *l, fault_in_t *p)
{
    madi_lock(&l->lent_lock);
    p->next = l->lent;
    l->lent = p;
    madi_unlock(&l->lent_lock);
}

/* Remove a loan of this driver from its list, and return it; NULL if the loan is not of this driver. */
static fault_in_t *loan_take_back(fault_link_t *l, madi_foreign_t loan)
{
    fault_in_t **at, *p;
    madi_lock(&l->lent_lock);
    for (at = &l->lent; (p = *at) && !madi_foreign_is_same(bytes_of(p), loan); at = &p->next)
        ;
    if (p)
        *at = p->next;
    madi_unlock(&l->lent_lock);
    return p;
}

/* Any thread. */
void fault_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    fault_link_t *l = (fault_link_t *)link;
    fault_in_t *p = loan_take_back(l, loan);
    if (p) {
        in_free(l, p);
        return;
    }
    l->inner->driver->fast.slot_put(l->inner, loan);
    atomic_fetch_sub_explicit(&l->inner->loans, 1, memory_order_relaxed);
}

/* Take the next stored packet of a link, if it is short and due. */
static bool take_stored(fault_link_t *l, int64_t now, void *packet)
{
    fault_in_t *p = l->in;
    if (!l->up_reported || !p || p->due > now || madi_foreign_is_set(p->loan) || p->hdr.length > MADI_SHORT_MAX)
        return false;
    memcpy(packet, &p->hdr, sizeof p->hdr);
    memcpy((char *)packet + sizeof p->hdr, p->body, MADI_SHORT_MAX);
    l->in = p->next;
    if (!l->in)
        l->in_tail = &l->in;
    in_free(l, p);
    return true;
}

madi_link_t *fault_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    madi_foreign_t lent = {0};
    fault_adapter_t *a = (fault_adapter_t *)adapter;
    int64_t now = madi_now();
    madi_wire_hdr_t hdr;
    madi_link_t *inner;
    fault_link_t *l;
    bool any = false; /* true if any link of the inner driver is up */
    if (fault_chance(&a->dice, a->plan.again) || now < a->hidden_until)
        return NULL;
    for (l = a->links; l; l = l->next) {
        if (!link_deaf(l) && take_stored(l, now, packet))
            return &l->base;
        any |= l->is_up && !l->is_down;
    }
    inner = any && a->inner->driver->fast.take ? a->inner->driver->fast.take(a->inner, packet, &lent) : NULL;
    (void)loan; /* this driver hands over only short packets here, without a loan */
    if (!inner)
        return NULL;
    if (madi_foreign_is_set(lent)) {
        memcpy(&hdr, packet, sizeof hdr);
        madi_rx_whole(inner, &hdr, lent, true); /* deliver the packet as if the inner driver's poll had found it */
        return NULL;
    }
    l = outer_of(inner);
    if (link_deaf(l))
        return NULL;
    fault_count(l, &l->dice);
    if (packet_passes(l))
        return &l->base;
    memcpy(&hdr, packet, sizeof hdr);
    keep_short(l, &hdr, madi_foreign_of((char *)packet + sizeof hdr));
    return NULL;
}

static void deliver_one(fault_link_t *l, fault_in_t *p)
{
    int percent = fault_of(l)->plan.lend;
    madi_wire_hdr_t hdr = p->hdr;
    bool is_loan = madi_foreign_is_set(p->loan);
    if (hdr.length <= MADI_SHORT_MAX && !is_loan && fault_chance(&l->dice, 50)) {
        madi_rx_short(&l->base, &hdr, madi_foreign_of(p->body));
        in_free(l, p);
        return;
    }
    packet_lend(l, p); /* slot_put looks for the packet among the lent ones */
    madi_rx_whole(&l->base, &hdr, bytes_of(p), hdr.length && percent >= 0 && (is_loan || fault_chance(&l->dice, percent)));
}

int fault_deliver(fault_link_t *l, int64_t now)
{
    int n = 0;
    if (l->is_up && !l->up_reported && !l->closed) {
        if (now < l->up_due) {
            fault_due(fault_of(l), l->up_due);
            return 0;
        }
        fault_up_report(l);
        n++;
    }
    while (!l->closed && l->in && (l->in->due <= now || l->is_down)) {
        fault_in_t *p = l->in;
        l->in = p->next;
        if (!l->in)
            l->in_tail = &l->in;
        deliver_one(l, p);
        n++;
    }
    if (l->closed)
        return n;
    if (l->in)
        fault_due(fault_of(l), l->in->due);
    else if (l->is_down)
        fault_report_down(l);
    return n;
}

void fault_rx_free(fault_link_t *l)
{
    fault_in_t *p;
    while ((p = l->in)) {
        l->in = p->next;
        in_free(l, p);
    }
    while ((p = l->lent)) { /* the session has ended, and with it all loans */
        l->lent = p->next;
        in_free(l, p);
    }
    l->in_tail = &l->in;
    free(l->storing);
    l->storing = NULL;
}
