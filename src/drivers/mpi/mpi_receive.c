/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: incoming packets.  All functions are called under the session's lock.
 *
 * MPI delivers the packets of a link in their order.  All packets wait in link->early that follow one whose body is being
 * received, or one that the core has answered with LATER. */
#include "drivers/mpi/mpi.h"

#include <string.h>

static mpi_buffer_t *early_message(fabric_early_t *early)
{
    return MADI_CONTAINER(early, mpi_buffer_t, early);
}

/* True if a buffer may be lent, which is counted. */
static bool buffer_lend(mpi_world_t *w)
{
    bool lends = atomic_fetch_add_explicit(&w->lent, 1, memory_order_relaxed) < WORLD_LENT_MAX;
    if (!lends)
        atomic_fetch_sub_explicit(&w->lent, 1, memory_order_relaxed);
    return lends;
}

/* Deliver a packet that lies whole in its buffer.  Return false if the packet has to wait. */
static bool mpi_whole_deliver(mpi_link_t *l, const madi_wire_hdr_t *hdr, mpi_buffer_t *b)
{
    mpi_world_t *w = mpi_of(l)->world;
    bool lends = hdr->type == MADI_WIRE_MSG && hdr->length > MADI_SHORT_MAX && buffer_lend(w);
    fabric_whole_t whole = fabric_whole_deliver(&l->base, hdr, madi_foreign_of(b->data + sizeof *hdr), lends);
    if (lends && whole != FABRIC_WHOLE_KEPT)
        atomic_fetch_sub_explicit(&w->lent, 1, memory_order_relaxed);
    if (whole == FABRIC_WHOLE_DONE)
        mpi_buffer_put(w, b);
    return whole != FABRIC_WHOLE_LATER;
}

/* Deliver a header whose body comes in a message of its own.  Return false if the packet has to wait. */
static bool mpi_header_deliver(mpi_link_t *l, const mpi_announced_t *announced, mpi_buffer_t *b)
{
    mpi_world_t *w = mpi_of(l)->world;
    madi_place_t place = fabric_body_place(&l->base, &announced->hdr);
    if (place == MADI_PLACE_LATER)
        return false;
    int source = b->source;
    mpi_buffer_put(w, b);
    if (!l->base.closed && place == MADI_PLACE_COPY) {
        mpi_body_begin(l, source, announced->body_tag);
        return true;
    }
    l->base.end.got++;
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

/* Deliver a link's next packet.  Return false if the packet has to wait. */
static bool mpi_packet_deliver(fabric_link_t *link, fabric_early_t *early)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_buffer_t *b = early_message(early);
    madi_wire_hdr_t hdr = {0};
    mpi_announced_t announced;
    size_t len = b->len;
    if (mpi_announced_read(b, &announced))
        return mpi_header_deliver(l, &announced, b);
    if (len >= sizeof hdr)
        memcpy(&hdr, b->data, sizeof hdr);
    if (len >= sizeof hdr && fabric_header_fits(&hdr, len))
        return mpi_whole_deliver(l, &hdr, b);
    mpi_buffer_put(mpi_of(l)->world, b);
    fabric_packet_wrong(link, &hdr, len);
    return true;
}

/* Discard a message; a body that it announces is received all the same. */
static void packet_discard(mpi_world_t *w, mpi_buffer_t *b)
{
    mpi_announced_t announced;
    if (fabric_tag_kind(b->early.tag) == FABRIC_KIND_PACKET && mpi_announced_read(b, &announced)) {
        madi_lock(&w->io);
        mpi_body_discard(w, b->source, announced.body_tag, announced.hdr.length);
        madi_unlock(&w->io);
    }
    mpi_buffer_put(w, b);
}

static void mpi_early_discard(fabric_link_t *link, fabric_early_t *early)
{
    packet_discard(mpi_of((mpi_link_t *)link)->world, early_message(early));
}

void mpi_early_run(fabric_link_t *link)
{
    fabric_early_run(link, false, mpi_packet_deliver, mpi_early_discard);
    fabric_bye_check(link);
}

void mpi_packet_handle(mpi_adapter_t *a, mpi_buffer_t *b)
{
    fabric_kind_t kind = fabric_tag_kind(b->early.tag);
    if (kind == FABRIC_KIND_FRAME) {
        mpi_frame_arrived(a, b);
        mpi_buffer_put(a->world, b);
        return;
    }
    madi_lock(&a->world->io);
    mpi_link_t *l = mpi_link_of(a->world, b->early.tag);
    madi_unlock(&a->world->io);
    if (!l || mpi_of(l) != a || l->base.closed || l->base.down || (uint32_t)b->source != l->peer.rank) {
        packet_discard(a->world, b);
        return;
    }
    l->base.end.arrived = true;
    if (kind == FABRIC_KIND_CONTROL) {
        fabric_control_t control;
        bool is_one = b->len == sizeof control;
        memcpy(&control, b->data, sizeof control);
        mpi_buffer_put(a->world, b);
        if (is_one)
            fabric_control_arrived(&l->base, &control);
        return;
    }
    if (l->base.early || !fabric_link_takes(&l->base))
        b = mpi_buffer_keep(a->world, b);
    size_t bytes = b->is_copy ? offsetof(mpi_buffer_t, data) + b->len : sizeof *b;
    if (!fabric_early_room(&l->base, bytes)) {
        packet_discard(a->world, b);
        return;
    }
    fabric_early_append(&l->base, &b->early, bytes);
    mpi_early_run(&l->base);
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
    fabric_early_forget(&l->base, mpi_early_discard);
}
