/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: links.  A link is an endpoint of UCX, which links of the same two workers share, and a number with a random key at
 * each end. */
#include "drivers/ucx/ucx.h"

#include <stdio.h>

static void ucx_peer_process_ready(madi_watch_t *watch, uint32_t events)
{
    ucx_link_t *l = MADI_CONTAINER(watch, ucx_link_t, process);
    (void)events;
    if (l->closed || l->down)
        return;
    ucx_drain(ucx_of(l)); /* deliver what the peer sent before its end */
    l->dead = true;
    ucx_of(l)->deaths = ucx_of(l)->device.memory;
    ucx_down(l, MAD_ERR_PEER, "the process is gone");
}

void ucx_down(ucx_link_t *l, mad_status_t status, const char *text)
{
    if (l->down || l->closed)
        return;
    l->down = true;
    madi_link_down(&l->base, status, text);
}

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t ucx_link_open(ucx_link_t *l, const void *address, size_t len, char *reason)
{
    l->peer = ucx_peer_use(ucx_of(l), address, len, reason);
    if (!l->peer)
        return MAD_ERR_PROTOCOL;
    l->index = fabric_table_add(&ucx_of(l)->links, l, &l->key, reason);
    l->numbered = l->index >= 0;
    return l->numbered ? MAD_OK : MAD_ERR_NOMEM;
}

mad_status_t ucx_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)fd; /* stays -1: the handshake is in frames */
    if (ucx_of((ucx_link_t *)link)->broken) {
        snprintf(reason, MADI_REASON_MAX, "the adapter cannot be used any more: UCX has failed");
        return MAD_ERR_SYSTEM;
    }
    return ucx_link_open((ucx_link_t *)link, addr, len, reason);
}

mad_status_t ucx_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    return ucx_link_open((ucx_link_t *)link, source, source_len, reason);
}

size_t ucx_describe(madi_link_t *link, void *bytes)
{
    const ucx_link_t *l = (ucx_link_t *)link;
    return fabric_describe(UCX_MAGIC, UCX_VERSION, l->index, l->key, bytes);
}

mad_status_t ucx_start(madi_link_t *link, int fd, bool active, char *reason)
{
    ucx_link_t *l = (ucx_link_t *)link;
    fabric_description_t d;
    (void)fd;
    (void)active;
    if (!fabric_description_read(link, UCX_MAGIC, UCX_VERSION, &d, reason))
        return MAD_ERR_PROTOCOL;
    l->tag = fabric_tag(FABRIC_KIND_PACKET, d.key, (uint16_t)d.index);
    /* peers of other hosts and namespaces have no such watch: only UCX and messages report their end */
    l->process.ready = ucx_peer_process_ready;
    fabric_process_watch(&d.process, link->adapter->session, &l->process);
    l->started = l->end.arrived = true;
    fabric_heat(&ucx_of(l)->heat);
    madi_link_up(link);
    if (!l->closed)
        ucx_early_run(l);
    return MAD_OK;
}

void ucx_link_close(madi_link_t *link)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_adapter_t *a = ucx_of(l);
    if (l->closed)
        return;
    l->closed = true;
    fabric_process_unwatch(link->adapter->session, &l->process);
    if (l->started && !l->end.bye && !l->dead)
        ucx_control_send(l, FABRIC_BYE, l->end.sent); /* without memory the peer finds out by other means */
    if (l->numbered)
        a->links.links[l->index] = NULL;
    ucx_receive_forget(l);
    ucx_link_await(l);
    ucx_body_forget(l);
    ucx_flights_land(a);
    ucx_flights_drop(l);
    ucx_copies_forget(l);
    if (l->dead) /* UCX would wait for it */
        ucx_peer_break(a, l->peer, UCS_ERR_CONNECTION_RESET);
}

void ucx_link_fini(madi_link_t *link)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_link_close(link);
    ucx_peer_drop(ucx_of(l), l->peer);
    l->peer = NULL;
}
