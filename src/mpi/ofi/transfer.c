/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends, receives and accesses: translation of libfabric's flags and addresses to the device, and of completions back. */
#include "ofi.h"

#define KINDS (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE)

int mad_ofi_error(mad_status_t status)
{
    switch (status) {
    case MAD_OK: return 0;
    case MAD_ERR_AGAIN: return FI_EAGAIN;
    case MAD_ERR_NOMEM: return FI_ENOMEM;
    case MAD_ERR_INVAL: return FI_EINVAL;
    case MAD_ERR_CANCELLED: return FI_ECANCELED;
    case MAD_ERR_PEER: return FI_ENOTCONN;
    case MAD_ERR_UNREACHABLE: return FI_EHOSTUNREACH;
    case MAD_ERR_AUTH: return FI_EKEYREJECTED;
    case MAD_ERR_VERSION: return FI_ENOPROTOOPT;
    case MAD_ERR_CLOSED: return FI_ESHUTDOWN;
    default: return FI_EIO;
    }
}

static fi_addr_t address_of(const mad_ofi_ep_t *ep, mad_peer_t peer)
{
    size_t n = ep->n_addresses;
    atomic_thread_fence(memory_order_acquire);
    return peer >= 0 && (size_t)peer < n ? ep->addresses[peer] : FI_ADDR_NOTAVAIL;
}

static uint64_t space_kind(mad_dev_space_t space)
{
    return space == MAD_DEV_PLAIN ? FI_MSG : FI_TAGGED;
}

/* Return the kind of a receive, from the flags that the device returns.  mad_dev_receive_one, which is only for tagged
 * messages, stores none. */
static inline uint64_t receive_kind(uint64_t flags)
{
    return flags & FI_MSG ? FI_MSG : FI_TAGGED;
}

/* ---- Completions --------------------------------------------------------------------------------------------------- */

static void sent_notify(mad_ofi_ep_t *ep, uint64_t flags, void *context, mad_status_t status)
{
    struct fi_cq_tagged_entry e = {.op_context = context, .flags = flags & KINDS};
    bool refused = status == MAD_ERR_INVAL && flags & (FI_RMA | FI_ATOMIC);
    mad_ofi_cntr_add(ep->cntrs[flags & FI_SEND ? CNTR_SEND : flags & FI_READ ? CNTR_READ : CNTR_WRITE], !status);
    if (!ep->send_cq)
        return;
    if (!status && !(flags & MAD_OFI_QUIET))
        mad_ofi_cq_push(ep->send_cq, &e, FI_ADDR_NOTAVAIL);
    else if (status && !(flags & MAD_OFI_NOBODY))
        mad_ofi_cq_push_error(ep->send_cq, &e, 0, refused ? FI_EACCES : mad_ofi_error(status), status);
}

void mad_ofi_sent(mad_ofi_ep_t *ep, uint64_t flags, void *context)
{
    sent_notify(ep, flags, context, MAD_OK);
}

/* Count an access by a peer to memory of this process. */
static void served_count(mad_ofi_ep_t *ep, const mad_dev_done_t *done)
{
    struct fi_cq_tagged_entry e = {
        .flags = FI_REMOTE_WRITE | FI_RMA | FI_REMOTE_CQ_DATA, .len = done->len, .data = done->data};
    if (ep->caps & FI_RMA_EVENT)
        mad_ofi_cntr_add_served(ep->cntrs[CNTR_REMOTE_READ], ep->cntrs[CNTR_REMOTE_WRITE],
                                mad_ofi_effect(done->served, done->op));
    if (done->has_data && ep->receive_cq)
        mad_ofi_cq_push(ep->receive_cq, &e, ep->caps & FI_SOURCE ? address_of(ep, done->source) : FI_ADDR_NOTAVAIL);
}

static void received_notify(mad_ofi_ep_t *ep, const mad_dev_done_t *done)
{
    struct fi_cq_tagged_entry e = {.op_context = done->context,
                                   .flags = FI_RECV | receive_kind(done->flags),
                                   .len = done->len,
                                   .buf = done->buffer,
                                   .data = done->data,
                                   .tag = done->tag};
    bool short_of = done->whole > done->len && !done->status;
    if (done->has_data)
        e.flags |= FI_REMOTE_CQ_DATA;
    if (done->flags & FI_MULTI_RECV && done->released)
        e.flags |= FI_MULTI_RECV;
    mad_ofi_cntr_add(ep->cntrs[CNTR_RECEIVE], !done->status && !short_of);
    if (!ep->receive_cq)
        return;
    if (done->status || short_of)
        mad_ofi_cq_push_error(ep->receive_cq, &e, done->status ? 0 : done->whole - done->len,
                              short_of ? FI_ETRUNC : mad_ofi_error(done->status), (int)done->status);
    else if (!(done->flags & MAD_OFI_QUIET) || e.flags & FI_MULTI_RECV)
        mad_ofi_cq_push(ep->receive_cq, &e, ep->caps & FI_SOURCE ? address_of(ep, done->source) : FI_ADDR_NOTAVAIL);
}

static __attribute__((noinline)) void received_other(mad_ofi_ep_t *ep, void *context, uint64_t flags,
                                                     const mad_dev_got_t *got)
{
    mad_dev_done_t done = {.context = context,
                           .flags = flags,
                           .released = true,
                           .source = got->source,
                           .tag = got->tag,
                           .data = got->data,
                           .has_data = got->has_data,
                           .len = got->len,
                           .whole = got->len,
                           .buffer = got->buffer};
    received_notify(ep, &done);
}

void mad_ofi_notify_received(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    mad_ofi_ep_t *ep = arg;
    mad_ofi_cq_t *cq = ep->got_cq;
    struct fi_cq_tagged_entry *e = cq && !(flags & MAD_OFI_QUIET) ? mad_ofi_cq_place(cq) : NULL;
    if (!e) {
        received_other(ep, context, flags, got);
        return;
    }
    e->op_context = context;
    e->flags = FI_RECV | receive_kind(flags) | (got->has_data ? FI_REMOTE_CQ_DATA : 0);
    e->len = got->len;
    e->buf = got->buffer;
    e->data = got->data;
    e->tag = got->tag;
}

void mad_ofi_notify(void *arg, const mad_dev_done_t *done)
{
    mad_ofi_ep_t *ep = arg;
    if (!done->served && !done->sent)
        received_notify(ep, done);
    else if (done->sent)
        sent_notify(ep, done->flags, done->context, done->status);
    else
        served_count(ep, done);
}

/* ---- Sends --------------------------------------------------------------------------------------------------------- */

static inline ssize_t send_it(mad_ofi_ep_t *ep, mad_dev_send_t *s, fi_addr_t to)
{
    mad_status_t status;
    bool later;
    if (!ep->dev)
        return -FI_EOPBADSTATE;
    s->to = mad_ofi_peer(ep, to);
    if (s->to < 0)
        return -FI_EINVAL;
    s->no_error_report = s->flags & MAD_OFI_NOBODY;
    status = mad_dev_send(ep->dev, s, &later);
    /* make progress, because the program may only retry, and the peer may be an endpoint of its own */
    if (status == MAD_ERR_AGAIN)
        mad_ofi_eps_progress(&ep->domain->eps);
    if (status)
        return -mad_ofi_error(status);
    if (!later && (!(s->flags & MAD_OFI_QUIET) || ep->cntrs[CNTR_SEND]))
        sent_notify(ep, s->flags, s->context, MAD_OK);
    return 0;
}

static size_t pieces_length(const struct iovec *pieces, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += pieces[i].iov_len;
    return len;
}

ssize_t mad_ofi_send(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t to,
                     uint64_t tag, uint64_t data, uint64_t flags, void *context)
{
    mad_dev_send_t s = {.space = space,
                        .pieces = pieces,
                        .n = (int)n,
                        .tag = tag,
                        .data = data,
                        .has_data = flags & FI_REMOTE_CQ_DATA,
                        .buffered = flags & FI_INJECT,
                        .matched = flags & (FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE),
                        .context = context,
                        .flags = space_kind(space) | FI_SEND};
    if (n > MAD_DEV_PIECES || (flags & FI_INJECT && pieces_length(pieces, n) > MAD_OFI_INJECT))
        return -FI_EINVAL;
    if (flags & ~(uint64_t)(MAD_OFI_SEND_FLAGS | FI_REMOTE_CQ_DATA | FI_MORE))
        return -FI_EBADFLAGS;
    if (ep->send_selective && !(flags & FI_COMPLETION))
        s.flags |= MAD_OFI_QUIET | (context ? 0 : MAD_OFI_NOBODY);
    return send_it(ep, &s, to);
}

ssize_t mad_ofi_inject(mad_ofi_ep_t *ep, mad_dev_space_t space, const void *buf, size_t len, fi_addr_t to, uint64_t tag,
                       uint64_t data, uint64_t flags)
{
    struct iovec piece = {(void *)buf, len};
    mad_dev_send_t s = {.space = space,
                        .pieces = &piece,
                        .n = 1,
                        .tag = tag,
                        .data = data,
                        .has_data = flags & FI_REMOTE_CQ_DATA,
                        .buffered = true,
                        .flags = space_kind(space) | FI_SEND | MAD_OFI_NO_REPORT};
    if (len > MAD_OFI_INJECT)
        return -FI_EINVAL;
    return send_it(ep, &s, to);
}

/* ---- Accesses ------------------------------------------------------------------------------------------------------ */

ssize_t mad_ofi_remote(mad_ofi_ep_t *ep, mad_dev_remote_t *r, fi_addr_t to, uint64_t flags)
{
    mad_status_t status;
    r->to = mad_ofi_peer(ep, to);
    r->has_data = flags & FI_REMOTE_CQ_DATA;
    r->buffered = flags & (FI_INJECT | MAD_OFI_NO_REPORT);
    if (!ep->dev)
        return -FI_EOPBADSTATE;
    if (flags & ~(uint64_t)(MAD_OFI_SEND_FLAGS | FI_REMOTE_CQ_DATA | FI_MORE | MAD_OFI_NO_REPORT) ||
        (r->has_data && r->access != MAD_DEV_WRITE))
        return -FI_EBADFLAGS;
    if (r->to < 0 || (r->buffered && pieces_length(r->pieces, (size_t)r->n) > MAD_OFI_INJECT))
        return -FI_EINVAL;
    r->flags |= flags & MAD_OFI_NO_REPORT;
    if (ep->send_selective && !(flags & FI_COMPLETION))
        r->flags |= MAD_OFI_QUIET | (r->context ? 0 : MAD_OFI_NOBODY);
    status = mad_dev_remote(ep->dev, r);
    if (status == MAD_ERR_AGAIN)
        mad_dev_progress(ep->dev);
    return -mad_ofi_error(status);
}

/* ---- Receives ------------------------------------------------------------------------------------------------------ */

/* Fill in a receive.  The source matters only if FI_DIRECTED_RECV was requested. */
static ssize_t receive_fill(const mad_ofi_ep_t *ep, mad_dev_receive_t *r, fi_addr_t from)
{
    if (!ep->dev)
        return -FI_EOPBADSTATE;
    r->from = MAD_ANY_SOURCE;
    if (ep->caps & FI_DIRECTED_RECV && from != FI_ADDR_UNSPEC) {
        r->from = mad_ofi_peer(ep, from);
        if (r->from < 0)
            return -FI_EINVAL;
    }
    return 0;
}

ssize_t mad_ofi_receive(mad_ofi_ep_t *ep, mad_dev_space_t space, const struct iovec *pieces, size_t n, fi_addr_t from,
                        uint64_t tag, uint64_t ignore, uint64_t flags, void *context)
{
    mad_dev_receive_t r = {.space = space,
                           .pieces = pieces,
                           .n = (int)n,
                           .tag = tag,
                           .ignore = ignore,
                           .context = context,
                           .flags = space_kind(space)};
    ssize_t rc;
    if (n > MAD_DEV_PIECES)
        return -FI_EINVAL;
    if (flags & ~(uint64_t)(MAD_OFI_RECEIVE_FLAGS | FI_MORE))
        return -FI_EBADFLAGS;
    if (flags & FI_MULTI_RECV) {
        if (space != MAD_DEV_PLAIN || n != 1)
            return -FI_EINVAL;
        r.multi = ep->multi_min;
        r.flags |= FI_MULTI_RECV;
    }
    if (ep->receive_selective && !(flags & FI_COMPLETION))
        r.flags |= MAD_OFI_QUIET;
    rc = receive_fill(ep, &r, from);
    return rc ? rc : -mad_ofi_error(mad_dev_receive(ep->dev, &r));
}

/* Report through the queue that a message was found, or that there is none. */
static ssize_t found_notify(mad_ofi_ep_t *ep, mad_dev_done_t *found, mad_status_t status)
{
    struct fi_cq_tagged_entry e = {.op_context = found->context, .flags = FI_RECV | FI_TAGGED, .tag = found->tag};
    if (!ep->receive_cq)
        return -FI_ENOCQ;
    if (status) {
        mad_ofi_cq_push_error(ep->receive_cq, &e, 0, status == MAD_ERR_AGAIN ? FI_ENOMSG : mad_ofi_error(status),
                              (int)status);
        return 0;
    }
    e.len = found->len;
    e.data = found->data;
    if (found->has_data)
        e.flags |= FI_REMOTE_CQ_DATA;
    mad_ofi_cq_push(ep->receive_cq, &e, ep->caps & FI_SOURCE ? address_of(ep, found->source) : FI_ADDR_NOTAVAIL);
    return 0;
}

ssize_t mad_ofi_search(mad_ofi_ep_t *ep, const struct iovec *pieces, size_t n, fi_addr_t from, uint64_t tag, uint64_t ignore,
                       uint64_t flags, void *context)
{
    mad_dev_receive_t r = {
        .pieces = pieces, .n = (int)n, .tag = tag, .ignore = ignore, .context = context, .flags = FI_TAGGED};
    mad_dev_done_t found = {.context = context, .tag = tag};
    mad_status_t status;
    ssize_t rc;
    if (flags & ~(uint64_t)(FI_PEEK | FI_CLAIM | FI_DISCARD | FI_COMPLETION | FI_MORE) || n > MAD_DEV_PIECES)
        return -FI_EBADFLAGS;
    rc = receive_fill(ep, &r, from);
    if (rc)
        return rc;
    if (flags & FI_PEEK) {
        mad_dev_progress(ep->dev);
        status = mad_dev_probe(ep->dev, &r,
                               flags & FI_DISCARD ? MAD_DEV_DISCARD
                               : flags & FI_CLAIM ? MAD_DEV_CLAIM
                                                  : MAD_DEV_PEEK,
                               &found);
        return found_notify(ep, &found, status);
    }
    if (!(flags & FI_CLAIM))
        return -FI_EINVAL;
    if (ep->receive_selective && !(flags & FI_COMPLETION))
        r.flags |= MAD_OFI_QUIET;
    status = mad_dev_receive_claimed(ep->dev, &r, flags & FI_DISCARD);
    if (!status && flags & FI_DISCARD)
        return found_notify(ep, &found, MAD_OK);
    return -mad_ofi_error(status);
}
