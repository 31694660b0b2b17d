/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: links.  A link is an endpoint of UCX, which links of the same two workers share, and a number with a random key at
 * each end. */
#include "drivers/ucx/ucx.h"

#include <stdio.h>

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t ucx_link_open(fabric_link_t *link, const void *address, size_t len, char *reason)
{
    ucx_link_t *l = (ucx_link_t *)link;
    l->peer = ucx_peer_use(ucx_of(l), address, len, reason);
    if (!l->peer)
        return MAD_ERR_PROTOCOL;
    return fabric_link_number(link, &ucx_of(l)->base.links, reason);
}

/* A dead process may have blocked queues in memory that it shared with others. */
static void ucx_peer_lost(fabric_link_t *link)
{
    if (link->dead)
        fabric_of(link)->looks_at_all = ucx_of((ucx_link_t *)link)->device.memory;
}

const fabric_ops_t ucx_ops = {
    .name = "ucx",
    .networks = "UCX's networks",
    .magic = 0x7863756du,
    .version = 2,
    .drain = ucx_drain,
    .link_open = ucx_link_open,
    .early_run = ucx_early_run,
    .control_send = ucx_control_send,
    .peer_lost = ucx_peer_lost,
    .tick = ucx_tick,
};

void ucx_link_close(madi_link_t *link)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_adapter_t *a = ucx_of(l);
    if (l->base.closed)
        return;
    fabric_link_end(&l->base);
    fabric_link_unnumber(&l->base, &a->base.links);
    ucx_receive_forget(l);
    ucx_link_await(l);
    ucx_body_forget(l);
    ucx_flights_land(a);
    ucx_flights_drop(l);
    ucx_copies_forget(l);
    if (l->base.dead) /* UCX would wait for it */
        ucx_peer_break(a, l->peer, UCS_ERR_CONNECTION_RESET);
}

void ucx_link_fini(madi_link_t *link)
{
    ucx_link_t *l = (ucx_link_t *)link;
    ucx_link_close(link);
    ucx_peer_drop(ucx_of(l), l->peer);
    l->peer = NULL;
}
