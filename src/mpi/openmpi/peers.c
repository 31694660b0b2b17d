/* SPDX-License-Identifier: BSD-3-Clause */
/* The other processes of the job: addresses travel by Open MPI's own exchange, as opaque bytes. */
#include "btl_mad.h"

#include <opal/class/opal_bitmap.h>
#include <opal/mca/pmix/pmix.h>
#include <opal/threads/mutex.h>
#include <stdlib.h>
#include <string.h>

static mad_btl_endpoint_t *all;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

int mad_btl_publish(void)
{
    const void *address;
    size_t len;
    int rc;
    mad_address(mad_btl->session, &address, &len);
    OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, &mad_btl->super.btl_version, (void *)address, len);
    return rc;
}

/* NULL: it has no address of ours (another set of components), or one of another version. */
static mad_btl_endpoint_t *endpoint_new(opal_proc_t *proc)
{
    mad_btl_endpoint_t *endpoint = NULL;
    void *address = NULL;
    size_t len = 0;
    mad_peer_t peer;
    int rc;
    OPAL_MODEX_RECV(rc, &mad_btl->super.btl_version, &proc->proc_name, &address, &len);
    if (rc == OPAL_SUCCESS && mad_peer_add(mad_btl->session, address, len, &peer) == MAD_OK)
        endpoint = calloc(1, sizeof *endpoint);
    free(address);
    if (endpoint) {
        endpoint->peer = peer;
        endpoint->proc = proc;
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
    (void)btl;
    for (size_t i = 0; i < n; i++) {
        endpoints[i] = procs[i] == opal_proc_local_get() ? NULL : endpoint_new(procs[i]);
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
    mad_btl_thread_stop(); /* Open MPI takes itself apart after this; it does not take away all peers */
    for (size_t i = 0; i < n; i++) {
        opal_mutex_lock(&lock);
        for (mad_btl_endpoint_t **p = &all; *p; p = &(*p)->next)
            if (*p == endpoints[i]) {
                *p = endpoints[i]->next;
                break;
            }
        opal_mutex_unlock(&lock);
        free(endpoints[i]);
    }
    return OPAL_SUCCESS;
}

/* Open MPI decides what becomes of the program; its own choice is to end it. */
void mad_btl_dead(mad_btl_endpoint_t *endpoint, const char *text)
{
    if (atomic_exchange(&endpoint->dead, true))
        return;
    mad_btl_gets_fail(endpoint);
    if (mad_btl->error)
        mad_btl->error(&mad_btl_module, MCA_BTL_ERROR_FLAGS_FATAL, endpoint->proc, (char *)text);
}

static mad_btl_endpoint_t *endpoint_of(mad_peer_t peer)
{
    mad_btl_endpoint_t *e;
    opal_mutex_lock(&lock);
    for (e = all; e && e->peer != peer; e = e->next)
        ;
    opal_mutex_unlock(&lock);
    return e;
}

/* A peer that ends in good order says so, and is no event. */
void mad_btl_look_for_deaths(void)
{
    mad_event_t event;
    while (mad_event_next(mad_btl->session, &event) == MAD_OK) {
        mad_btl_endpoint_t *e = endpoint_of(event.peer);
        if (e && event.status != MAD_ERR_MISMATCH)
            mad_btl_dead(e, event.text);
    }
}
