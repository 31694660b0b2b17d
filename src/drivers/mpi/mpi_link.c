/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: links.  A link is the rank of a peer, and a number with a random key at each end. */
#include "drivers/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

static fabric_link_t *mpi_link_next(fabric_adapter_t *a, int *i)
{
    mpi_world_t *w = ((mpi_adapter_t *)a)->world;
    fabric_link_t *l = NULL;
    madi_lock(&w->io);
    while (*i < w->links.n && !l) {
        l = w->links.links[(*i)++];
        if (l && fabric_of(l) != a)
            l = NULL;
    }
    madi_unlock(&w->io);
    return l;
}

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t mpi_link_open(fabric_link_t *link, const void *address, size_t len, char *reason)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_world_t *w = mpi_of(l)->world;
    if (w->error) {
        snprintf(reason, MADI_REASON_MAX, "the adapter cannot be used any more: MPI has failed");
        return MAD_ERR_SYSTEM;
    }
    if (len == sizeof l->peer)
        memcpy(&l->peer, address, len);
    if (len != sizeof l->peer) {
        snprintf(reason, MADI_REASON_MAX, "the peer's address is damaged");
        return MAD_ERR_PROTOCOL;
    }
    if (l->peer.rank >= (uint32_t)w->size) {
        snprintf(reason, MADI_REASON_MAX, "the peer is rank %u of another MPI job: this one has %d ranks", l->peer.rank,
                 w->size);
        return MAD_ERR_PEER;
    }
    madi_lock(&w->io);
    mad_status_t status = fabric_link_number(link, &w->links, reason);
    madi_unlock(&w->io);
    return status;
}

static void mpi_peer_lost(fabric_link_t *link)
{
    (void)link;
    mpi_lib_peer_died();
}

const fabric_ops_t mpi_ops = {
    .name = "mpi",
    .networks = "MPI's networks",
    .magic = 0x6d70696du,
    .version = 1,
    .drain = mpi_drain,
    .link_open = mpi_link_open,
    .early_run = mpi_early_run,
    .link_next = mpi_link_next,
    .control_send = mpi_control_send,
    .peer_lost = mpi_peer_lost,
    .tick = mpi_tick,
};

void mpi_link_close(madi_link_t *link)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_world_t *w = mpi_of(l)->world;
    if (l->base.closed || !w)
        return;
    fabric_link_end(&l->base);
    madi_lock(&w->io);
    fabric_link_unnumber(&l->base, &w->links);
    madi_unlock(&w->io);
    mpi_receive_forget(l);
    mpi_link_await(l);
    mpi_body_forget(l);
    mpi_flights_land(mpi_of(l));
    mpi_sends_forget(l);
}

void mpi_link_fini(madi_link_t *link)
{
    mpi_link_close(link);
}
