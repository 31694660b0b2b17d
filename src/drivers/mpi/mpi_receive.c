/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: incoming packets.  All functions are called under the session's lock.
 *
 * MPI delivers the packets of a link in their order.  All packets wait in link->waiting that follow one whose body is being
 * received, or one that the core has answered with LATER. */
#include "drivers/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

/* Deliver a packet that lies whole in its buffer.  False: later. */
static bool whole_packet_deliver(mpi_link_t *l, const madi_wire_hdr_t *hdr, mpi_buffer_t *b)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_foreign_t body = madi_foreign_of(b->data + sizeof *hdr);
    if (hdr->length <= MADI_SHORT_MAX) {
        l->end.got++;
        madi_rx_short(&l->base, hdr, body);
        mpi_buffer_put(w, b);
        return true;
    }
    madi_rx_t rx = {.head = body, .here = hdr->length, .defer = true};
    bool lends = hdr->type == MADI_WIRE_MSG && atomic_fetch_add_explicit(&w->lent, 1, memory_order_relaxed) < WORLD_LENT_MAX;
    if (lends)
        rx.loan = body;
    else if (hdr->type == MADI_WIRE_MSG)
        atomic_fetch_sub_explicit(&w->lent, 1, memory_order_relaxed);
    madi_place_t place = madi_rx_begin(&l->base, hdr, &rx);
    if (lends && place != MADI_PLACE_KEEP)
        atomic_fetch_sub_explicit(&w->lent, 1, memory_order_relaxed);
    if (place == MADI_PLACE_LATER)
        return false;
    l->end.got++;
    if (place == MADI_PLACE_KEEP)
        return true;
    if (place == MADI_PLACE_COPY && !l->closed) {
        madi_foreign_copy_any(rx.base, madi_foreign_skip(body, rx.skip), hdr->length - rx.skip);
        madi_rx_done(&l->base, hdr, &rx);
    }
    mpi_buffer_put(w, b);
    return true;
}

/* Deliver a header whose body comes by itself.  False: later. */
static bool announced_deliver(mpi_link_t *l, const mpi_announced_t *announced, mpi_buffer_t *b)
{
    mpi_world_t *w = mpi_of(l)->world;
    l->hdr = announced->hdr;
    l->rx = (madi_rx_t){.defer = true};
    madi_place_t place = madi_rx_begin(&l->base, &l->hdr, &l->rx);
    if (place == MADI_PLACE_LATER)
        return false;
    int source = b->source;
    mpi_buffer_put(w, b);
    if (!l->closed && place == MADI_PLACE_COPY) {
        mpi_body_begin(l, source, announced->body_tag);
        return true;
    }
    l->end.got++;
    madi_lock(&w->io);
    mpi_body_discard(w, source, announced->body_tag, announced->hdr.length);
    madi_unlock(&w->io);
    return true;
}

bool mpi_announced_read(const mpi_buffer_t *b, mpi_announced_t *announced)
{
    const madi_wire_hdr_t *hdr = &announced->hdr;
    if (b->len != WORLD_ANNOUNCED)
        return false;
    memcpy(announced, b->data, WORLD_ANNOUNCED);
    return hdr->type >= MADI_WIRE_MSG && hdr->type < MADI_WIRE_TYPES && hdr->length > WORLD_PACKET_MAX - sizeof *hdr &&
           hdr->length <= MADI_MPI_CHUNK_MAX - sizeof *hdr && announced->body_tag >= WORLD_BODY_TAG &&
           announced->body_tag < WORLD_BODY_TAG + WORLD_BODY_TAGS;
}

/* Deliver a link's next packet.  False: later. */
static bool next_packet_deliver(mpi_link_t *l, mpi_buffer_t *b)
{
    madi_wire_hdr_t hdr = {0};
    mpi_announced_t announced;
    char text[MADI_REASON_MAX];
    if (mpi_announced_read(b, &announced))
        return announced_deliver(l, &announced, b);
    if (b->len >= sizeof hdr)
        memcpy(&hdr, b->data, sizeof hdr);
    if (b->len >= sizeof hdr && mpi_header_fits(&hdr, b->len))
        return whole_packet_deliver(l, &hdr, b);
    snprintf(text, sizeof text,
             "received a packet of type %u with %u bytes in a message of %zu, which no peer sends: check which program the "
             "peer runs",
             hdr.type, (unsigned)hdr.length, b->len);
    mpi_buffer_put(mpi_of(l)->world, b);
    mpi_down(l, MAD_ERR_PROTOCOL, text);
    return true;
}

static bool packet_may_be_delivered(const mpi_link_t *l)
{
    return l->started && !l->closed && !l->down && !l->receiving && !l->is_deferred;
}

void mpi_waiting_run(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    while (l->first_waiting && packet_may_be_delivered(l)) {
        mpi_buffer_t *b = l->first_waiting;
        l->first_waiting = b->next; /* b may be free when next_packet_deliver returns */
        if (!l->first_waiting)
            l->waiting = &l->first_waiting;
        if (next_packet_deliver(l, b))
            continue;
        if (l->closed) { /* mpi_receive_forget has been here */
            mpi_buffer_put(a->world, b);
            return;
        }
        b->next = l->first_waiting;
        if (!l->first_waiting)
            l->waiting = &b->next;
        l->first_waiting = b;
        l->is_deferred = true;
        l->next_deferred = a->deferred;
        a->deferred = l;
        fabric_heat(&a->heat);
    }
    mpi_bye_check(l);
}

int mpi_deferred(mpi_adapter_t *a)
{
    int n = 0;
    mpi_link_t *next, *l = a->deferred;
    a->deferred = NULL;
    for (; l; l = next, n++) {
        next = l->next_deferred;
        l->is_deferred = false;
        mpi_waiting_run(l);
    }
    return n;
}

/* Discard a message; a body that it announces is received all the same. */
static void packet_discard(mpi_world_t *w, mpi_buffer_t *b)
{
    mpi_announced_t announced;
    if (fabric_tag_kind(b->tag) == FABRIC_KIND_PACKET && mpi_announced_read(b, &announced)) {
        madi_lock(&w->io);
        mpi_body_discard(w, b->source, announced.body_tag, announced.hdr.length);
        madi_unlock(&w->io);
    }
    mpi_buffer_put(w, b);
}

void mpi_packet_handle(mpi_adapter_t *a, mpi_buffer_t *b)
{
    fabric_kind_t kind = fabric_tag_kind(b->tag);
    if (kind == FABRIC_KIND_FRAME) {
        mpi_frame_arrived(a, b);
        mpi_buffer_put(a->world, b);
        return;
    }
    madi_lock(&a->world->io);
    mpi_link_t *l = mpi_link_of(a->world, b->tag);
    madi_unlock(&a->world->io);
    if (!l || mpi_of(l) != a || l->closed || l->down) {
        packet_discard(a->world, b);
        return;
    }
    l->end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        fabric_control_t control;
        bool is_one = b->len == sizeof control;
        memcpy(&control, b->data, sizeof control);
        mpi_buffer_put(a->world, b);
        if (is_one)
            mpi_control_arrived(l, &control);
        return;
    }
    b->next = NULL;
    *l->waiting = b;
    l->waiting = &b->next;
    mpi_waiting_run(l);
}

mpi_link_t *mpi_turn(const mpi_adapter_t *a, uint64_t tag)
{
    mpi_link_t *l = fabric_tag_kind(tag) == FABRIC_KIND_PACKET ? mpi_link_of(a->world, tag) : NULL;
    return l && mpi_of(l) == a && !l->first_waiting && packet_may_be_delivered(l) ? l : NULL;
}

void mpi_slot_put(madi_link_t *link, madi_foreign_t loan)
{
    mpi_world_t *w = ((mpi_adapter_t *)link->adapter)->world;
    char *body = madi_foreign_pass_on(loan);
    atomic_fetch_sub_explicit(&w->lent, 1, memory_order_relaxed);
    mpi_buffer_put(w, (mpi_buffer_t *)(void *)(body - sizeof(madi_wire_hdr_t) - offsetof(mpi_buffer_t, data)));
}

void mpi_receive_forget(mpi_link_t *l)
{
    mpi_adapter_t *a = mpi_of(l);
    for (mpi_link_t **p = &a->deferred; *p; p = &(*p)->next_deferred)
        if (*p == l) {
            *p = l->next_deferred;
            break;
        }
    l->is_deferred = false;
    for (mpi_buffer_t *b; (b = l->first_waiting);) {
        l->first_waiting = b->next;
        packet_discard(a->world, b);
    }
    l->waiting = &l->first_waiting;
}
