/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: links.  A link has no object of libfabric: it is a pair of endpoints' addresses, and a number with a random key at
 * each end. */
#include "drivers/ofi/ofi.h"

#include <stdio.h>
#include <string.h>

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t ofi_link_open(fabric_link_t *link, const void *name, size_t len, char *reason)
{
    ofi_link_t *l = (ofi_link_t *)link;
    l->peer = ofi_peer_use(ofi_of(l), name, len, reason);
    if (!l->peer)
        return MAD_ERR_PROTOCOL;
    return fabric_link_number(link, &ofi_of(l)->base.links, reason);
}

/* shm of libfabric 1.17 goes on to use the memory of an endpoint of the same process after that was closed. */
static bool ofi_peer_fits(const fabric_link_t *link, const fabric_description_t *d, char *reason)
{
    bool fits = !fabric_process_is_here(&d->process) ||
                strncmp(ofi_of((const ofi_link_t *)link)->info->fabric_attr->prov_name, "shm", 3) != 0;
    if (!fits)
        snprintf(reason, MADI_REASON_MAX, "libfabric's provider shm cannot connect two sessions of one process");
    return fits;
}

/* If out of memory, BYE is not sent, and the peer notices the end by other means. */
static void ofi_bye_send(fabric_link_t *link)
{
    ofi_control_later((ofi_link_t *)link, FABRIC_BYE, link->end.sent);
}

static void ofi_done_arrived(fabric_link_t *link, uint32_t id)
{
    ofi_flight_done((ofi_link_t *)link, id);
}

const fabric_ops_t ofi_ops = {
    .name = "ofi",
    .networks = "libfabric's networks",
    .magic = 0x6966646du,
    .version = 2,
    .drain = ofi_drain,
    .link_open = ofi_link_open,
    .early_run = ofi_early_run,
    .peer_fits = ofi_peer_fits,
    .control_send = ofi_control_send,
    .bye_send = ofi_bye_send,
    .done_arrived = ofi_done_arrived,
    .tick = ofi_tick,
};

void ofi_link_close(madi_link_t *link)
{
    ofi_link_t *l = (ofi_link_t *)link;
    if (l->base.closed)
        return;
    fabric_link_end(&l->base);
    fabric_link_unnumber(&l->base, &ofi_of(l)->base.links);
    ofi_receive_forget(l);
    ofi_copies_forget(l);
    ofi_flights_report(l);
}

void ofi_link_fini(madi_link_t *link)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_link_close(link);
    ofi_peer_drop(ofi_of(l), l->peer);
    l->peer = NULL;
}
