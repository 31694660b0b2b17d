/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of tagged messages. */
#include "ofi.h"

#define EP(fid) FROM_FID(mad_ofi_ep_t, fid)

static __attribute__((noinline)) ssize_t recv_other(mad_ofi_ep_t *ep, void *buf, size_t len, fi_addr_t from, uint64_t tag,
                                                    uint64_t ignore, void *context)
{
    struct iovec piece = {buf, len};
    return mad_ofi_receive(ep, MAD_DEV_TAGGED, &piece, 1, from, tag, ignore, ep->receive_flags & ~(uint64_t)FI_MULTI_RECV,
                           context);
}

/* Receive without the options that few calls need: several pieces, and flags of the call. */
static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag,
                           uint64_t ignore, void *context)
{
    mad_ofi_ep_t *ep = EP(fid);
    mad_peer_t source = MAD_ANY_SOURCE;
    (void)desc;
    if (!ep->dev || (ep->receive_selective && !(ep->receive_flags & FI_COMPLETION)))
        return recv_other(ep, buf, len, from, tag, ignore, context);
    if (ep->caps & FI_DIRECTED_RECV && from != FI_ADDR_UNSPEC && (source = mad_ofi_peer(ep, from)) < 0)
        return -FI_EINVAL;
    return mad_ofi_rc(mad_dev_receive_one(ep->dev, source, tag, ignore, (struct iovec){buf, len}, context));
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t from,
                            uint64_t tag, uint64_t ignore, void *context)
{
    (void)desc;
    return mad_ofi_receive(EP(ep), MAD_DEV_TAGGED, pieces, n, from, tag, ignore,
                           EP(ep)->receive_flags & ~(uint64_t)FI_MULTI_RECV, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags)
{
    if (flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
        return mad_ofi_search(EP(ep), m->msg_iov, m->iov_count, m->addr, m->tag, m->ignore, flags, m->context);
    return mad_ofi_receive(EP(ep), MAD_DEV_TAGGED, m->msg_iov, m->iov_count, m->addr, m->tag, m->ignore, flags, m->context);
}

/* Send at once.  Return false if that is impossible; mad_ofi_send must then be used. */
static inline bool sent_now(const mad_ofi_ep_t *ep, const void *buf, size_t len, uint64_t data, bool has_data, fi_addr_t to,
                            uint64_t tag)
{
    mad_peer_t peer = mad_ofi_peer(ep, to);
    return peer >= 0 && data <= UINT32_MAX &&
           mad_dev_send_now(ep->dev, peer, buf, len, tag, has_data ? MAD_DEV_DATA(data) : 0) == MAD_OK;
}

/* Report a send that is complete at once. */
static inline void tagged_sent(mad_ofi_ep_t *ep, void *context)
{
    bool quiet = ep->send_selective && !(ep->send_flags & FI_COMPLETION);
    struct fi_cq_tagged_entry *e;
    if (quiet && !ep->cntrs[CNTR_SEND])
        return;
    e = quiet || !ep->sent_cq ? NULL : mad_ofi_cq_place(ep->sent_cq);
    if (__builtin_expect(!e, 0)) {
        mad_ofi_sent(ep, FI_TAGGED | FI_SEND | (quiet ? MAD_OFI_QUIET : 0), context);
        return;
    }
    e->op_context = context;
    e->flags = FI_TAGGED | FI_SEND;
    e->len = 0;
    e->buf = NULL;
    e->data = e->tag = 0;
}

static __attribute__((noinline)) ssize_t send_other(mad_ofi_ep_t *ep, const void *buf, size_t len, uint64_t data,
                                                    bool has_data, fi_addr_t to, uint64_t tag, void *context)
{
    struct iovec piece = {(void *)buf, len};
    return mad_ofi_send(ep, MAD_DEV_TAGGED, &piece, 1, to, tag, data, ep->send_flags | (has_data ? FI_REMOTE_CQ_DATA : 0),
                        context);
}

__attribute__((always_inline)) static inline ssize_t send_piece(mad_ofi_ep_t *ep, const void *buf, size_t len, uint64_t data,
                                                                bool has_data, fi_addr_t to, uint64_t tag, void *context)
{
    const uint64_t other = FI_INJECT | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
    if (ep->send_flags & other || !sent_now(ep, buf, len, data, has_data, to, tag))
        return send_other(ep, buf, len, data, has_data, to, tag, context);
    tagged_sent(ep, context);
    return 0;
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
                           void *context)
{
    (void)desc;
    return send_piece(EP(ep), buf, len, 0, false, to, tag, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t to, uint64_t tag,
                            void *context)
{
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, pieces, n, to, tag, 0, EP(ep)->send_flags, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags)
{
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, m->msg_iov, m->iov_count, m->addr, m->tag, m->data, flags, m->context);
}

static inline ssize_t tagged_send_inject(mad_ofi_ep_t *ep, const void *buf, size_t len, uint64_t data, bool has_data,
                                         fi_addr_t to, uint64_t tag)
{
    if (len > MAD_OFI_INJECT || !sent_now(ep, buf, len, data, has_data, to, tag))
        return mad_ofi_inject(ep, MAD_DEV_TAGGED, buf, len, to, tag, data, has_data ? FI_REMOTE_CQ_DATA : 0);
    if (ep->cntrs[CNTR_SEND])
        mad_ofi_sent(ep, FI_TAGGED | FI_SEND | MAD_OFI_NO_REPORT, NULL);
    return 0;
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
    return tagged_send_inject(EP(ep), buf, len, 0, false, to, tag);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                               uint64_t tag, void *context)
{
    (void)desc;
    return send_piece(EP(ep), buf, len, data, true, to, tag, context);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t tag)
{
    return tagged_send_inject(EP(ep), buf, len, data, true, to, tag);
}

struct fi_ops_tagged mad_ofi_tagged = {.size = sizeof(struct fi_ops_tagged),
                                       .recv = tagged_recv,
                                       .recvv = tagged_recvv,
                                       .recvmsg = tagged_recvmsg,
                                       .send = tagged_send,
                                       .sendv = tagged_sendv,
                                       .sendmsg = tagged_sendmsg,
                                       .inject = tagged_inject,
                                       .senddata = tagged_senddata,
                                       .injectdata = tagged_injectdata};
