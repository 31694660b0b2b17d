/* SPDX-License-Identifier: BSD-3-Clause */
/* The other processes of the job.  Their addresses are passed by Open MPI's own exchange, as opaque bytes. */
#include "btl_mad.h"

#include <opal/class/opal_bitmap.h>
#include <stdlib.h>
#include <string.h>

static mad_btl_endpoint_t *all; /* endpoints for messages */
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

int mad_btl_publish(void)
{
    const void *address;
    size_t len;
    int rc;
    mad_address(mad_btl->session, &address, &len);
    OPAL_MODEX_SEND(rc, MAD_OMPI_GLOBAL, &mad_btl->super.btl_version, (void *)address, len);
    return rc;
}

/* ---- Which module serves a peer --------------------------------------------------------------------------------- */

static bool is_memory(int adapter)
{
    mad_adapter_info_t info;
    return !mad_adapter_get(mad_btl->session, adapter, &info) && !strcmp(info.driver, "shm");
}

/* Return the array with room for this peer; NULL if out of memory.  The caller holds the lock. */
static mad_btl_served_t *served_for(mad_peer_t peer)
{
    mad_btl_served_t *old = atomic_load_explicit(&mad_btl->served, memory_order_relaxed), *more;
    mad_peer_t n = old ? old->n * 2 : 64;
    if (old && peer < old->n)
        return old;
    n = peer < n ? n : peer + 1;
    more = calloc(1, sizeof *more + (size_t)n * sizeof *more->by);
    if (!more)
        return NULL;
    more->before = old;
    more->n = n;
    for (mad_peer_t i = 0; old && i < old->n; i++)
        atomic_store_explicit(&more->by[i], atomic_load_explicit(&old->by[i], memory_order_relaxed), memory_order_relaxed);
    atomic_store_explicit(&mad_btl->served, more, memory_order_release); /* pairs with mad_btl_module_of */
    return more;
}

/* Return the module of a peer, and record it.  A peer that connects before Open MPI has named it is decided by its
 * connection. */
mca_btl_base_module_t *mad_btl_decide(mad_peer_t peer, bool is_near)
{
    mca_btl_base_module_t *btl = NULL;
    mad_btl_served_t *served;
    int adapter;
    opal_mutex_lock(&lock);
    served = served_for(peer);
    if (served)
        btl = atomic_load_explicit(&served->by[peer], memory_order_relaxed);
    if (!btl) {
        if (mad_peer_adapter(mad_btl->session, peer, &adapter) == MAD_OK)
            is_near = is_memory(adapter);
        btl = is_near ? &mad_btl_memory : &mad_btl_network;
        if (served)
            atomic_store_explicit(&served->by[peer], btl, memory_order_relaxed);
    }
    opal_mutex_unlock(&lock);
    return btl;
}

void mad_btl_peers_end(void)
{
    for (mad_btl_served_t *s = atomic_exchange(&mad_btl->served, NULL), *before; s; s = before) {
        before = s->before;
        free(s);
    }
}

static bool is_near(const opal_proc_t *proc)
{
    if (OPAL_PROC_ON_LOCAL_NODE(proc->proc_flags))
        for (int i = 0; i < mad_adapter_count(mad_btl->session); i++)
            if (is_memory(i))
                return true;
    return false;
}

/* ---- Endpoints -------------------------------------------------------------------------------------------------- */

static bool peer_of_proc(opal_proc_t *proc, mad_peer_t *peer)
{
    void *address = NULL;
    size_t len = 0;
    bool good;
    int rc;
    OPAL_MODEX_RECV(rc, &mad_btl->super.btl_version, &proc->proc_name, &address, &len);
    good = rc == OPAL_SUCCESS && mad_peer_add(mad_btl->session, address, len, peer) == MAD_OK;
    free(address);
    return good;
}

/* Make an endpoint.  Return NULL if the process has no address of this component, or one of another version, or if
 * another module serves it. */
static mad_btl_endpoint_t *endpoint_new(mca_btl_base_module_t *btl, opal_proc_t *proc)
{
    bool is_windows = btl == &mad_btl_windows, self = proc == opal_proc_local_get();
    mad_btl_endpoint_t *endpoint;
    mad_peer_t peer = 0;
    if (self ? !is_windows : !peer_of_proc(proc, &peer) || (!is_windows && mad_btl_decide(peer, is_near(proc)) != btl))
        return NULL;
    endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return NULL;
    endpoint->btl = btl;
    endpoint->peer = peer;
    endpoint->self = self;
    endpoint->proc = proc;
    if (!is_windows) {
        atomic_fetch_add(&mad_btl->near, btl == &mad_btl_memory);
        opal_mutex_lock(&lock);
        endpoint->next = all;
        all = endpoint;
        opal_mutex_unlock(&lock);
    }
    return endpoint;
}

int mad_btl_add_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints,
                      opal_bitmap_t *reachable)
{
    for (size_t i = 0; i < n; i++) {
        endpoints[i] = endpoint_new(btl, procs[i]);
        if (endpoints[i] && reachable)
            opal_bitmap_set_bit(reachable, (int)i);
    }
    mad_btl_thread_start();
    return OPAL_SUCCESS;
}

int mad_btl_del_procs(mca_btl_base_module_t *btl, size_t n, opal_proc_t **procs, mad_btl_endpoint_t **endpoints)
{
    (void)btl;
    (void)procs;
    mad_btl_thread_stop(); /* Open MPI shuts down after this call, and does not remove all peers */
    for (size_t i = 0; i < n; i++) {
        opal_mutex_lock(&lock);
        for (mad_btl_endpoint_t **p = &all; *p; p = &(*p)->next)
            if (*p == endpoints[i]) {
                *p = endpoints[i]->next;
                break;
            }
        opal_mutex_unlock(&lock);
        atomic_fetch_sub(&mad_btl->near, endpoints[i] && endpoints[i]->btl == &mad_btl_memory);
        free(endpoints[i]);
    }
    return OPAL_SUCCESS;
}

/* Report the loss of a peer.  Open MPI decides how to react; its default is to end the program. */
void mad_btl_dead(mad_btl_endpoint_t *endpoint, const char *text)
{
    if (atomic_exchange(&endpoint->dead, true))
        return;
    mad_btl_gets_fail(endpoint);
    if (mad_btl->error)
        mad_btl->error(endpoint->btl, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, (char *)text);
}

mad_btl_endpoint_t *mad_btl_endpoint_of(mad_peer_t peer)
{
    mad_btl_endpoint_t *e;
    opal_mutex_lock(&lock);
    for (e = all; e && e->peer != peer; e = e->next)
        ;
    opal_mutex_unlock(&lock);
    return e;
}

void mad_btl_lost(mad_peer_t peer, const char *text)
{
    mad_btl_endpoint_t *e = mad_btl_endpoint_of(peer);
    if (e)
        mad_btl_dead(e, text);
}

/* Report all lost peers.  A peer that ends in order announces its end, and is not lost. */
void mad_btl_look_for_deaths(void)
{
    mad_event_t event;
    while (mad_event_next(mad_btl->session, &event) == MAD_OK) {
        if (event.status != MAD_ERR_MISMATCH)
            mad_btl_lost(event.peer, event.text);
    }
}
