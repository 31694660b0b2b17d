/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: incoming packets.  All functions are called under the session's lock.
 *
 * The packets of a link are delivered in the order of their numbers.  A packet that comes early waits in link->early, in its
 * buffer or in a copy.  All packets also wait there that follow a packet whose body is being received, or that the core has
 * answered with LATER. */
#include "drivers/ofi/ofi.h"

#include <string.h>

static ofi_buffer_t *early_buffer(fabric_early_t *early)
{
    return MADI_CONTAINER(early, ofi_buffer_t, early);
}

/* Deliver a packet that lies whole in its buffer.  Return false if the packet has to wait. */
static bool ofi_whole_deliver(ofi_link_t *l, const madi_wire_hdr_t *hdr, ofi_buffer_t *b)
{
    ofi_adapter_t *a = ofi_of(l);
    bool lends = hdr->type == MADI_WIRE_MSG && hdr->length > MADI_TAKE_MAX && ofi_buffer_lend(a);
    fabric_whole_t whole = fabric_whole_deliver(&l->base, hdr, madi_foreign_of(b->data + sizeof *hdr), lends);
    if (whole == FABRIC_WHOLE_DONE)
        ofi_buffer_put(a, b);
    return whole != FABRIC_WHOLE_LATER;
}

/* Take the next bytes of a body that is sent by copies. */
static void copied_deliver(ofi_link_t *l, ofi_buffer_t *b)
{
    size_t len = b->len;
    fabric_packet_count(&l->base);
    if (len && len <= l->missing && !l->dropping)
        memcpy((char *)l->base.rx.base + (l->base.hdr.length - l->missing), b->data, len);
    ofi_buffer_put(ofi_of(l), b);
    if (!len || len > l->missing) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "the packets of a copied body do not make it up");
        return;
    }
    l->missing -= len;
    if (!l->missing && !l->dropping)
        madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
}

/* Deliver a header whose body is read separately, or comes in the next packets.  Return false if the packet has to
 * wait. */
static bool ofi_header_deliver(ofi_link_t *l, const madi_wire_hdr_t *hdr, ofi_buffer_t *b)
{
    madi_place_t place = fabric_body_place(&l->base, hdr);
    if (place == MADI_PLACE_LATER)
        return false;
    l->base.expected++;
    if (!l->base.closed && b->len > sizeof *hdr) {
        ofi_body_begin(l, b, place != MADI_PLACE_COPY);
        return true;
    }
    l->base.end.got++;
    l->missing = l->base.closed ? 0 : hdr->length;
    l->dropping = place != MADI_PLACE_COPY;
    ofi_buffer_put(ofi_of(l), b);
    return true;
}

/* Deliver a link's next packet.  Return false if the packet has to wait. */
static bool ofi_packet_deliver(fabric_link_t *link, fabric_early_t *early)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_buffer_t *b = early_buffer(early);
    madi_wire_hdr_t hdr = {0};
    size_t len = b->len;
    if (MADI_UNLIKELY(l->missing)) {
        copied_deliver(l, b);
        return true;
    }
    if (len >= sizeof hdr) {
        memcpy(&hdr, b->data, sizeof hdr);
        if (fabric_header_fits(&hdr, len))
            return ofi_whole_deliver(l, &hdr, b);
        if (hdr.type >= MADI_WIRE_MSG && hdr.type < MADI_WIRE_TYPES && hdr.length > OFI_PACKET_MAX - sizeof hdr &&
            hdr.length <= MADI_OFI_CHUNK_MAX - sizeof hdr)
            return ofi_header_deliver(l, &hdr, b);
    }
    link->expected++;
    ofi_buffer_put(ofi_of(l), b);
    fabric_packet_wrong(link, &hdr, len);
    return true;
}

static void ofi_packet_put(fabric_link_t *link, fabric_early_t *early)
{
    ofi_buffer_put(ofi_of((ofi_link_t *)link), early_buffer(early));
}

void ofi_early_run(fabric_link_t *link)
{
    fabric_early_run(link, true, ofi_packet_deliver, ofi_packet_put);
    fabric_bye_check(link);
}

void ofi_packet_handle(ofi_adapter_t *a, ofi_buffer_t *b)
{
    fabric_kind_t kind = fabric_tag_kind(b->early.tag);
    fabric_control_t control;
    if (kind == FABRIC_KIND_FRAME) {
        ofi_frame_arrived(a, b);
        return;
    }
    ofi_link_t *l = kind <= FABRIC_KIND_CONTROL ? ofi_link_of(a, b->early.tag) : NULL;
    if (!l || l->base.closed || l->base.down) {
        ofi_buffer_put(a, b);
        return;
    }
    l->base.end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        bool is_one = b->len == sizeof control;
        memcpy(&control, b->data, sizeof control);
        ofi_buffer_put(a, b);
        if (is_one)
            fabric_control_arrived(&l->base, &control);
        return;
    }
    if (!fabric_link_in_turn(&a->base.links, b->early.tag, true))
        b = ofi_buffer_keep(a, b);
    if (!fabric_early_insert(&l->base, &b->early, offsetof(ofi_buffer_t, data) + b->len))
        ofi_buffer_put(a, b);
    ofi_early_run(&l->base);
}

void ofi_receive_forget(ofi_link_t *l)
{
    fabric_early_forget(&l->base, ofi_packet_put);
    ofi_body_forget(l);
}
