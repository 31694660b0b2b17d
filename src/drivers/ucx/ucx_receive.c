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

/* Deliver a packet that lies whole in this process's memory.  Return false if the packet has to wait. */
static bool ucx_whole_deliver(ucx_link_t *l, const madi_wire_hdr_t *hdr, ucx_packet_t *p)
{
    ucx_adapter_t *a = ucx_of(l);
    bool lends = p->where == UCX_WHERE_LENT && hdr->type == MADI_WIRE_MSG;
    fabric_whole_t whole = fabric_whole_deliver(&l->base, hdr, madi_foreign_of(p->data + sizeof *hdr), lends);
    if (whole == FABRIC_WHOLE_KEPT)
        ucx_packet_lend(a, p);
    else if (whole == FABRIC_WHOLE_DONE)
        ucx_packet_put(a, p);
    return whole != FABRIC_WHOLE_LATER;
}

/* Deliver a header whose body comes by rendezvous.  Return false if the packet has to wait. */
static bool ucx_header_deliver(ucx_link_t *l, ucx_packet_t *p)
{
    void *desc = p->data;
    madi_place_t place = fabric_body_place(&l->base, &p->hdr);
    if (place == MADI_PLACE_LATER)
        return false;
    l->base.expected++;
    if (l->base.closed || place != MADI_PLACE_COPY) {
        l->base.end.got++;
        ucx_packet_put(ucx_of(l), p); /* which releases the body */
        return true;
    }
    p->data = NULL;
    ucx_packet_put(ucx_of(l), p);
    ucx_body_begin(l, desc);
    return true;
}

/* Read the header of a packet, once.  Return false if no correct peer sends such a header. */
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
    return fabric_header_fits(hdr, p->len);
}

/* Deliver a link's next packet.  Return false if the packet has to wait. */
static bool ucx_packet_deliver(fabric_link_t *link, fabric_early_t *early)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_packet_t *p = early_packet(early);
    madi_wire_hdr_t hdr = {0};
    size_t len = p->len;
    if (header_read(p, &hdr))
        return p->where == UCX_WHERE_BODY ? ucx_header_deliver(l, p) : ucx_whole_deliver(l, &hdr, p);
    link->expected++;
    ucx_packet_put(ucx_of(l), p);
    fabric_packet_wrong(link, &hdr, len);
    return true;
}

static void ucx_early_put(fabric_link_t *link, fabric_early_t *early)
{
    ucx_packet_put(ucx_of((ucx_link_t *)link), early_packet(early));
}

void ucx_early_run(fabric_link_t *link)
{
    fabric_early_run(link, true, ucx_packet_deliver, ucx_early_put);
    fabric_bye_check(link);
}

/* Handle a message between the drivers. */
static void ucx_control_handle(ucx_adapter_t *a, ucx_link_t *l, ucx_packet_t *p)
{
    fabric_control_t control;
    bool is_one = p->where == UCX_WHERE_SMALL && p->len == sizeof control;
    memcpy(&control, p->small, sizeof control);
    ucx_packet_put(a, p);
    if (is_one)
        fabric_control_arrived(&l->base, &control);
}

void ucx_packet_handle(ucx_adapter_t *a, ucx_packet_t *p)
{
    fabric_kind_t kind = fabric_tag_kind(p->early.tag);
    if (kind == FABRIC_KIND_FRAME && p->where != UCX_WHERE_BODY) {
        ucx_frame_arrived(a, p);
        return;
    }
    ucx_link_t *l = kind == FABRIC_KIND_PACKET || kind == FABRIC_KIND_CONTROL ? ucx_link_of(a, p->early.tag) : NULL;
    if (!l || l->base.closed || l->base.down) {
        ucx_packet_put(a, p);
        return;
    }
    l->base.end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        ucx_control_handle(a, l, p);
        return;
    }
    size_t bytes = sizeof *p + (p->where == UCX_WHERE_COPY || p->where == UCX_WHERE_LENT ? p->len : 0);
    if (!fabric_early_insert(&l->base, &p->early, bytes))
        ucx_packet_put(a, p);
    ucx_early_run(&l->base);
}

void ucx_receive_forget(ucx_link_t *l)
{
    fabric_early_forget(&l->base, ucx_early_put);
}
