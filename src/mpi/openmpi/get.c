/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages over networks: the receiver asks for them, and they go where they belong without a copy of ours.
 *
 *   receiver                                        sender
 *   btl_get: "so many bytes of that registration" -->  looks it up
 *   the message is unpacked into its place     <--  a message on the channel for bulk: number of the get, the bytes
 *
 * In shared memory fragments are faster: both processes copy, side by side, through memory that stays in their caches. So
 * there no memory is registered, and Open MPI sends fragments. */
#include "btl_mad.h"

#include <opal/threads/mutex.h>
#include <stdlib.h>
#include <string.h>

/* What stands before the bytes. */
typedef struct answer {
    uint64_t number; /* of the get */
    uint64_t size;   /* of the bytes; 0: there is no such memory */
} answer_t;

typedef struct question {
    uint64_t number;
    uint64_t address, size;
    mca_btl_base_registration_handle_t handle;
} question_t;

/* ---- Numbers for what peers name ------------------------------------------------------------------------------- */

typedef struct named {
    uint64_t number;
    mad_btl_endpoint_t *endpoint; /* who may name it; NULL: anybody */
    bool is_get;                  /* else a registration */
} named_t;

typedef struct registration {
    named_t named;
    mca_btl_base_registration_handle_t handle;
    uint64_t address, size;
} registration_t;

typedef struct get {
    named_t named;
    mad_btl_done_t done;
    void *local;
    size_t size;
    mca_btl_base_registration_handle_t *handle;
    mca_btl_base_rdma_completion_fn_t tell;
    void *context, *data;
} get_t;

/* Places by number modulo their count; a number is given once. */
static named_t **places;
static uint32_t n_places, used;
static uint64_t last;
static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;

/* Twice as many places; what is there stays at its number modulo the count.  Under lock. */
static bool grow(void)
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

static bool name(named_t *object, mad_btl_endpoint_t *endpoint)
{
    bool good;
    opal_mutex_lock(&lock);
    good = used < n_places / 2 || grow();
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

/* take: it has no number afterwards. */
static named_t *find(uint64_t number, mad_peer_t peer, bool is_get, bool take)
{
    named_t *object;
    opal_mutex_lock(&lock);
    object = n_places ? places[number % n_places] : NULL;
    if (object && (object->number != number || object->is_get != is_get ||
                   (object->endpoint && object->endpoint->peer != peer)))
        object = NULL;
    if (object && take) {
        places[number % n_places] = NULL;
        used--;
    }
    opal_mutex_unlock(&lock);
    return object;
}

/* ---- The memory that others may ask for ------------------------------------------------------------------------ */

/* What is only written by ourselves needs no registration. */
static mca_btl_base_registration_handle_t local_handle;

static bool over_network(const mad_btl_endpoint_t *endpoint)
{
    mad_adapter_info_t info;
    int i;
    return !mad_peer_adapter(mad_btl->session, endpoint->peer, &i) && !mad_adapter_get(mad_btl->session, i, &info) &&
           strcmp(info.driver, "shm") != 0;
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
    if (endpoint && !over_network(endpoint))
        return NULL;
    r = calloc(1, sizeof *r);
    if (r) {
        r->address = (uintptr_t)base;
        r->size = size;
    }
    if (!r || !name(&r->named, endpoint)) {
        free(r);
        return NULL;
    }
    r->handle.number = r->named.number;
    return &r->handle;
}

int mad_btl_deregister(mca_btl_base_module_t *btl, mca_btl_base_registration_handle_t *handle)
{
    registration_t *r = (registration_t *)((char *)handle - offsetof(registration_t, handle));
    (void)btl;
    if (handle == &local_handle)
        return OPAL_SUCCESS;
    find(r->named.number, r->named.endpoint ? r->named.endpoint->peer : MAD_ANY_SOURCE, false, true);
    free(r);
    return OPAL_SUCCESS;
}

/* ---- Asking ---------------------------------------------------------------------------------------------------- */

static void get_complete(get_t *g, int rc)
{
    g->tell(&mad_btl_module, g->named.endpoint, g->local, g->handle, g->context, g->data, rc);
    atomic_fetch_sub(&mad_btl->gets, 1);
    free(g);
}

static void get_done(mad_btl_done_t *done)
{
    get_t *g = (get_t *)((char *)done - offsetof(get_t, done));
    mad_btl_count(&mad_btl->got, g->size);
    get_complete(g, done->status ? OPAL_ERROR : OPAL_SUCCESS);
}

int mad_btl_get(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t tell, void *context, void *data)
{
    get_t *g = calloc(1, sizeof *g);
    mca_btl_base_descriptor_t *d = mad_btl_alloc(btl, endpoint, MCA_BTL_NO_ORDER, sizeof(question_t),
                                                 MCA_BTL_DES_FLAGS_PRIORITY | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    (void)flags;
    (void)order;
    if (g)
        *g = (get_t){.named.is_get = true, .done.tell = get_done, .local = local_address, .size = size, .handle = handle,
                     .tell = tell, .context = context, .data = data};
    if (!g || !d || !name(&g->named, endpoint)) {
        free(g);
        if (d)
            mad_btl_free(btl, d);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    atomic_fetch_add(&mad_btl->gets, 1);
    *(question_t *)d->des_segments[0].seg_addr.pval =
        (question_t){.number = g->named.number, .address = remote_address, .size = size, .handle = *remote_handle};
    d->des_cbfunc = NULL;
    if (mad_btl_send(btl, endpoint, d, MAD_BTL_TAG_GET) >= 0)
        return OPAL_SUCCESS;
    mad_btl_free(btl, d);
    find(g->named.number, endpoint->peer, true, true);
    atomic_fetch_sub(&mad_btl->gets, 1);
    free(g);
    return OPAL_ERR_UNREACH;
}

/* Open MPI may come to it when the sender did not register, since it was not connected yet, and the receiver does.  It sends
 * fragments then. */
int mad_btl_put(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, void *local_address, uint64_t remote_address,
                mca_btl_base_registration_handle_t *handle, mca_btl_base_registration_handle_t *remote_handle, size_t size,
                int flags, int order, mca_btl_base_rdma_completion_fn_t tell, void *context, void *data)
{
    (void)btl, (void)endpoint, (void)local_address, (void)remote_address, (void)handle, (void)remote_handle;
    (void)size, (void)flags, (void)order, (void)tell, (void)context, (void)data;
    return OPAL_ERR_NOT_AVAILABLE;
}

/* What was asked for comes into its place. */
static void answer_read(mad_connection_t *cnx)
{
    answer_t a;
    mad_request_t *request;
    get_t *g = NULL;
    if (!mad_try_unpack(cnx, &a, sizeof a, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS))
        g = (get_t *)find(a.number, mad_message_peer(cnx), true, true);
    if (g && a.size == g->size)
        mad_unpack(cnx, g->local, g->size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    if (mad_end_unpacking_request(cnx, &request) != MAD_OK) {
        if (g)
            get_complete(g, OPAL_ERROR);
    } else if (g && a.size == g->size) {
        mad_btl_when_done(request, &g->done);
    } else {
        mad_request_callback(request, NULL, NULL);
        if (g)
            get_complete(g, OPAL_ERROR);
    }
}

int mad_btl_take_answers(int64_t look)
{
    mad_connection_t *cnx;
    int n = 0;
    for (; mad_begin_unpacking_timed(mad_btl->bulk, MAD_ANY_SOURCE, look, &cnx) == MAD_OK; n++)
        answer_read(cnx);
    return n;
}

/* The peer is dead: what it was asked for will not come. */
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
        }
        opal_mutex_unlock(&lock);
        if (!object)
            return;
        get_complete((get_t *)object, OPAL_ERR_UNREACH);
    }
}

/* ---- Answering ------------------------------------------------------------------------------------------------- */

void mad_btl_answer(mad_peer_t peer, const void *bytes, size_t len)
{
    question_t q;
    registration_t *r;
    answer_t a;
    mad_block_t blocks[2];
    mad_request_t *request;
    if (len != sizeof q)
        return;
    memcpy(&q, bytes, sizeof q);
    r = (registration_t *)find(q.handle.number, peer, false, false);
    a = (answer_t){q.number, q.size};
    if (!r || q.address < r->address || q.address - r->address > r->size ||
        q.size > r->size - (q.address - r->address))
        a.size = 0;
    blocks[0] = (mad_block_t){&a, sizeof a, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    blocks[1] = (mad_block_t){(void *)(uintptr_t)q.address, q.size, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    if (!mad_send_blocks(mad_btl->bulk, peer, blocks, a.size ? 2 : 1, &request))
        mad_request_callback(request, NULL, NULL);
}
