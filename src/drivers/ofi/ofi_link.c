/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: links.  A link has no object of libfabric: it is a pair of endpoints' addresses, and a number with a random key at
 * each end. */
#include "drivers/ofi/ofi.h"

#include <stdio.h>
#include <string.h>

static void peer_process_ready(madi_watch_t *watch, uint32_t events)
{
    ofi_link_t *l = MADI_CONTAINER(watch, ofi_link_t, process);
    (void)events;
    if (l->closed || l->down)
        return;
    ofi_drain(ofi_of(l)); /* deliver what the peer sent before its end */
    l->dead = true;
    ofi_down(l, MAD_ERR_PEER, "the process is gone");
}

void ofi_down(ofi_link_t *l, mad_status_t status, const char *text)
{
    if (l->down || l->closed)
        return;
    l->down = true;
    madi_link_down(&l->base, status, text);
}

/* Make what both ends need for the handshake: the other end's address, and a number. */
static mad_status_t link_open(ofi_link_t *l, const void *name, size_t len, char *reason)
{
    l->peer = ofi_peer_use(ofi_of(l), name, len, reason);
    if (!l->peer)
        return MAD_ERR_PROTOCOL;
    l->index = fabric_table_add(&ofi_of(l)->links, l, &l->key, reason);
    l->numbered = l->index >= 0;
    return l->numbered ? MAD_OK : MAD_ERR_NOMEM;
}

mad_status_t ofi_connect(madi_link_t *link, const void *addr, size_t len, int *fd, char *reason)
{
    (void)fd; /* *fd stays -1: the handshake is in frames */
    if (ofi_of((ofi_link_t *)link)->broken) {
        snprintf(reason, MADI_REASON_MAX, "the adapter cannot be used any more: its provider has failed");
        return MAD_ERR_SYSTEM;
    }
    return link_open((ofi_link_t *)link, addr, len, reason);
}

mad_status_t ofi_accept(madi_link_t *link, const void *source, size_t source_len, char *reason)
{
    return link_open((ofi_link_t *)link, source, source_len, reason);
}

size_t ofi_describe(madi_link_t *link, void *bytes)
{
    const ofi_link_t *l = (ofi_link_t *)link;
    return fabric_describe(OFI_MAGIC, OFI_VERSION, l->index, l->key, bytes);
}

mad_status_t ofi_start(madi_link_t *link, int fd, bool active, char *reason)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_adapter_t *a = ofi_of(l);
    fabric_description_t d;
    (void)fd;
    (void)active;
    if (!fabric_description_read(link, OFI_MAGIC, OFI_VERSION, &d, reason))
        return MAD_ERR_PROTOCOL;
    /* shm of libfabric 1.17 goes on to use the memory of an endpoint of the same process after that was closed */
    if (fabric_process_is_here(&d.process) && !strncmp(a->info->fabric_attr->prov_name, "shm", 3)) {
        snprintf(reason, MADI_REASON_MAX, "libfabric's provider shm cannot connect two sessions of one process");
        return MAD_ERR_PEER;
    }
    l->tag = fabric_tag(FABRIC_KIND_PACKET, d.key, (uint16_t)d.index);
    l->process.ready = peer_process_ready; /* a peer of another host or namespace is known only by what it sends */
    fabric_process_watch(&d.process, link->adapter->session, &l->process);
    l->started = l->end.arrived = true;
    fabric_heat(&a->heat);
    madi_link_up(&l->base);
    if (!l->closed)
        ofi_early_run(l);
    return MAD_OK;
}

void ofi_link_close(madi_link_t *link)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_adapter_t *a = ofi_of(l);
    if (l->closed)
        return;
    l->closed = true;
    fabric_process_unwatch(link->adapter->session, &l->process);
    if (l->started && !l->end.bye && !l->dead)
        ofi_control_later(l, FABRIC_BYE, l->end.sent); /* without memory the peer notices the end by other means */
    if (l->numbered)
        a->links.links[l->index] = NULL;
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
