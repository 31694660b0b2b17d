/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: incoming packets of a link, delivered in their order.  All functions are called under the session's lock.
 *
 *   message arrives --> fabric_early_insert, _append --> link->early --> fabric_early_run --> deliver --> the core
 *                                                                             ^                  |
 *                                    the next poll: fabric_deferred           |                  | false: later
 *                                    adapter->deferred, a list of links  -----+<-----------------+
 *
 * A packet waits in link->early until the link is up, and until its turn: while a packet before it is missing, while the body
 * of one before it is being received, or while the core has deferred one.
 *
 * Networks that keep no order number their packets (tag.h): these are inserted by number.  Others are appended.
 *
 * What waits is bounded.  The next packet cannot be missing for long, so few packets wait for it.  A packet can wait longer
 * for a body, or because the core has deferred a packet.  Meanwhile a correct peer may send as much as the core's credits
 * allow. */
#ifndef FABRIC_ORDER_H
#define FABRIC_ORDER_H

#include "drivers/fabric/link.h"
#include <string.h>

#define FABRIC_EARLY_MAX 512 /* packets of a link that wait while the next one is missing, or the link is not up */
#define FABRIC_EARLY_BYTES ((size_t)64 << 20)   /* memory of packets of a link that wait */
#define FABRIC_UNPROVED_BYTES ((size_t)1 << 20) /* likewise, while the link is not up */

/* True if the packet whose turn it is may be delivered. */
static inline bool fabric_link_takes(const fabric_link_t *l)
{
    static const bool takes[] = {true, false, false, false}; /* up, and nothing else */
    static_assert(sizeof takes == sizeof l->state, "state");
    return !l->receiving && !memcmp(l->state, takes, sizeof takes);
}
/* Return the link of which a message with this tag is the next packet, if that may be delivered now; else NULL.  The tag is
 * compared as a whole: kind, key, index and, has_numbers, the number of the packet. */
static inline fabric_link_t *fabric_link_in_turn(const fabric_table_t *table, uint64_t tag, bool has_numbers)
{
    fabric_link_t *l = fabric_table_at(table, tag);
    return l && tag == (has_numbers ? l->own_tag | l->expected : l->own_tag) && !l->early && fabric_link_takes(l) ? l : NULL;
}
/* True if this is the header of a packet of len bytes that lies whole in its message. */
static inline bool fabric_header_fits(const madi_wire_hdr_t *hdr, size_t len)
{
    return hdr->type >= MADI_WIRE_MSG && hdr->type < MADI_WIRE_TYPES && hdr->length == len - sizeof *hdr;
}
/* Account for a packet that is delivered now. */
static inline void fabric_packet_count(fabric_link_t *l)
{
    l->expected++;
    l->end.got++;
}

typedef enum fabric_place { FABRIC_PLACE_ADDED, FABRIC_PLACE_DROP, FABRIC_PLACE_MANY } fabric_place_t;
/* Insert a packet into the list, in the order of numbers from `expected` on.  DROP: no peer sends it.  MANY: more wait than
 * FABRIC_EARLY_MAX, and `missing` says that the next one has not come. */
fabric_place_t fabric_early_add(fabric_early_t **list, fabric_early_t *packet, uint16_t expected, bool missing);
/* Insert a packet of a link, which keeps `bytes` of memory.  False: the packet stays the caller's; if too many wait, the
 * link is down. */
bool fabric_early_insert(fabric_link_t *l, fabric_early_t *packet, size_t bytes);
/* Return true if a further packet that keeps `bytes` of memory may wait; else the link is down. */
bool fabric_early_room(fabric_link_t *l, size_t bytes);
/* Append a packet of a link without numbers.  bytes: 0 if the peer has credit for the packet; else fabric_early_room has
 * returned true. */
static inline void fabric_early_append(fabric_link_t *l, fabric_early_t *packet, size_t bytes)
{
    if (!l->early)
        l->early_end = &l->early;
    packet->next = NULL;
    packet->bytes = bytes;
    l->early_bytes += bytes;
    *l->early_end = packet;
    l->early_end = &packet->next;
}

/* Put the packet back, and list the link for the next poll. */
void fabric_early_defer(fabric_link_t *l, fabric_early_t *packet);
/* Deliver what has waited for its turn.  has_numbers: packets are inserted by number.  deliver: hand the packet, which
 * is in no list, to the core; false if the packet has to wait.  put: free a packet that is not delivered. */
static inline void fabric_early_run(fabric_link_t *l, bool has_numbers, bool (*deliver)(fabric_link_t *, fabric_early_t *),
                                    void (*put)(fabric_link_t *, fabric_early_t *))
{
    while (l->early && fabric_link_takes(l) && (!has_numbers || fabric_tag_number(l->early->tag) == l->expected)) {
        fabric_early_t *packet = l->early;
        l->early = packet->next; /* the packet may be free, or lent, when `deliver` returns */
        l->early_bytes -= packet->bytes;
        if (MADI_LIKELY(deliver(l, packet)))
            continue;
        if (l->closed) { /* fabric_early_forget has freed the packets of this link */
            put(l, packet);
            return;
        }
        fabric_early_defer(l, packet);
    }
}
/* Take the link out of the list of those for the next poll.  False if it is not there. */
bool fabric_link_undefer(fabric_link_t *l);
/* Run links again whose packets the core has deferred; returns their number. */
int fabric_deferred(fabric_adapter_t *a);
/* Free all packets that wait, as the link ends. */
void fabric_early_forget(fabric_link_t *l, void (*put)(fabric_link_t *, fabric_early_t *));

typedef enum fabric_whole {
    FABRIC_WHOLE_LATER, /* the core has deferred the packet, which was not counted */
    FABRIC_WHOLE_KEPT,  /* the core keeps the body, which was lent, until slot_put */
    FABRIC_WHOLE_DONE   /* the memory of the packet may be used again */
} fabric_whole_t;
/* Deliver a packet that lies whole in memory.  lends: the core may keep the body. */
static inline fabric_whole_t fabric_whole_deliver(fabric_link_t *l, const madi_wire_hdr_t *hdr, madi_foreign_t body,
                                                  bool lends)
{
    if (hdr->length <= MADI_SHORT_MAX) {
        fabric_packet_count(l);
        madi_rx_short(&l->link, hdr, body);
        return FABRIC_WHOLE_DONE;
    }
    madi_rx_t rx = {.head = body, .here = hdr->length, .defer = true};
    if (lends)
        rx.loan = body;
    madi_place_t place = madi_rx_begin(&l->link, hdr, &rx);
    if (place == MADI_PLACE_LATER)
        return FABRIC_WHOLE_LATER;
    fabric_packet_count(l);
    if (place == MADI_PLACE_KEEP)
        return FABRIC_WHOLE_KEPT;
    if (place == MADI_PLACE_COPY && !l->closed) {
        madi_foreign_copy_any(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
        madi_rx_done(&l->link, hdr, &rx);
    }
    return FABRIC_WHOLE_DONE;
}
/* Have the core decide the place of a body that arrives in another message than its header.  The header is copied to
 * l->hdr, and the place is put into l->rx. */
static inline madi_place_t fabric_body_place(fabric_link_t *l, const madi_wire_hdr_t *hdr)
{
    l->hdr = *hdr;
    l->rx = (madi_rx_t){.defer = true};
    return madi_rx_begin(&l->link, &l->hdr, &l->rx);
}
/* Report the link down, since no peer sends a packet with this header in a message of len bytes. */
void fabric_packet_wrong(fabric_link_t *l, const madi_wire_hdr_t *hdr, size_t len);

#endif
