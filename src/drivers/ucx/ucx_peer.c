/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: UCX's endpoints, one for each address of a worker.
 *
 * UCX joins the endpoints of two workers in pairs, in the order in which they are made, and keeps a closed one while the other
 * of the pair may send.  If one side closed its endpoint and made another, those in use would be of different pairs.  So an
 * endpoint that a link has used stays open until UCX reports its end, or the adapter ends.  That of a stranger is closed a
 * while after the core has forgotten the stranger, by force: for an address that leads nowhere, an orderly close never ends.
 *
 * The peer wrote an address, and the first frame of a stranger has one, too: the answer needs an endpoint.  UCX gets an
 * address that has passed the check of ucx_address.h.  UCX parses an address without a length, so the buffer is long enough
 * for every address of this length, and ends with zeros.  The check does not protect against a hostile sender of UCX's own
 * messages, in which UCX also parses addresses (SECURITY.md).  That is why frames are not answered on the endpoints that UCX
 * makes itself (UCP_AM_SEND_FLAG_REPLY): for those UCX parses the stranger's address unchecked (doc/rationale.md). */
#include "drivers/ucx/ucx.h"

#include "base/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes: UCX parses up to 128 entries of an address (UCP_MAX_RESOURCES), of at most 40 bytes where all lengths are
 * zeros.  A length in the peer's bytes can make UCX read up to 255 bytes beyond an entry. */
#define ADDRESS_ROOM 8192
static_assert(ADDRESS_ROOM >= UCX_ADDRESS_MAX + 2 * 255 + 128 * 40, "address");

/* Handle that UCX has found the peer, or the network, to be gone.  UCX calls this function in ucp_worker_progress. */
static void endpoint_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucx_adapter_t *a = arg;
    for (ucx_peer_t *p = a->peers; p; p = p->next)
        if (p->ep == ep && p->error == UCS_OK) {
            p->error = status;
            p->sends = NULL;
        }
    atomic_store_explicit(&a->base.failures, true, memory_order_release);
}

#define ENDED_NS INT64_C(1000000000) /* ns that the last answer to a stranger has to leave, before the endpoint is closed */

static ucs_status_t ucx_endpoint_open(ucx_adapter_t *a, ucx_peer_t *p)
{
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = calloc(1, ADDRESS_ROOM),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = endpoint_failed, .arg = a},
    };
    if (!params.address)
        return UCS_ERR_NO_MEMORY;
    memcpy((void *)(uintptr_t)params.address, p->address, p->len);
    madi_lock(&a->io);
    ucs_status_t status =
        a->worker && !a->base.broken ? a->lib->ep_create(a->worker, &params, &p->ep) : UCS_ERR_NOT_CONNECTED;
    if (status == UCS_OK) {
        p->sends = p->ep;
        p->next = a->peers;
        a->peers = p;
    }
    madi_unlock(&a->io);
    free((void *)(uintptr_t)params.address);
    return status;
}

/* Return the usable peer of this address; NULL if there is none. */
static ucx_peer_t *peer_find(const ucx_adapter_t *a, const void *address, size_t len)
{
    ucx_peer_t *p = a->peers;
    while (p && (p->error != UCS_OK || p->len != len || memcmp(p->address, address, len) != 0))
        p = p->next;
    return p;
}

static ucx_peer_t *peer_make(ucx_adapter_t *a, const void *address, size_t len, char *reason)
{
    if (!len || len > UCX_ADDRESS_MAX || !ucx_address_check(&a->shape, address, len)) {
        snprintf(reason, MADI_REASON_MAX, "the peer's address is not one of UCX");
        return NULL;
    }
    ucx_peer_t *p = calloc(1, sizeof *p);
    if (!p) {
        snprintf(reason, MADI_REASON_MAX, "no memory for a peer");
        return NULL;
    }
    p->len = (uint8_t)len;
    memcpy(p->address, address, len);
    ucs_status_t status = ucx_endpoint_open(a, p);
    if (status == UCS_OK)
        return p;
    snprintf(reason, MADI_REASON_MAX, "UCX cannot connect device %s to the peer's address: %.60s", a->base.adapter.name,
             a->lib->status_string(status));
    free(p);
    return NULL;
}

static void peer_resume(ucx_adapter_t *a, ucx_peer_t *p)
{
    a->n_ended -= p->ended != 0;
    p->ended = 0;
}

ucx_peer_t *ucx_peer_use(ucx_adapter_t *a, const void *address, size_t len, char *reason)
{
    ucx_peer_t *p = peer_find(a, address, len);
    p = p ? p : peer_make(a, address, len, reason);
    if (!p)
        return NULL;
    peer_resume(a, p);
    if (!p->source)
        p->uses++;
    p->source = false; /* its use becomes this one */
    p->linked = true;
    return p;
}

ucx_peer_t *ucx_peer_of_source(ucx_adapter_t *a, const void *address, size_t len, char *reason)
{
    ucx_peer_t *p = peer_find(a, address, len);
    p = p ? p : peer_make(a, address, len, reason);
    if (p && !p->uses) {
        peer_resume(a, p);
        p->source = true;
        p->uses = 1;
    }
    return p;
}

void ucx_source_end(madi_adapter_t *adapter, const void *source, size_t source_len)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    for (ucx_peer_t *p = a->peers; p; p = p->next)
        if (p->source && p->len == source_len && !memcmp(p->address, source, source_len)) {
            p->source = false;
            ucx_peer_drop(a, p);
            return;
        }
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

static void endpoint_closed(void *request, ucs_status_t status, void *arg)
{
    ucx_adapter_t *a = arg;
    (void)status;
    a->closing--;
    a->lib->request_free(request);
}

/* Close the endpoint.  force: messages under way on it are cancelled; otherwise they leave first.  Under the lock io. */
static void endpoint_close(ucx_adapter_t *a, ucx_peer_t *p, bool force)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0,
        .cb.send = endpoint_closed,
        .user_data = a,
    };
    p->sends = NULL;
    if (!p->ep)
        return;
    ucs_status_ptr_t request = a->worker ? a->lib->ep_close(p->ep, &param) : NULL;
    if (UCS_PTR_IS_PTR(request))
        a->closing++;
    else if (request) /* if the close fails, the endpoint is released with the worker */
        a->close_error = UCS_PTR_STATUS(request);
    p->ep = NULL;
}

void ucx_peer_break(ucx_adapter_t *a, ucx_peer_t *p, ucs_status_t error)
{
    madi_lock(&a->io);
    if (p->error == UCS_OK)
        p->error = error;
    endpoint_close(a, p, true);
    madi_unlock(&a->io);
    atomic_store_explicit(&a->base.failures, true, memory_order_release);
}

/* Close and free a peer that is not used. */
static void peer_end(ucx_adapter_t *a, ucx_peer_t *peer)
{
    ucx_peer_t **p = &a->peers;
    peer_resume(a, peer);
    madi_lock(&a->io);
    while (*p != peer)
        p = &(*p)->next;
    *p = peer->next;
    endpoint_close(a, peer, peer->error != UCS_OK || !peer->linked);
    madi_unlock(&a->io);
    fabric_heat(&a->base.heat);
    free(peer);
}

/* Free the peers that nothing uses: those whose endpoint has failed, and those of strangers whose last use ended before the
 * given time. */
static void ucx_peers_free(ucx_adapter_t *a, int64_t before)
{
    ucx_peer_t *next;
    for (ucx_peer_t *p = a->peers; p; p = next) {
        next = p->next;
        if (!p->uses && (p->error != UCS_OK || (p->ended && p->ended < before)))
            peer_end(a, p);
    }
}

void ucx_peer_drop(ucx_adapter_t *a, ucx_peer_t *peer)
{
    if (!peer || --peer->uses)
        return;
    if (peer->error != UCS_OK) {
        peer_end(a, peer);
    } else if (!peer->linked) {
        if (a->n_ended == UCX_ENDED_MAX)
            ucx_peers_free(a, INT64_MAX);
        peer->ended = madi_now();
        a->n_ended++;
    }
}

void ucx_peers_reap(ucx_adapter_t *a)
{
    ucx_peers_free(a, madi_now() - ENDED_NS);
}

void ucx_peers_close(ucx_adapter_t *a)
{
    ucx_peer_t *next;
    for (ucx_peer_t *p = a->peers; p; p = next) {
        next = p->next;
        if (p->linked)
            peer_end(a, p);
    }
}

void ucx_peers_fini(ucx_adapter_t *a)
{
    while (a->peers)
        peer_end(a, a->peers);
}
