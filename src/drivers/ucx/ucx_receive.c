/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: incoming packets.  All functions are called under the session's lock.
 *
 * The packets of a link are delivered in the order of their numbers.  A packet that comes early waits in link->early.  All
 * packets wait there that follow one whose body is being received, or one that the core has answered with LATER. */
#include "drivers/ucx/ucx.h"

#include <stdio.h>
#include <string.h>

static ucx_packet_t *early_packet(fabric_early_t *early)
{
    return MADI_CONTAINER(early, ucx_packet_t, early);
}

/* Deliver a packet that lies whole in this process's memory.  False: later. */
static bool ucx_whole_deliver(ucx_link_t *l, const madi_wire_hdr_t *hdr, ucx_packet_t *p)
{
    ucx_adapter_t *a = ucx_of(l);
    madi_foreign_t body = madi_foreign_of(p->data + sizeof *hdr);
    if (hdr->length <= MADI_SHORT_MAX) {
        ucx_packet_count(l);
        madi_rx_short(&l->base, hdr, body);
        ucx_packet_put(a, p);
        return true;
    }
    madi_rx_t rx = {.head = body, .here = hdr->length, .defer = true};
    bool lend = p->where == UCX_WHERE_LENT && hdr->type == MADI_WIRE_MSG;
    if (lend)
        rx.loan = body;
    madi_place_t place = madi_rx_begin(&l->base, hdr, &rx);
    if (place == MADI_PLACE_LATER)
        return false;
    ucx_packet_count(l);
    if (place == MADI_PLACE_KEEP) {
        ucx_packet_lend(a, p);
        return true;
    }
    if (place == MADI_PLACE_COPY && !l->closed) {
        madi_foreign_copy_any(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
        madi_rx_done(&l->base, hdr, &rx);
    }
    ucx_packet_put(a, p);
    return true;
}

/* Deliver a header whose body comes by rendezvous.  False: later. */
static bool ucx_header_deliver(ucx_link_t *l, ucx_packet_t *p)
{
    void *desc = p->data;
    l->hdr = p->hdr;
    l->rx = (madi_rx_t){.defer = true};
    madi_place_t place = madi_rx_begin(&l->base, &p->hdr, &l->rx);
    if (place == MADI_PLACE_LATER)
        return false;
    l->expected++;
    if (l->closed || place != MADI_PLACE_COPY) {
        l->end.got++;
        ucx_packet_put(ucx_of(l), p); /* which releases the body */
        return true;
    }
    p->data = NULL;
    ucx_packet_put(ucx_of(l), p);
    ucx_body_begin(l, desc);
    return true;
}

/* Read the header of a packet, once.  Return false if no peer sends it. */
static bool header_read(const ucx_packet_t *p, madi_wire_hdr_t *hdr)
{
    if (p->where == UCX_WHERE_BODY) {
        *hdr = p->hdr;
        return hdr->type >= MADI_WIRE_MSG && hdr->type < MADI_WIRE_TYPES && hdr->length == p->len &&
               hdr->length <= MADI_UCX_CHUNK_MAX - sizeof *hdr;
    }
    if (p->len < sizeof *hdr)
        return false;
    madi_foreign_copy(hdr, madi_foreign_of(p->data), sizeof *hdr);
    return ucx_header_fits(hdr, p->len);
}

/* Deliver a link's next packet.  False: later. */
static bool ucx_turn_deliver(ucx_link_t *l, ucx_packet_t *p)
{
    madi_wire_hdr_t hdr = {0};
    char text[MADI_REASON_MAX];
    if (header_read(p, &hdr))
        return p->where == UCX_WHERE_BODY ? ucx_header_deliver(l, p) : ucx_whole_deliver(l, &hdr, p);
    snprintf(text, sizeof text,
             "received a packet of type %u with %u bytes in a message of %zu, which no peer sends: check which program the "
             "peer runs",
             hdr.type, (unsigned)hdr.length, p->len);
    l->expected++;
    ucx_packet_put(ucx_of(l), p);
    ucx_down(l, MAD_ERR_PROTOCOL, text);
    return true;
}

static bool ucx_packet_may_come(const ucx_link_t *l)
{
    return l->started && !l->closed && !l->down && !l->receiving && !l->is_deferred;
}

void ucx_early_run(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    while (l->early && ucx_packet_may_come(l) && fabric_tag_number(l->early->tag) == l->expected) {
        ucx_packet_t *p = early_packet(l->early);
        l->early = p->early.next; /* p may be free when turn_deliver returns */
        if (ucx_turn_deliver(l, p))
            continue;
        if (l->closed) { /* ucx_receive_forget has been here */
            ucx_packet_put(a, p);
            return;
        }
        p->early.next = l->early;
        l->early = &p->early;
        l->is_deferred = true;
        l->next_deferred = a->deferred;
        a->deferred = l;
        fabric_heat(&a->heat);
    }
    ucx_bye_check(l);
}

int ucx_deferred(ucx_adapter_t *a)
{
    int n = 0;
    ucx_link_t *next, *l = a->deferred;
    a->deferred = NULL;
    for (; l; l = next, n++) {
        next = l->next_deferred;
        l->is_deferred = false;
        ucx_early_run(l);
    }
    return n;
}

/* Handle a message between the drivers. */
static void ucx_control_handle(ucx_adapter_t *a, ucx_link_t *l, ucx_packet_t *p)
{
    fabric_control_t control;
    bool is_one = p->where == UCX_WHERE_SMALL && p->len == sizeof control;
    memcpy(&control, p->small, sizeof control);
    ucx_packet_put(a, p);
    if (is_one)
        ucx_control_arrived(l, &control);
}

void ucx_packet_handle(ucx_adapter_t *a, ucx_packet_t *p)
{
    fabric_kind_t kind = fabric_tag_kind(p->early.tag);
    if (kind == FABRIC_KIND_FRAME && p->where != UCX_WHERE_BODY) {
        ucx_frame_arrived(a, p);
        return;
    }
    ucx_link_t *l = kind == FABRIC_KIND_PACKET || kind == FABRIC_KIND_CONTROL ? ucx_link_of(a, p->early.tag) : NULL;
    if (!l || l->closed || l->down) {
        ucx_packet_put(a, p);
        return;
    }
    l->end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        ucx_control_handle(a, l, p);
        return;
    }
    fabric_place_t place = fabric_early_add(&l->early, &p->early, l->expected, ucx_packet_may_come(l));
    if (place != FABRIC_PLACE_ADDED)
        ucx_packet_put(a, p);
    if (place == FABRIC_PLACE_MANY)
        ucx_down(l, MAD_ERR_PROTOCOL, "more packets came than the network holds, and the next one is missing");
    else
        ucx_early_run(l);
}

ucx_link_t *ucx_turn(const ucx_adapter_t *a, uint64_t tag)
{
    ucx_link_t *l = fabric_tag_kind(tag) == FABRIC_KIND_PACKET ? ucx_link_of(a, tag) : NULL;
    bool is_next = l && !l->early && ucx_packet_may_come(l) && fabric_tag_number(tag) == l->expected;
    return is_next ? l : NULL;
}

void ucx_receive_forget(ucx_link_t *l)
{
    ucx_adapter_t *a = ucx_of(l);
    for (ucx_link_t **p = &a->deferred; *p; p = &(*p)->next_deferred)
        if (*p == l) {
            *p = l->next_deferred;
            break;
        }
    l->is_deferred = false;
    while (l->early) {
        ucx_packet_t *p = early_packet(l->early);
        l->early = p->early.next;
        ucx_packet_put(a, p);
    }
}
