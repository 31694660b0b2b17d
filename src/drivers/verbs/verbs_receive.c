/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: incoming packets.  All functions are called under the session's lock.
 *
 * Messages of a link arrive in order.  The report in a message's head is handled immediately.  A packet waits in link->early
 * while the link is not up, while the body of an earlier packet is being read, or while the core has deferred a packet. */
#include "drivers/verbs/verbs.h"

#include <string.h>

/* ---- Packets ---------------------------------------------------------------------------------------------------------- */

/* Count a message whose slot is free, or was replaced. */
static void message_count(verbs_link_t *l)
{
    atomic_fetch_add_explicit(&l->freed, 1, memory_order_relaxed);
}

static void message_end(verbs_link_t *l, verbs_slot_t *s)
{
    verbs_slot_spend(verbs_of(l), s);
    message_count(l);
}

/* Deliver a packet that lies whole in its slot.  Return false if the packet has to wait. */
static bool verbs_whole_deliver(verbs_link_t *l, const madi_wire_hdr_t *hdr, verbs_slot_t *s)
{
    verbs_adapter_t *a = verbs_of(l);
    bool lends = hdr->type == MADI_WIRE_MSG && hdr->length > MADI_TAKE_MAX;
    verbs_slot_t *spare = lends ? verbs_slot_spare(a) : NULL;
    fabric_whole_t whole = fabric_whole_deliver(&l->base, hdr, madi_foreign_of(s->data + VERBS_BODY_AT), spare);
    if (spare && whole != FABRIC_WHOLE_KEPT)
        verbs_slot_keep(a, spare);
    if (whole != FABRIC_WHOLE_LATER)
        message_end(l, whole == FABRIC_WHOLE_KEPT ? spare : s);
    return whole != FABRIC_WHOLE_LATER;
}

/* Deliver a header whose body is read separately, or comes in pieces.  Return false if the packet has to wait. */
static bool verbs_header_deliver(verbs_link_t *l, const madi_wire_hdr_t *hdr, verbs_slot_t *s)
{
    bool pieces = s->len == VERBS_BODY_AT;
    madi_place_t place = fabric_body_place(&l->base, hdr);
    if (place == MADI_PLACE_LATER)
        return false;
    l->dropped = place != MADI_PLACE_COPY;
    if (l->base.closed)
        l->left = 0;
    else if (pieces)
        l->left = hdr->length;
    else if (l->dropped)
        verbs_body_count(l); /* count the body, so that the peer may use its memory again */
    else
        verbs_body_begin(l, s);
    message_end(l, s);
    return true;
}

/* Copy a piece of the body of l->base.hdr. */
static void piece_deliver(verbs_link_t *l, verbs_slot_t *s)
{
    size_t len = s->len - sizeof(verbs_head_t);
    bool is_one = len && len <= l->left;
    if (is_one && !l->dropped)
        memcpy((char *)l->base.rx.base + (l->base.hdr.length - l->left), s->data + sizeof(verbs_head_t), len);
    message_end(l, s);
    if (!is_one) {
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL, "a piece came of a block that was complete, or was not announced");
        return;
    }
    l->left -= (uint32_t)len;
    if (!l->left && !l->dropped)
        madi_rx_done(&l->base.link, &l->base.hdr, &l->base.rx);
}

static verbs_slot_t *early_slot(fabric_early_t *early)
{
    return MADI_CONTAINER(early, verbs_slot_t, early);
}

/* Deliver a link's next packet.  Return false if the packet has to wait. */
static bool next_deliver(verbs_link_t *l, verbs_slot_t *s)
{
    madi_wire_hdr_t hdr = {0};
    size_t len = s->len - sizeof(verbs_head_t);
    if (l->left || verbs_slot_kind(s) == VERBS_KIND_PIECE) {
        piece_deliver(l, s);
        return true;
    }
    if (len >= sizeof hdr) {
        memcpy(&hdr, s->data + sizeof(verbs_head_t), sizeof hdr);
        if (fabric_header_fits(&hdr, len))
            return verbs_whole_deliver(l, &hdr, s);
        if (hdr.type >= MADI_WIRE_MSG && hdr.type < MADI_WIRE_TYPES && hdr.length > VERBS_PACKET_MAX - sizeof hdr &&
            hdr.length <= MADI_VERBS_CHUNK_MAX - sizeof hdr)
            return verbs_header_deliver(l, &hdr, s);
    }
    message_end(l, s);
    fabric_packet_wrong(&l->base, &hdr, len);
    return true;
}

static bool verbs_packet_deliver(fabric_link_t *link, fabric_early_t *early)
{
    bool done = next_deliver((verbs_link_t *)link, early_slot(early));
    if (done)
        verbs_return_check((verbs_link_t *)link);
    return done;
}

static void verbs_packet_put(fabric_link_t *link, fabric_early_t *early)
{
    verbs_slot_spend(verbs_of((verbs_link_t *)link), early_slot(early));
}

void verbs_early_run(fabric_link_t *link)
{
    fabric_early_run(link, false, verbs_packet_deliver, verbs_packet_put);
    if (link->is_up)
        verbs_bye_check((verbs_link_t *)link);
}

/* Handle the report in a message's head.  Return false if no correct peer sends it. */
static bool head_handle(verbs_link_t *l, const verbs_head_t *head)
{
    uint32_t credited = atomic_load_explicit(&l->credited, memory_order_relaxed);
    uint32_t sent = atomic_load_explicit(&l->sent, memory_order_relaxed);
    if (head->returned - credited > sent - credited ||
        l->arrived - atomic_load_explicit(&l->freed, memory_order_relaxed) > VERBS_WINDOW)
        return false;
    atomic_store_explicit(&l->credited, head->returned, memory_order_relaxed);
    return MADI_LIKELY(head->bodies == l->landed) || verbs_flights_land(l, head->bodies);
}

/* Handle the head of a message, and return the message's link.  NULL if the link is gone; the slot is then spent. */
static verbs_link_t *message_accept(verbs_adapter_t *a, verbs_slot_t *s, uint32_t pair_number, verbs_head_t *head)
{
    verbs_link_t *l = NULL;
    if (s->len >= sizeof *head) {
        memcpy(head, s->data, sizeof *head);
        l = verbs_link_of(a, head->tag);
    }
    if (!l || l->base.closed || l->base.down ||
        l->pair_number != pair_number) { /* the message is of a link that has ended */
        verbs_slot_spend(a, s);
        return NULL;
    }
    l->arrived++;
    if (!head_handle(l, head))
        fabric_link_down(&l->base, MAD_ERR_PROTOCOL,
                         "the peer returned more credit than it had, or used more: check its program");
    if (!l->base.closed && !l->base.down)
        return l;
    verbs_slot_spend(a, s);
    return NULL;
}

static void message_handle(verbs_link_t *l, verbs_slot_t *s, const verbs_head_t *head)
{
    if (fabric_tag_kind(head->tag) == FABRIC_KIND_CONTROL) {
        message_end(l, s);
        verbs_return_check(l);
        if (l->base.is_up)
            verbs_bye_check(l);
        else
            verbs_up_check(l);
        return;
    }
    fabric_early_append(&l->base, &s->early, 0);
    verbs_early_run(&l->base);
}

void verbs_arrived(verbs_adapter_t *a, verbs_slot_t *s, uint32_t pair_number)
{
    verbs_head_t head;
    verbs_link_t *l = message_accept(a, s, pair_number, &head);
    if (l)
        message_handle(l, s, &head);
}

/* True if the message holds the whole next packet of the link. */
static bool packet_is_next(const verbs_link_t *l, const verbs_slot_t *s, const verbs_head_t *head)
{
    uint32_t length;
    uint8_t type = (uint8_t)s->data[sizeof *head];
    memcpy(&length, s->data + sizeof *head + offsetof(madi_wire_hdr_t, length), sizeof length);
    return !l->base.early && !l->left && fabric_link_takes(&l->base) && fabric_tag_kind(head->tag) == FABRIC_KIND_PACKET &&
           s->len >= VERBS_BODY_AT && s->len == length + VERBS_BODY_AT && type >= MADI_WIRE_MSG && type < MADI_WIRE_TYPES;
}

verbs_link_t *verbs_arrived_take(verbs_adapter_t *a, verbs_slot_t *s, uint32_t pair_number, void *packet,
                                 madi_foreign_t *loan)
{
    verbs_head_t head;
    verbs_link_t *l = message_accept(a, s, pair_number, &head);
    if (!l)
        return NULL;
    const char *from = s->data + sizeof head;
    size_t len = s->len - sizeof head;
    bool lend = s->len > VERBS_BODY_AT + MADI_TAKE_MAX, take = packet_is_next(l, s, &head);
    verbs_slot_t *spare = take && lend && from[0] == MADI_WIRE_MSG ? verbs_slot_spare(a) : NULL;
    if (!take || (lend && !spare)) {
        message_handle(l, s, &head);
        return NULL;
    }
    memcpy(packet, from, lend ? sizeof(madi_wire_hdr_t) : MADI_PACKET_SHORT);
    if (lend)
        *loan = madi_foreign_of(s->data + VERBS_BODY_AT);
    else if (len > MADI_PACKET_SHORT)
        memcpy((char *)packet + MADI_PACKET_SHORT, from + MADI_PACKET_SHORT, len - MADI_PACKET_SHORT);
    message_end(l, lend ? spare : s);
    verbs_return_check(l);
    return l;
}

void verbs_receive_forget(verbs_link_t *l)
{
    fabric_early_forget(&l->base, verbs_packet_put);
    verbs_body_forget(l);
}
