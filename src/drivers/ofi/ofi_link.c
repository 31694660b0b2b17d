/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: links.  A link has no object of libfabric: it is a pair of endpoints' addresses, and a number with a random key at
 * each end. */
#include "drivers/ofi/ofi.h"

#include "base/own.h"
#include "base/random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Give the link a number and a key. */
static bool link_number(ofi_link_t *l, char *reason)
{
    ofi_adapter_t *a = ofi_of(l);
    int i = 0;
    while (i < a->n_links && a->links[i])
        i++;
    if (i == a->room_links && i < OFI_LINKS_MAX) {
        int room = a->room_links ? a->room_links * 2 : 16;
        ofi_link_t **p = realloc(a->links, (size_t)room * sizeof *p);
        if (p) {
            a->links = p;
            a->room_links = room;
        }
    }
    if (i == a->room_links || !madi_random(&l->key, sizeof l->key)) {
        snprintf(reason, MADI_REASON_MAX, "no memory for a link, or it would be number %d of %d", i, OFI_LINKS_MAX);
        return false;
    }
    l->key &= OFI_KEY_MASK;
    l->index = i;
    l->numbered = true;
    a->links[i] = l;
    a->n_links = i < a->n_links ? a->n_links : i + 1;
    return true;
}

/* ---- The peer's process ------------------------------------------------------------------------------------------------ */

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

/* Watch a peer of this host.  Peers of other hosts, and of other namespaces, are known only by what they send. */
static void peer_process_watch(ofi_link_t *l, const ofi_description_t *d)
{
    int fd = ofi_process_open(d);
    if (fd < 0)
        return;
    l->process = (madi_watch_t){.fd = fd, .ready = peer_process_ready};
    if (madi_watch_add_rare(l->base.adapter->session, &l->process, EPOLLIN) == MAD_OK)
        return;
    madi_fd_close(fd);
    l->process.fd = 0;
}

static void peer_process_unwatch(ofi_link_t *l)
{
    if (l->process.fd <= 0)
        return;
    madi_watch_del(l->base.adapter->session, &l->process);
    madi_fd_close(l->process.fd);
    l->process.fd = -1;
}

/* ---- Life ------------------------------------------------------------------------------------------------------------------ */

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
    return link_number(l, reason) ? MAD_OK : MAD_ERR_NOMEM;
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

mad_status_t ofi_start(madi_link_t *link, int fd, bool active, char *reason)
{
    ofi_link_t *l = (ofi_link_t *)link;
    ofi_adapter_t *a = ofi_of(l);
    ofi_description_t description, *d = &description;
    (void)fd;
    (void)active;
    if (link->description_len != sizeof *d) {
        snprintf(reason, MADI_REASON_MAX, "the other end's description has %zu bytes", link->description_len);
        return MAD_ERR_PROTOCOL;
    }
    memcpy(d, link->description, sizeof *d);
    if (d->magic != OFI_MAGIC || d->version != OFI_VERSION || d->index >= OFI_LINKS_MAX || d->key > OFI_KEY_MASK) {
        snprintf(reason, MADI_REASON_MAX, "the other end has another version of the driver ofi");
        return MAD_ERR_PROTOCOL;
    }
    /* shm of libfabric 1.17 goes on to use the memory of an endpoint of the same process after that was closed */
    if (ofi_is_here(d) && !strncmp(a->info->fabric_attr->prov_name, "shm", 3)) {
        snprintf(reason, MADI_REASON_MAX, "libfabric's provider shm cannot connect two sessions of one process");
        return MAD_ERR_PEER;
    }
    l->tag = ofi_tag(OFI_KIND_PACKET, d->key, (uint16_t)d->index);
    peer_process_watch(l, d);
    l->started = l->heard = true;
    ofi_heat(a);
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
    peer_process_unwatch(l);
    if (l->started && !l->bye && !l->dead)
        ofi_control_later(l, OFI_BYE, l->sent_all); /* without memory the peer notices the end by other means */
    if (l->numbered)
        a->links[l->index] = NULL;
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
