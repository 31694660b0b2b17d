/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/order.h"

#include <stdio.h>

fabric_place_t fabric_early_add(fabric_early_t **list, fabric_early_t *packet, uint16_t expected, bool missing)
{
    fabric_early_t **p = list;
    uint16_t distance = (uint16_t)(fabric_tag_number(packet->tag) - expected), other = 0;
    for (; *p; p = &(*p)->next) {
        other = (uint16_t)(fabric_tag_number((*p)->tag) - expected);
        if (other >= distance)
            break;
    }
    if ((*p && other == distance) || distance >= 0x8000)
        return FABRIC_PLACE_DROP;
    if (distance > FABRIC_EARLY_MAX && missing) /* whatever the order in which they come */
        return FABRIC_PLACE_MANY;
    packet->next = *p;
    *p = packet;
    return FABRIC_PLACE_ADDED;
}

bool fabric_early_room(fabric_link_t *l, size_t bytes)
{
    char text[MADI_REASON_MAX];
    size_t most = l->is_up ? FABRIC_EARLY_BYTES : FABRIC_UNPROVED_BYTES;
    if (MADI_LIKELY(l->early_bytes <= most && bytes <= most - l->early_bytes))
        return true;
    snprintf(text, sizeof text,
             "packets of more than %zu KiB wait behind one that has not come whole: check the peer's program", most >> 10);
    fabric_link_down(l, MAD_ERR_PROTOCOL, text);
    return false;
}

bool fabric_early_insert(fabric_link_t *l, fabric_early_t *packet, size_t bytes)
{
    bool missing = !l->receiving && !l->is_deferred;
    if (!fabric_early_room(l, bytes))
        return false;
    fabric_place_t place = fabric_early_add(&l->early, packet, l->expected, missing);
    if (place == FABRIC_PLACE_MANY)
        fabric_link_down(l, MAD_ERR_PROTOCOL, "more packets came than the network holds, and the next one is missing");
    if (place != FABRIC_PLACE_ADDED)
        return false;
    packet->bytes = bytes;
    l->early_bytes += bytes;
    return true;
}

void fabric_early_defer(fabric_link_t *l, fabric_early_t *packet)
{
    fabric_adapter_t *a = fabric_of(l);
    packet->next = l->early;
    if (!l->early)
        l->early_end = &packet->next;
    l->early = packet;
    l->early_bytes += packet->bytes;
    l->is_deferred = true;
    l->next_deferred = a->deferred;
    a->deferred = l;
    fabric_heat(&a->heat);
}

bool fabric_link_undefer(fabric_link_t *l)
{
    fabric_link_t **p = &fabric_of(l)->deferred;
    while (*p && *p != l)
        p = &(*p)->next_deferred;
    if (*p)
        *p = l->next_deferred;
    bool was = l->is_deferred;
    l->is_deferred = false;
    return was;
}

int fabric_deferred(fabric_adapter_t *a)
{
    int n = 0;
    fabric_link_t *next, *l = a->deferred;
    a->deferred = NULL;
    for (; l; l = next, n++) {
        next = l->next_deferred;
        l->is_deferred = false;
        a->ops->early_run(l);
    }
    return n;
}

void fabric_early_forget(fabric_link_t *l, void (*put)(fabric_link_t *, fabric_early_t *))
{
    fabric_link_undefer(l);
    for (fabric_early_t *packet; (packet = l->early);) {
        l->early = packet->next;
        put(l, packet);
    }
    l->early_bytes = 0;
}

void fabric_packet_wrong(fabric_link_t *l, const madi_wire_hdr_t *hdr, size_t len)
{
    char text[MADI_REASON_MAX];
    snprintf(text, sizeof text,
             "received a packet of type %u with %u bytes in a message of %zu, which no peer sends: check which program the "
             "peer runs",
             hdr->type, (unsigned)hdr->length, len);
    fabric_link_down(l, MAD_ERR_PROTOCOL, text);
}
