/* SPDX-License-Identifier: BSD-3-Clause */
/* Outgoing fragments: sent at once if possible, else queued with a request. */
#include "btl_mad.h"
#include "engine/wait_policy.h"

#include <endian.h>
#include <madeleine/runtime.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* ---- Later completions ----------------------------------------------------------------------------------------- */

void mad_btl_push_done(void *arg, mad_status_t status)
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
    mad_request_detach(request, mad_btl_push_done, done);
}

static int status_of(mad_status_t status)
{
    return status == MAD_OK ? OPAL_SUCCESS : status == MAD_ERR_NOMEM ? OPAL_ERR_OUT_OF_RESOURCE : OPAL_ERR_UNREACH;
}

/* Complete a fragment.  Open MPI may free it in the callback, so it must not be read afterwards. */
static void fragment_complete(mad_btl_fragment_t *f, int rc, bool report)
{
    bool ours = f->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    mca_btl_base_module_t *btl = f->endpoint->btl;
    if (report && f->base.des_cbfunc)
        f->base.des_cbfunc(btl, f->endpoint, &f->base, rc);
    if (ours)
        mad_btl_free(btl, &f->base);
}

static void fragment_done(mad_btl_done_t *done)
{
    mad_btl_fragment_t *f = (mad_btl_fragment_t *)((char *)done - offsetof(mad_btl_fragment_t, done));
    mad_btl_endpoint_t *endpoint = f->endpoint;
    mad_status_t status = done->status;
    atomic_fetch_sub_explicit(&endpoint->queued, 1, memory_order_relaxed);
    atomic_store_explicit(&endpoint->flows, true, memory_order_relaxed);
    fragment_complete(f, status_of(status), true);
    if (status == MAD_ERR_PEER || status == MAD_ERR_UNREACHABLE || status == MAD_ERR_AUTH)
        mad_btl_dead(endpoint, mad_status_text(status));
}

/* ---- Sending at once ------------------------------------------------------------------------------------------- */

static int64_t us_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Wait briefly for room.  If a fragment is queued, the sending thread waits in Open MPI until another thread reports that
 * the fragment has left.  If threads outnumber cores, the sending thread spins on the core that the other thread needs,
 * which costs milliseconds per message.  So the thread waits here, without Open MPI's knowledge, as long as that helps.
 * Messages are received meanwhile, because the peer may wait for room too; these messages are not reported yet. */
static __attribute__((noinline)) bool leaves_soon(mad_btl_endpoint_t *endpoint, const struct iovec *pieces, int n)
{
    int64_t until;
    if (!opal_using_threads() || !atomic_load_explicit(&endpoint->flows, memory_order_relaxed))
        return false;
    until = us_now() + MADI_BTL_ROOM_US;
    do {
        mad_progress(mad_btl->session);
        sched_yield();
        if (mad_message_send_now(mad_btl->channel, endpoint->peer, pieces, n) == MAD_OK)
            return true;
    } while (us_now() < until);
    atomic_store_explicit(&endpoint->flows, false, memory_order_relaxed);
    return false;
}

static inline bool fragment_leaves(mad_btl_endpoint_t *endpoint, const struct iovec *pieces, int n)
{
    return OPAL_LIKELY(mad_message_send_now(mad_btl->channel, endpoint->peer, pieces, n) == MAD_OK) ||
           leaves_soon(endpoint, pieces, n);
}

/* ---- Fragments ------------------------------------------------------------------------------------------------- */

/* Pack a long fragment into blocks of one packet each; only the last piece is long. */
static void pack_long(mad_message_t *message, const struct iovec *pieces, int n)
{
    struct iovec first[3], *last = &first[n - 1];
    unsigned char *rest = pieces[n - 1].iov_base;
    size_t left = pieces[n - 1].iov_len, len = mad_btl->block;
    for (int i = 0; i < n; i++)
        first[i] = pieces[i];
    for (int i = 0; i < n - 1; i++)
        len -= pieces[i].iov_len;
    last->iov_len = len;
    mad_pack_gather(message, first, n, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    for (rest += len, left -= len; left; rest += len, left -= len) {
        len = left < mad_btl->block ? left : mad_btl->block;
        mad_pack(message, rest, len, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    }
}

static mad_status_t fragment_queue(mad_btl_fragment_t *f, const struct iovec *pieces, int n, bool is_long)
{
    mad_message_t *message = mad_begin_packing(mad_btl->channel, f->endpoint->peer);
    mad_request_t *request;
    mad_status_t status;
    if (is_long)
        pack_long(message, pieces, n);
    else
        mad_pack_gather(message, pieces, n, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    status = mad_end_packing_request(message, &request);
    if (!status) {
        atomic_fetch_add_explicit(&f->endpoint->queued, 1, memory_order_relaxed);
        f->done.complete = fragment_done;
        mad_btl_when_done(request, &f->done);
    }
    return status;
}

/* Write the mark that begins a fragment.  follows: number of bytes that follow in a long fragment, else 0. */
static inline struct iovec fragment_mark(unsigned char *to, mca_btl_base_tag_t tag, size_t follows)
{
    uint32_t wire = htole32((uint32_t)follows);
    memset(to, 0, MAD_BTL_MARK);
    to[1] = tag;
    memcpy(to + 4, &wire, sizeof wire);
    return (struct iovec){to, MAD_BTL_MARK};
}

int mad_btl_send(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, mca_btl_base_descriptor_t *descriptor,
                 mca_btl_base_tag_t tag)
{
    mad_btl_fragment_t *f = (mad_btl_fragment_t *)descriptor;
    size_t len = f->segments[0].seg_len + (descriptor->des_segment_count > 1 ? f->segments[1].seg_len : 0);
    bool is_long = OPAL_UNLIKELY(len > mad_btl->block - MAD_BTL_MARK);
    struct iovec pieces[3];
    int n = 0;
    (void)btl;

    if (is_long || !f->segments[0].seg_len || !mad_btl_begins(f->segments[0].seg_addr.pval, tag))
        pieces[n++] = fragment_mark(f->mark, tag, is_long ? len : 0);
    for (size_t i = 0; i < descriptor->des_segment_count; i++)
        pieces[n++] = (struct iovec){f->segments[i].seg_addr.pval, f->segments[i].seg_len};
    mad_btl_count(&mad_btl->sent, len);
    f->endpoint = endpoint;
    if (!is_long && fragment_leaves(endpoint, pieces, n)) {
        fragment_complete(f, OPAL_SUCCESS, descriptor->des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
        return 1;
    }
    return status_of(fragment_queue(f, pieces, n, is_long));
}

/* ---- Without a descriptor -------------------------------------------------------------------------------------- */

/* Send data that must be packed, or that do not begin with their tag. */
static __attribute__((noinline)) bool sendi_other(mad_btl_endpoint_t *endpoint, opal_convertor_t *convertor,
                                                  const struct iovec *header, size_t payload_size, mca_btl_base_tag_t tag)
{
    unsigned char packed[MAD_BTL_SMALL], before[MAD_BTL_MARK];
    struct iovec pieces[3], iov = {packed, payload_size};
    size_t size = payload_size;
    uint32_t n_iov = 1;
    int n = 0;
    if (!mad_btl_begins(header->iov_base, tag))
        pieces[n++] = fragment_mark(before, tag, 0);
    pieces[n++] = *header;
    if (payload_size && !opal_convertor_need_buffers(convertor)) {
        opal_convertor_get_current_pointer(convertor, &iov.iov_base);
    } else if (payload_size) {
        if (payload_size > MAD_BTL_SMALL)
            return false;
        opal_convertor_pack(convertor, &iov, &n_iov, &size);
        if (size != payload_size)
            return false;
    }
    if (payload_size)
        pieces[n++] = (struct iovec){iov.iov_base, payload_size};
    return fragment_leaves(endpoint, pieces, n);
}

/* Send without a descriptor.  The common case keeps few values across calls, because saving them would cost as much as
 * everything else. */
int mad_btl_sendi(mca_btl_base_module_t *btl, mad_btl_endpoint_t *endpoint, opal_convertor_t *convertor, void *header,
                  size_t header_size, size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
                  mca_btl_base_descriptor_t **descriptor)
{
    struct iovec pieces[2] = {{header, header_size}, {NULL, payload_size}}; /* sent in place */
    bool sent;
    if (OPAL_UNLIKELY(header_size + payload_size > mad_btl->block - MAD_BTL_MARK)) {
        sent = false;
    } else if (OPAL_LIKELY(mad_btl_begins(header, tag) && (!payload_size || !opal_convertor_need_buffers(convertor)))) {
        if (payload_size)
            opal_convertor_get_current_pointer(convertor, &pieces[1].iov_base);
        sent = fragment_leaves(endpoint, pieces, payload_size ? 2 : 1);
    } else {
        sent = sendi_other(endpoint, convertor, pieces, payload_size, tag);
    }
    if (OPAL_LIKELY(sent)) {
        mad_btl_count(&mad_btl->sent, pieces[0].iov_len + pieces[1].iov_len);
        return OPAL_SUCCESS;
    }
    if (descriptor) /* Open MPI fills and sends the descriptor */
        *descriptor = mad_btl_alloc(btl, endpoint, order, pieces[0].iov_len + pieces[1].iov_len, flags);
    return OPAL_ERR_RESOURCE_BUSY;
}
