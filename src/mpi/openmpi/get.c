/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages over networks: unpacked in place, without a copy by this component.
 *
 *   sender                                          receiver
 *   registers the memory, and offers it: a message  --> waits, without its bytes, until it is unpacked
 *   on the channel for bulk
 *                                                   btl_get of all of it: the message is unpacked in place
 *   withdraws an offer that was not taken       -->  the offer is forgotten
 *
 * After the offer the sender has nothing more to do: a thread of the library, or the receiver, moves the bytes while the
 * sender computes.  If the receiver wants a part of a registration, or a registration that every peer may read, it
 * requests the memory:
 *
 *   looks up the registration                   <--  btl_get: a range of that registration
 *   a message on the channel for bulk: number   -->  unpacked in place
 *   of the get, the bytes
 *
 * In shared memory, fragments are faster for blocks below MAD_BTL_SHARED_MIN if the processes do not compute meanwhile:
 * both copy at the same time, through memory that stays in their caches.  If the host is oversubscribed, fragments are
 * faster up to MAD_BTL_CROWDED_MIN, because one process copies while it waits for the other to run.  So shorter blocks
 * are not registered, and Open MPI sends fragments, unless btl_mad_async is set.  Of longer blocks both processes move a
 * part, if the sender polls (core/send/share.h). */
#include "btl_mad.h"
#include "mpi/openmpi/tally.h"

#include <madeleine/runtime.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

/* Kinds of messages; the header precedes the bytes. */
enum { ANSWER, OFFER, WITHDRAWN };
typedef struct get_hdr {
    uint64_t kind;
    uint64_t number;  /* number of the get (ANSWER), otherwise of the registration */
    uint64_t address; /* offer: address at the sender */
    uint64_t size;    /* number of bytes; 0 if the registration does not exist */
} get_hdr_t;

typedef struct get_question {
    uint64_t number;
    uint64_t address, size;
    mca_btl_base_registration_handle_t handle;
} get_question_t;

/* ---- Numbers by which peers name objects ----------------------------------------------------------------------- */

typedef struct named {
    uint64_t number;
    mad_btl_endpoint_t *endpoint; /* the peer that may use the number; NULL for every peer */
    bool is_get;                  /* false if this is a registration */
} named_t;

typedef struct registration {
    named_t named;
    mca_btl_base_registration_handle_t handle;
    uint64_t address, size;
    mad_request_t *offer; /* request of the offer; NULL if the registration is not offered */
} registration_t;

typedef struct get {
    named_t named;
    struct get *next; /* next in the list of gets that wait for an offer */
    uint64_t offer, address;
    mad_btl_done_t done;
    void *local;
    size_t size;
    mca_btl_base_registration_handle_t *handle;
    mca_btl_base_rdma_completion_fn_t callback;
    void *context, *data;
} get_t;

/* Objects by number modulo the size of the table.  No number is ever used again. */
static named_t **places;
static uint32_t n_places, used;
static uint64_t last;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

/* Double the table.  The caller holds the lock. */
static bool named_grow(void)
{
    uint32_t n = n_places ? n_places * 2 : 64;
    named_t **more = calloc(n, sizeof *more);
    if (!more)
        return false;
    for (uint32_t i = 0; i < n_places; i++)
        if (places[i])
            more[places[i]->number % n] = places[i];
    free(places);
    places = more;
    n_places = n;
    return true;
}

static bool named_add(named_t *object, mad_btl_endpoint_t *endpoint)
{
    bool good;
    opal_mutex_lock(&lock);
    good = used < n_places / 2 || named_grow();
    if (good) {
        do
            last++;
        while (!last || places[last % n_places]);
        object->number = last;
        object->endpoint = endpoint;
        places[last % n_places] = object;
        used++;
    }
    opal_mutex_unlock(&lock);
    return good;
}

/* Return the object with this number, if the peer may use it; NULL if there is none. take: remove the object from the
 * table. */
static named_t *named_find(uint64_t number, mad_peer_t peer, bool is_get, bool take)
{
    named_t *object;
    opal_mutex_lock(&lock);
    object = n_places ? places[number % n_places] : NULL;
    if (object &&
        (object->number != number || object->is_get != is_get || (object->endpoint && object->endpoint->peer != peer)))
        object = NULL;
    if (object && take) {
        places[number % n_places] = NULL;
        used--;
    }
    opal_mutex_unlock(&lock);
    return object;
}

/* ---- Memory that peers may request ----------------------------------------------------------------------------- */

/* Handle of memory that needs no registration, because only this process writes to it. */
static mca_btl_base_registration_handle_t local_handle;

static bool is_got(const mad_btl_endpoint_t *endpoint, size_t size)
{
    size_t shared_min = mad_btl_oversubscribed() ? MAD_BTL_CROWDED_MIN : MAD_BTL_SHARED_MIN;
    mad_adapter_info_t info;
    int i;
    return !mad_peer_adapter(mad_btl->session, endpoint->peer, &i) && !mad_adapter_get(mad_btl->session, i, &info) &&
           (mad_btl->async || size >= shared_min || strcmp(info.driver, "shm") != 0);
}

/* Offer a registration.  If the offer fails, or if too many are offered already, the peer will request the memory. */
static void registration_offer(registration_t *r)
{
    mad_btl_endpoint_t *endpoint = r->named.endpoint;
    get_hdr_t hdr = {OFFER, r->named.number, r->address, r->size};
    mad_block_t blocks[2] = {{&hdr, sizeof hdr, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS},
                             {(void *)(uintptr_t)r->address, r->size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER}};
    if (atomic_load(&endpoint->offers) >= MAD_BTL_OFFERS_MAX ||
        mad_message_send(mad_btl->bulk, endpoint->peer, blocks, 2, &r->offer))
        return;
    r->handle.offered = 1;
    atomic_fetch_add(&endpoint->offers, 1);
}

/* Withdraw an offer because Open MPI has sent the data by other means, or does not know yet whether the get has ended.
 * In the latter case the withdrawal comes too late, and has no effect. */
static void registration_withdraw(registration_t *r)
{
    get_hdr_t hdr = {.kind = WITHDRAWN, .number = r->named.number};
    mad_block_t block = {&hdr, sizeof hdr, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request;
    bool all_here = mad_request_cancel(r->offer) == MAD_OK; /* true if no byte of the message has left this process */
    if (!all_here && !mad_message_send(mad_btl->bulk, r->named.endpoint->peer, &block, 1, &request))
        mad_request_detach(request, NULL, NULL);
    mad_request_detach(r->offer, NULL, NULL); /* freed on completion */
}

mca_btl_base_registration_handle_t *mad_btl_register(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *base,
                                                     size_t size, uint32_t flags)
{
    registration_t *r;
    (void)btl;
    if (!(flags & MCA_BTL_REG_FLAG_REMOTE_READ))
        return &local_handle;
    if (endpoint == MCA_BTL_ENDPOINT_ANY)
        endpoint = NULL;
    if (endpoint && !is_got(endpoint, size))
        return NULL;
    r = calloc(1, sizeof *r);
    if (r) {
        r->address = (uintptr_t)base;
        r->size = size;
    }
    if (!r || !named_add(&r->named, endpoint)) {
        free(r);
        return NULL;
    }
    r->handle.number = r->named.number;
    if (endpoint && size >= MAD_BTL_OFFER_MIN)
        registration_offer(r);
    return &r->handle;
}

int mad_btl_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
    registration_t *r = (registration_t *)((char *)handle - offsetof(registration_t, handle));
    (void)btl;
    if (handle == &local_handle)
        return OPAL_SUCCESS;
    named_find(r->named.number, r->named.endpoint ? r->named.endpoint->peer : MAD_ANY_SOURCE, false, true);
    if (r->offer && mad_request_test(&r->offer) == MAD_ERR_AGAIN)
        registration_withdraw(r);
    if (r->handle.offered)
        atomic_fetch_sub(&r->named.endpoint->offers, 1);
    free(r);
    return OPAL_SUCCESS;
}

/* ---- Requests -------------------------------------------------------------------------------------------------- */

static void get_complete(get_t *g, int rc)
{
    g->callback(g->named.endpoint->btl, g->named.endpoint, g->local, g->handle, g->context, g->data, rc);
    atomic_fetch_sub(&mad_btl->gets, 1);
    free(g);
}

static void get_done(mad_btl_done_t *done)
{
    get_t *g = (get_t *)((char *)done - offsetof(get_t, done));
    mad_btl_count(&mad_btl->got, g->size);
    get_complete(g, done->status ? OPAL_ERROR : OPAL_SUCCESS);
}

/* Unpack the message into the memory of the get. */
static void get_unpack(mad_message_t *message, get_t *g)
{
    mad_request_t *request;
    mad_unpack(message, g->local, g->size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (mad_end_unpacking_request(message, &request) == MAD_OK)
        mad_btl_when_done(request, &g->done);
    else
        get_complete(g, OPAL_ERROR);
}

/* ---- Offers, and the gets that they satisfy -------------------------------------------------------------------- */

typedef struct offered {
    struct offered *next;
    mad_peer_t peer;
    uint64_t number, address, size;
    mad_message_t *message;
} offered_t;

/* Offers and gets by number.  The one that comes first waits here for the other.  The lock protects this table. */
static struct bucket {
    offered_t *offers;
    get_t *gets;
} buckets[BUCKETS];
static mad_btl_tally_t offers_kept; /* numbers of offers in this table */

/* Return the address of the list's pointer to an offer; NULL if there is none.  The caller holds the lock. */
static offered_t **offer_find(mad_peer_t peer, uint64_t number)
{
    offered_t **p = &buckets[number % BUCKETS].offers;
    while (*p && ((*p)->number != number || (*p)->peer != peer))
        p = &(*p)->next;
    return *p ? p : NULL;
}

/* Remove an offer from its list, and return it. p: the list's pointer to it.  The caller holds the lock. */
static offered_t *offer_unlink(offered_t **p)
{
    offered_t *o = *p;
    *p = o->next;
    mad_btl_tally_remove(&offers_kept, o->peer);
    return o;
}

/* Add an offer to its list.  Return false if the peer has too many, or if out of memory.  The caller holds the lock. */
static bool offer_link(offered_t *o)
{
    offered_t **list = &buckets[o->number % BUCKETS].offers;
    if (!mad_btl_tally_add(&offers_kept, o->peer, MAD_BTL_OFFERS_KEPT_MAX))
        return false;
    o->next = *list;
    *list = o;
    return true;
}

/* Return the address of the list's pointer to the oldest get that waits for this offer; NULL if there is none.  The
 * caller holds the lock. */
static get_t **get_find(mad_peer_t peer, uint64_t number)
{
    get_t **p = &buckets[number % BUCKETS].gets;
    while (*p && ((*p)->offer != number || (*p)->named.endpoint->peer != peer))
        p = &(*p)->next;
    return *p ? p : NULL;
}

/* Remove a get from the list.  The caller holds the lock. */
static void get_unlink(const get_t *g)
{
    for (get_t **p = &buckets[g->offer % BUCKETS].gets; *p; p = &(*p)->next)
        if (*p == g) {
            *p = g->next;
            return;
        }
}

static bool is_all_of(const get_t *g, const offered_t *o)
{
    return g->address == o->address && g->size == o->size;
}

/* Let a get take the offer that it needs, or wait for that offer.  Return false if the get wants only a part of the
 * registered memory. */
static bool meet_offer(get_t *g)
{
    mad_peer_t peer = g->named.endpoint->peer;
    offered_t **p, *o = NULL;
    bool met;
    opal_mutex_lock(&lock);
    p = offer_find(peer, g->offer);
    met = !p || is_all_of(g, *p);
    if (p && met) {
        o = offer_unlink(p);
        places[g->named.number % n_places] = NULL;
        used--;
    } else if (!p) {
        g->next = buckets[g->offer % BUCKETS].gets;
        buckets[g->offer % BUCKETS].gets = g;
    }
    opal_mutex_unlock(&lock);
    if (o)
        get_unpack(o->message, g);
    free(o);
    return met;
}

/* Request the memory from the peer. */
static int get_request(get_t *g, uint64_t registration)
{
    mad_btl_endpoint_t *endpoint = g->named.endpoint;
    mca_btl_base_descriptor_t *d = mad_btl_alloc(endpoint->btl, endpoint, MCA_BTL_NO_ORDER, sizeof(get_question_t),
                                                 MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    if (!d)
        return OPAL_ERR_OUT_OF_RESOURCE;
    *(get_question_t *)d->des_segments[0].seg_addr.pval =
        (get_question_t){.number = g->named.number, .address = g->address, .size = g->size, .handle.number = registration};
    d->des_cbfunc = NULL;
    if (mad_btl_send(endpoint->btl, endpoint, d, MAD_BTL_TAG_GET) >= 0)
        return OPAL_SUCCESS;
    mad_btl_free(endpoint->btl, d);
    return OPAL_ERR_UNREACH;
}

int mad_btl_get(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    get_t *g = calloc(1, sizeof *g);
    int rc = OPAL_SUCCESS;
    uint64_t number;
    (void)btl, (void)flags, (void)order;
    if (g)
        *g = (get_t){.named.is_get = true,
                     .done.complete = get_done,
                     .local = local_address,
                     .size = size,
                     .handle = handle,
                     .address = remote_address,
                     .offer = remote_handle->number,
                     .callback = callback,
                     .context = context,
                     .data = data};
    if (!g || !named_add(&g->named, endpoint)) {
        free(g);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    number = g->named.number;
    atomic_fetch_add(&mad_btl->gets, 1);
    if (!remote_handle->offered || !meet_offer(g))
        rc = get_request(g, remote_handle->number);
    /* the loss of the peer has already failed this get */
    if (rc == OPAL_SUCCESS || !named_find(number, endpoint->peer, true, true))
        return OPAL_SUCCESS;
    atomic_fetch_sub(&mad_btl->gets, 1);
    free(g);
    return rc;
}

/* Refuse to put.  Open MPI may call this if the receiver registered memory and the sender did not, because the
 * sender was not connected yet.  Open MPI then sends fragments. */
int mad_btl_put(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t callback, void *context, void *data)
{
    (void)btl, (void)endpoint, (void)local_address, (void)remote_address, (void)handle, (void)remote_handle;
    (void)size, (void)flags, (void)order, (void)callback, (void)context, (void)data;
    return OPAL_ERR_NOT_AVAILABLE;
}

/* Give an offer to a get of the whole registration, or keep it.  A get of a part requests the memory, and the offer is
 * withdrawn in the end. */
static void offer_read(mad_message_t *message, const get_hdr_t *hdr)
{
    mad_peer_t peer = mad_message_peer(message);
    offered_t *o = malloc(sizeof *o);
    get_t *g = NULL, **p, *parts = NULL;
    bool kept;
    if (!o)
        return; /* the message stays open until the session ends */
    *o = (offered_t){NULL, peer, hdr->number, hdr->address, hdr->size, message};
    opal_mutex_lock(&lock);
    while (!g && (p = get_find(peer, hdr->number))) {
        get_t *found = *p;
        *p = found->next;
        if (is_all_of(found, o)) {
            g = found;
            places[g->named.number % n_places] = NULL;
            used--;
        } else {
            found->next = parts;
            parts = found;
        }
    }
    kept = !g && offer_link(o);
    opal_mutex_unlock(&lock);
    for (get_t *next; parts; parts = next) {
        next = parts->next;
        if (get_request(parts, hdr->number) != OPAL_SUCCESS && named_find(parts->named.number, peer, true, true))
            get_complete(parts, OPAL_ERROR);
    }
    if (kept)
        return;
    free(o);
    if (g) {
        get_unpack(message, g);
        return;
    }
    mad_message_drop(message);
    mad_btl_lost(peer, "it offers too many long messages, or memory is lacking");
}

/* Forget an offer that was withdrawn.  The withdrawal follows the offer on the same channel.  If a get has taken the
 * offer, there is nothing to forget. */
static void offer_forget(mad_message_t *message, uint64_t number)
{
    offered_t **p, *o = NULL;
    opal_mutex_lock(&lock);
    p = offer_find(mad_message_peer(message), number);
    if (p)
        o = offer_unlink(p);
    opal_mutex_unlock(&lock);
    mad_message_drop(message);
    if (o)
        mad_message_drop(o->message);
    free(o);
}

/* Handle the bytes that a get has requested. */
static void answer_read(mad_message_t *message, const get_hdr_t *hdr)
{
    get_t *g = (get_t *)named_find(hdr->number, mad_message_peer(message), true, true);
    if (g && hdr->size == g->size) {
        get_unpack(message, g);
        return;
    }
    mad_message_drop(message);
    if (g)
        get_complete(g, OPAL_ERROR);
}

static void bulk_read(mad_message_t *message)
{
    get_hdr_t hdr;
    /* The header is in the first packet, so a message whose header is only announced is malformed. */
    if (mad_unpack_try(message, &hdr, sizeof hdr, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS))
        mad_message_drop(message);
    else if (hdr.kind == OFFER)
        offer_read(message, &hdr);
    else if (hdr.kind == WITHDRAWN)
        offer_forget(message, hdr.number);
    else
        answer_read(message, &hdr);
}

static mad_status_t bulk_open(bool all, mad_message_t **message)
{
    return all ? mad_begin_unpacking_within(mad_btl->bulk, MAD_ANY_SOURCE, 0, message)
               : mad_begin_unpacking_poll(mad_btl->bulk, MAD_ANY_SOURCE, message);
}

int mad_btl_take_bulk(bool all)
{
    mad_message_t *message;
    int n = 0;
    for (; bulk_open(all, &message) == MAD_OK; n++)
        bulk_read(message);
    return n;
}

/* Fail all gets from a lost peer. */
void mad_btl_gets_fail(mad_btl_endpoint_t *endpoint)
{
    for (uint32_t i = 0;; i++) {
        named_t *object = NULL;
        opal_mutex_lock(&lock);
        for (; i < n_places && !object; i++)
            if (places[i] && places[i]->endpoint == endpoint && places[i]->is_get)
                object = places[i];
        if (object) {
            places[--i] = NULL;
            used--;
            get_unlink((get_t *)object);
        }
        opal_mutex_unlock(&lock);
        if (!object)
            return;
        get_complete((get_t *)object, OPAL_ERR_UNREACH);
    }
}

/* ---- Answers --------------------------------------------------------------------------------------------------- */

void mad_btl_answer(mad_peer_t peer, madi_foreign_t bytes, size_t len)
{
    get_question_t q;
    registration_t *r;
    get_hdr_t a;
    mad_block_t blocks[2];
    mad_request_t *request;
    if (len != sizeof q)
        return;
    madi_foreign_copy(&q, bytes, sizeof q);
    r = (registration_t *)named_find(q.handle.number, peer, false, false);
    a = (get_hdr_t){.kind = ANSWER, .number = q.number, .size = q.size};
    if (!r || q.address < r->address || q.address - r->address > r->size || q.size > r->size - (q.address - r->address))
        a.size = 0;
    blocks[0] = (mad_block_t){&a, sizeof a, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    blocks[1] = (mad_block_t){(void *)(uintptr_t)q.address, q.size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    if (!mad_message_send(mad_btl->bulk, peer, blocks, a.size ? 2 : 1, &request))
        mad_request_detach(request, NULL, NULL);
}
