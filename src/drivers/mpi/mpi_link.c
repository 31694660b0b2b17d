/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi: links.  A link is the rank of a peer, and a number with a random key at each end. */
#include "drivers/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

static void mpi_peer_process_ready(madi_watch_t *watch, uint32_t events)
{
    mpi_link_t *l = MADI_CONTAINER(watch, mpi_link_t, process);
    (void)events;
    if (l->closed || l->down)
        return;
    mpi_drain(mpi_of(l)); /* deliver what the peer sent before its end */
    l->dead = true;
    mpi_lib_peer_died();
    mpi_down(l, MAD_ERR_PEER, "the process is gone");
}

void mpi_down(mpi_link_t *l, mad_status_t status, const char *text)
{
    if (l->down || l->closed)
        return;
    l->down = true;
    madi_link_down(&l->base, status, text);
}

mpi_link_t *mpi_link_next(mpi_adapter_t *a, int *i)
{
    mpi_link_t *l = NULL;
    madi_lock(&a->world->io);
    while (*i < a->world->links.n && !l) {
        l = a->world->links.links[(*i)++];
        if (l && mpi_of(l) != a)
            l = NULL;
    }
    madi_unlock(&a->world->io);
    return l;
}

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t mpi_link_open(mpi_link_t *l, const void *address, size_t len, char *reason)
{
    mpi_world_t *w = mpi_of(l)->world;
    l->waiting = &l->first_waiting;
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
    l->index = fabric_table_add(&w->links, l, &l->key, reason);
    madi_unlock(&w->io);
    l->numbered = l->index >= 0;
    return l->numbered ? MAD_OK : MAD_ERR_NOMEM;
}

mad_status_t mpi_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)fd; /* stays -1: the handshake is in frames */
    if (mpi_of((mpi_link_t *)link)->world->error) {
        snprintf(reason, MADI_REASON_MAX, "the adapter cannot be used any more: MPI has failed");
        return MAD_ERR_SYSTEM;
    }
    return mpi_link_open((mpi_link_t *)link, addr, len, reason);
}

mad_status_t mpi_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    return mpi_link_open((mpi_link_t *)link, source, source_len, reason);
}

size_t mpi_describe(madi_link_t *link, void *bytes)
{
    const mpi_link_t *l = (mpi_link_t *)link;
    return fabric_describe(MPI_MAGIC, MPI_VERSION, l->index, l->key, bytes);
}

mad_status_t mpi_start(madi_link_t *link, int fd, bool active, char *reason)
{
    mpi_link_t *l = (mpi_link_t *)link;
    fabric_description_t d;
    (void)fd;
    (void)active;
    if (!fabric_description_read(link, MPI_MAGIC, MPI_VERSION, &d, reason))
        return MAD_ERR_PROTOCOL;
    l->tag = fabric_tag(FABRIC_KIND_PACKET, d.key, (uint16_t)d.index);
    /* peers of other hosts and namespaces have no such watch: only MPI and messages report their end */
    l->process.ready = mpi_peer_process_ready;
    fabric_process_watch(&d.process, link->adapter->session, &l->process);
    l->started = l->end.arrived = true;
    fabric_heat(&mpi_of(l)->heat);
    madi_link_up(link);
    if (!l->closed)
        mpi_waiting_run(l);
    return MAD_OK;
}

void mpi_link_close(madi_link_t *link)
{
    mpi_link_t *l = (mpi_link_t *)link;
    mpi_world_t *w = mpi_of(l)->world;
    if (l->closed || !w)
        return;
    l->closed = true;
    fabric_process_unwatch(link->adapter->session, &l->process);
    if (l->started && !l->end.bye && !l->dead)
        mpi_control_send(l, FABRIC_BYE, l->end.sent); /* without memory the peer finds out by other means */
    if (l->numbered) {
        madi_lock(&w->io);
        w->links.links[l->index] = NULL;
        madi_unlock(&w->io);
    }
    if (l->waiting)
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
