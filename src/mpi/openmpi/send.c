/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments out: at once if the way is free, else queued with a request. */
#include "btl_mad.h"

#include <string.h>

#define SMALL 1024 /* bytes of data that are packed on the stack */

/* ---- What completes later -------------------------------------------------------------------------------------- */

static void push_done(void *arg, mad_status_t status)
{
    mad_btl_done_t *done = arg;
    done->status = status;
    done->next = atomic_load_explicit(&mad_btl->done, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&mad_btl->done, &done->next, done, memory_order_release,
                                                  memory_order_relaxed)) /* pairs with mad_btl_progress */
        ;
}

void mad_btl_when_done(mad_request_t *request, mad_btl_done_t *done)
{
    mad_request_callback(request, push_done, done);
}

static int status_of(mad_status_t status)
{
    return status == MAD_OK ? OPAL_SUCCESS : status == MAD_ERR_NOMEM ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_UNREACH;
}

/* Open MPI may free the fragment in its callback: nothing of it is read afterwards. */
static void fragment_complete(mad_btl_fragment_t *f, int rc, bool tell)
{
    bool ours = f->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    if (tell && f->base.des_cbfunc)
        f->base.des_cbfunc(&mad_btl_module, f->endpoint, &f->base, rc);
    if (ours)
        mad_btl_free(&mad_btl_module, &f->base);
}

static void fragment_done(mad_btl_done_t *done)
{
    mad_btl_fragment_t *f = (mad_btl_fragment_t *)((char *)done - offsetof(mad_btl_fragment_t, done));
    mad_btl_endpoint_t *endpoint = f->endpoint;
    mad_status_t status = done->status;
    atomic_fetch_sub_explicit(&endpoint->queued, 1, memory_order_relaxed);
    fragment_complete(f, status_of(status), true);
    if (status == MAD_ERR_PEER || status == MAD_ERR_UNREACHABLE || status == MAD_ERR_AUTH)
        mad_btl_dead(endpoint, mad_status_text(status));
}

/* ---- Fragments ------------------------------------------------------------------------------------------------- */

static mad_status_t queue(mad_btl_fragment_t *f, const struct iovec *pieces, int n)
{
    mad_connection_t *cnx = mad_begin_packing(mad_btl->channel, f->endpoint->peer);
    mad_request_t *request;
    mad_status_t status;
    mad_pack_gather(cnx, pieces, n, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    status = mad_end_packing_request(cnx, &request);
    if (!status) {
        atomic_fetch_add_explicit(&f->endpoint->queued, 1, memory_order_relaxed);
        f->done.tell = fragment_done;
        mad_btl_when_done(request, &f->done);
    }
    return status;
}

int mad_btl_send(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, mca_btl_base_descriptor_t *descriptor,
                 mca_btl_base_tag_t tag)
{
    mad_btl_fragment_t *f = (mad_btl_fragment_t *)descriptor;
    struct iovec pieces[3];
    int n = 0;
    (void)btl;

    for (size_t i = 0; i < descriptor->des_segment_count; i++)
        pieces[n++] = (struct iovec){f->segments[i].seg_addr.pval, f->segments[i].seg_len};
    mad_btl_count(&mad_btl->sent, f->segments[0].seg_len + (n > 1 ? f->segments[1].seg_len : 0));
    f->tag = tag;
    f->endpoint = endpoint;
    pieces[n++] = (struct iovec){&f->tag, 1};
    if (OPAL_LIKELY(mad_send_now(mad_btl->channel, endpoint->peer, pieces, n) == MAD_OK)) {
        fragment_complete(f, OPAL_SUCCESS, descriptor->des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
        return 1;
    }
    return status_of(queue(f, pieces, n));
}

/* ---- Without a descriptor -------------------------------------------------------------------------------------- */

/* Data that have to be packed, beside their header. */
static bool sendi_packed(mad_btl_endpoint_t *endpoint, opal_convertor_t *convertor, void *header, size_t header_size,
                         size_t payload_size, mca_btl_base_tag_t tag)
{
    unsigned char packed[SMALL];
    struct iovec pieces[3] = {{header, header_size}, {packed, payload_size}, {&tag, 1}};
    struct iovec iov = {packed, payload_size};
    uint32_t n = 1;
    size_t size = payload_size;
    opal_convertor_pack(convertor, &iov, &n, &size);
    return size == payload_size && mad_send_now(mad_btl->channel, endpoint->peer, pieces, 3) == MAD_OK;
}

/* From where they lie. */
static bool sendi_inplace(mad_btl_endpoint_t *endpoint, const opal_convertor_t *convertor, void *header, size_t header_size,
                          size_t payload_size, mca_btl_base_tag_t tag)
{
    struct iovec pieces[3] = {{header, header_size}, {NULL, payload_size}, {&tag, 1}};
    if (payload_size)
        opal_convertor_get_current_pointer(convertor, &pieces[1].iov_base);
    return mad_send_now(mad_btl->channel, endpoint->peer, pieces, 3) == MAD_OK;
}

int mad_btl_sendi(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, opal_convertor_t *convertor, void *header,
                  size_t header_size, size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                  mca_btl_base_descriptor_t **descriptor)
{
    bool sent = false;
    if (OPAL_LIKELY(!payload_size || !opal_convertor_need_buffers(convertor)))
        sent = sendi_inplace(endpoint, convertor, header, header_size, payload_size, tag);
    else if (payload_size <= SMALL)
        sent = sendi_packed(endpoint, convertor, header, header_size, payload_size, tag);
    if (OPAL_LIKELY(sent)) {
        mad_btl_count(&mad_btl->sent, header_size + payload_size);
        return OPAL_SUCCESS;
    }
    if (descriptor) /* what Open MPI then fills, and sends */
        *descriptor = mad_btl_alloc(btl, endpoint, order, header_size + payload_size, flags);
    return OPAL_ERR_RESOURCE_BUSY;
}
