/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: incoming frames.  All functions are called under the session's lock.
 *
 * A segment is delivered when its number is the next one; early segments are copied out of the ring and wait.  The first
 * segment of a packet has the header, and its body and those of later segments are copied from the ring to the place
 * that the core has named. */
#include "drivers/eth/eth.h"

#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the link of a frame; NULL if there is none. */
static eth_link_t *eth_link_find(const eth_adapter_t *a, const eth_head_t *head)
{
    eth_link_t *l = head->index < a->links.n ? a->links.links[head->index] : NULL;
    return l && l->key == head->key && !l->closed && !l->down ? l : NULL;
}

/* ---- Segments --------------------------------------------------------------------------------------------------- */

static void segment_damaged(eth_link_t *l, const char *what)
{
    char text[MADI_REASON_MAX];
    snprintf(text, sizeof text, "%s, which no peer sends: check which program the peer runs", what);
    eth_down(l, MAD_ERR_PROTOCOL, text);
}

/* Deliver a packet that lies whole in one segment.  Return false if the packet has to wait. */
static bool eth_whole_deliver(eth_link_t *l, const madi_wire_hdr_t *hdr, const unsigned char *bytes)
{
    madi_foreign_t body = madi_foreign_of(bytes + sizeof *hdr);
    madi_rx_t rx = {.head = body, .here = hdr->length, .defer = true};
    madi_place_t place = madi_rx_begin(&l->base, hdr, &rx);
    if (place == MADI_PLACE_LATER)
        return false;
    if (place == MADI_PLACE_COPY && !l->closed) {
        memcpy(rx.base, bytes + sizeof *hdr + rx.skip, hdr->length - rx.skip);
        madi_rx_done(&l->base, hdr, &rx);
    }
    return true;
}

/* Deliver a packet's first segment.  Return false if the packet has to wait. */
static bool first_deliver(eth_link_t *l, unsigned flags, const unsigned char *bytes, size_t len)
{
    madi_wire_hdr_t hdr = {0};
    if (len >= sizeof hdr)
        memcpy(&hdr, bytes, sizeof hdr);
    size_t here = len - sizeof hdr;
    bool last = flags & ETH_LAST;
    if (len < sizeof hdr || hdr.type < MADI_WIRE_MSG || hdr.type >= MADI_WIRE_TYPES || (last && here != hdr.length) ||
        (!last && here >= hdr.length) || hdr.length > MADI_ETH_CHUNK_MAX) {
        segment_damaged(l, "received a segment with a damaged header");
        return true;
    }
    if (last)
        return eth_whole_deliver(l, &hdr, bytes);
    l->hdr = hdr;
    l->rx = (madi_rx_t){.defer = true};
    madi_place_t place = madi_rx_begin(&l->base, &hdr, &l->rx);
    if (place == MADI_PLACE_LATER)
        return false;
    l->receiving = true;
    l->copying = place == MADI_PLACE_COPY && !l->closed;
    l->received = here;
    if (l->copying)
        memcpy(l->rx.base, bytes + sizeof hdr, here);
    return true;
}

/* Deliver a later segment of a packet. */
static void more_deliver(eth_link_t *l, unsigned flags, const unsigned char *bytes, size_t len)
{
    size_t end = l->received + len;
    if (flags & ETH_FIRST || end > l->hdr.length || (end == l->hdr.length) != ((flags & ETH_LAST) != 0)) {
        segment_damaged(l, "received a segment that does not continue its packet");
        return;
    }
    if (l->copying)
        memcpy((char *)l->rx.base + l->received, bytes, len);
    l->received = end;
    if (end < l->hdr.length)
        return;
    l->receiving = false;
    if (l->copying)
        madi_rx_done(&l->base, &l->hdr, &l->rx);
}

/* Deliver the next segment.  Return false if the packet has to wait. */
static bool segment_deliver(eth_link_t *l, unsigned flags, const unsigned char *bytes, size_t len)
{
    if (l->receiving)
        more_deliver(l, flags, bytes, len);
    else if (flags & ETH_FIRST)
        return first_deliver(l, flags, bytes, len);
    else
        segment_damaged(l, "received a segment without the beginning of its packet");
    return true;
}

static bool segment_may_come(const eth_link_t *l)
{
    return !l->closed && !l->down && !l->is_deferred;
}

/* ---- Segments that wait ----------------------------------------------------------------------------------------- */

/* Copy a segment out of the ring.  If out of memory, the segment counts as lost. */
static void segment_keep(eth_link_t *l, const eth_head_t *head, const void *body)
{
    eth_kept_t *kept = malloc(sizeof *kept + head->len);
    if (!kept)
        return;
    kept->flags = head->flags;
    kept->len = head->len;
    memcpy(kept->data, body, head->len);
    eth_in_keep(&l->in, head->number, kept);
}

/* Have the next poll offer the link's next packet to the core again. */
static void eth_defer(eth_link_t *l)
{
    eth_adapter_t *a = eth_of(l);
    l->is_deferred = true;
    l->next_deferred = a->deferred;
    a->deferred = l;
    eth_attend(a);
}

/* Deliver kept segments whose turn has come. */
static void kept_run(eth_link_t *l)
{
    for (eth_kept_t *kept; segment_may_come(l) && (kept = eth_in_take(&l->in));) {
        bool done = segment_deliver(l, kept->flags, kept->data, kept->len);
        if (!done && !l->closed) {
            eth_in_keep(&l->in, atomic_load_explicit(&l->in.next, memory_order_relaxed), kept);
            eth_defer(l);
            return;
        }
        free(kept);
        eth_in_step(&l->in);
    }
}

int eth_deferred_run(eth_adapter_t *a)
{
    int n = 0;
    eth_link_t *next, *l = a->deferred;
    a->deferred = NULL;
    for (; l; l = next, n++) {
        next = l->next_deferred;
        l->is_deferred = false;
        kept_run(l);
        eth_touch(l);
    }
    return n;
}

void eth_receive_forget(eth_link_t *l)
{
    eth_adapter_t *a = eth_of(l);
    for (eth_link_t **p = &a->deferred; *p; p = &(*p)->next_deferred)
        if (*p == l) {
            *p = l->next_deferred;
            break;
        }
    for (eth_link_t **p = &a->touched; *p; p = &(*p)->next_touched)
        if (*p == l) {
            *p = l->next_touched;
            break;
        }
    l->is_deferred = l->is_touched = l->receiving = false;
    for (int i = 0; i < ETH_WINDOW; i++) {
        free(l->in.kept[i]);
        l->in.kept[i] = NULL;
    }
    l->in.n_kept = 0;
}

/* ---- Frames ----------------------------------------------------------------------------------------------------- */

/* Handle what a frame acknowledges. */
static void eth_ack_take(eth_link_t *l, const eth_head_t *head, const void *body)
{
    uint64_t words[ETH_BITS], *bits = NULL;
    if (head->kind == ETH_ACK && head->len) {
        eth_frame_bits(body, words);
        bits = words;
    }
    madi_link_lock_tx(&l->base);
    if (eth_out_acked(&l->out, head->ack, bits, head->flags & ETH_REPEATED, madi_now()))
        eth_packets_release(l);
    bool more = l->ended || l->out.lost || l->cutting;
    madi_link_unlock_tx(&l->base);
    if (more || atomic_load_explicit(&l->refused, memory_order_relaxed))
        eth_touch(l);
}

/* Handle a segment. */
static void segment_handle(eth_link_t *l, const eth_head_t *head, const void *body)
{
    eth_arrived_t arrived = eth_in_arrived(&l->in, head->number);
    l->in.now |= (head->flags & ETH_NOW) != 0;
    if (arrived == ETH_EARLY) {
        l->in.now = true;
        segment_keep(l, head, body);
    } else if (arrived == ETH_NEXT && segment_may_come(l)) {
        if (segment_deliver(l, head->flags, body, head->len)) {
            eth_in_step(&l->in);
            if (MADI_UNLIKELY(l->in.n_kept))
                kept_run(l);
        } else if (!l->closed) {
            segment_keep(l, head, body);
            if (l->in.kept[head->number % ETH_WINDOW])
                eth_defer(l);
        }
    }
}

void eth_frame_handle(eth_adapter_t *a, const void *frame, size_t len)
{
    eth_head_t head;
    const void *body;
    if (!eth_frame_read(frame, len, &head, &body) || head.kind == ETH_HANDSHAKE)
        return;
    eth_link_t *l = eth_link_find(a, &head);
    if (l && !l->started) {
        eth_hellos_read(a); /* VERDICT is there */
        l = eth_link_find(a, &head);
    }
    if (!l || !l->started) {
        eth_end_answer(a, &head);
        return;
    }
    if (!eth_frame_is_intact(&head, body, a->sum))
        return;
    l->end.arrived = true;
    if (head.kind == ETH_BYE) {
        l->bye = true;
        l->bye_at = head.number;
    } else {
        eth_ack_take(l, &head, body);
        if (head.kind == ETH_DATA)
            segment_handle(l, &head, body);
        else
            l->in.now |= (head.flags & ETH_NOW) != 0;
    }
    if (!l->closed)
        eth_touch(l);
}

/* Take one packet of a single segment: the usual case of a spinning thread. */
madi_link_t *eth_take(madi_adapter_t *adapter, void *packet, madi_foreign_t *loan)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    size_t len;
    const void *frame = a->deferred ? NULL : eth_ring_frame(&a->ring, &len), *body;
    eth_head_t head;
    madi_wire_hdr_t hdr;
    (void)loan;
    if (!frame || !eth_frame_read(frame, len, &head, &body) || head.kind != ETH_DATA ||
        (head.flags & (ETH_FIRST | ETH_LAST)) != (ETH_FIRST | ETH_LAST) || head.len < sizeof hdr ||
        head.len > MADI_TAKE_MAX + sizeof hdr)
        return NULL;
    eth_link_t *l = eth_link_find(a, &head);
    memcpy(&hdr, body, sizeof hdr);
    if (!l || !l->started || l->receiving || l->in.n_kept || hdr.type < MADI_WIRE_MSG || hdr.type >= MADI_WIRE_TYPES ||
        hdr.length != head.len - sizeof hdr || !eth_frame_is_intact(&head, body, a->sum) ||
        head.number != atomic_load_explicit(&l->in.next, memory_order_relaxed))
        return NULL;
    memcpy(packet, body, head.len < MADI_PACKET_SHORT ? MADI_PACKET_SHORT : head.len); /* slots are longer */
    eth_ring_release(&a->ring, eth_ring_step(&a->ring, frame));
    l->end.arrived = true;
    eth_in_step(&l->in);
    l->in.now |= (head.flags & ETH_NOW) != 0;
    eth_ack_take(l, &head, body);
    if (l->in.now || eth_in_owed(&l->in) >= ETH_ACK_EVERY)
        eth_touch(l);
    else if (!l->ack_due) {
        l->ack_due = madi_now() + ETH_ACK_NS;
        eth_due(a, l->ack_due);
    }
    return &l->base;
}
