/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: frames of the handshake.  A frame begins with two addresses:
 *
 *   | address of the receiver | address of the sender | frame |
 *
 * The receiver's address has the random number of its process.  A frame that reaches another process, because the peer's rank
 * is one of another MPI job, is answered without a frame: then the address is wrong. */
#include "drivers/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

#define FRAME_HEAD (2 * sizeof(mpi_address_t))

static bool mpi_frame_post(mpi_adapter_t *a, mpi_address_t to, const void *frame, size_t len, int *error)
{
    struct iovec vec[3] = {{&to, sizeof to}, {&a->address, sizeof a->address}, {(void *)(uintptr_t)frame, len}};
    return mpi_message_send(a->world, (int)to.rank, fabric_tag(FABRIC_KIND_FRAME, 0, 0), vec, 3, NULL, error) == MADI_SENT;
}

bool mpi_frame_send(madi_link_t *link, const void *frame, size_t len)
{
    mpi_link_t *l = (mpi_link_t *)link;
    int error;
    bool sent = mpi_frame_post(mpi_of(l), l->peer, frame, len, &error);
    if (error)
        fabric_send_failed(&l->base, error);
    return sent;
}

bool mpi_frame_answer(madi_adapter_t *adapter, const void *source, size_t source_len, const void *frame, size_t len)
{
    mpi_adapter_t *a = (mpi_adapter_t *)adapter;
    mpi_address_t to;
    int error;
    if (source_len != sizeof to)
        return true;
    memcpy(&to, source, sizeof to);
    return to.rank >= (uint32_t)a->world->size || mpi_frame_post(a, to, frame, len, &error) || error;
}

static mpi_adapter_t *adapter_of_address(mpi_world_t *w, const mpi_address_t *address)
{
    mpi_adapter_t *a = w->adapters;
    while (a && memcmp(&a->address, address, sizeof *address) != 0)
        a = a->next;
    return a;
}

mpi_adapter_t *mpi_frame_adapter(mpi_world_t *w, const mpi_buffer_t *b)
{
    mpi_address_t to;
    if (b->len < FRAME_HEAD)
        return NULL;
    memcpy(&to, b->data, sizeof to);
    mpi_adapter_t *a = adapter_of_address(w, &to);
    /* the first of w->adapters exists while messages are handled */
    return a ? a : b->len > FRAME_HEAD ? w->adapters : NULL;
}

/* Refuse a frame: send its two addresses back to its sender, with no frame behind them. */
static void frame_refuse(mpi_adapter_t *a, mpi_address_t to, mpi_address_t from)
{
    struct iovec vec[2] = {{&from, sizeof from}, {&to, sizeof to}};
    int error;
    if (from.rank < (uint32_t)a->world->size)
        mpi_message_send(a->world, (int)from.rank, fabric_tag(FABRIC_KIND_FRAME, 0, 0), vec, 2, NULL, &error);
}

/* Handle that the address of a peer was wrong. */
static void frame_refused(mpi_adapter_t *a, const mpi_address_t *peer)
{
    char text[MADI_REASON_MAX];
    int i = 0;
    snprintf(text, sizeof text, "rank %u of this MPI job is another process: the peer is of another MPI job, or has ended",
             peer->rank);
    for (fabric_link_t *l; (l = fabric_link_next(&a->base, &i));)
        if (!l->is_up && !memcmp(&((mpi_link_t *)l)->peer, peer, sizeof *peer))
            fabric_link_down(l, MAD_ERR_PEER, text);
}

void mpi_frame_arrived(mpi_adapter_t *a, const mpi_buffer_t *b)
{
    mpi_address_t to, from;
    memcpy(&to, b->data, sizeof to);
    memcpy(&from, b->data + sizeof to, sizeof from);
    if (memcmp(&to, &a->address, sizeof to) != 0)
        frame_refuse(a, to, from);
    else if (b->len == FRAME_HEAD)
        frame_refused(a, &from);
    else if (b->len - FRAME_HEAD <= MADI_FRAME_MAX)
        madi_frame_arrived(&a->base.adapter, &from, sizeof from, b->data + FRAME_HEAD, b->len - FRAME_HEAD);
}
