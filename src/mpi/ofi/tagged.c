/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of tagged messages. */
#include "ofi.h"

#define EP(fid) FROM_FID(mad_ofi_ep_t, fid)

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag,
                           uint64_t ignore, void *context)
{
    struct iovec piece = {buf, len};
    (void)desc;
    return mad_ofi_receive(EP(ep), MAD_DEV_TAGGED, &piece, 1, from, tag, ignore,
                           EP(ep)->receive_flags & ~(uint64_t)FI_MULTI_RECV, context);
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
    return mad_ofi_receive(EP(ep), MAD_DEV_TAGGED, m->msg_iov, m->iov_count, m->addr, m->tag, m->ignore, flags,
                           m->context);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag,
                           void *context)
{
    struct iovec piece = {(void *)buf, len};
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, &piece, 1, to, tag, 0, EP(ep)->send_flags, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t to,
                            uint64_t tag, void *context)
{
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, pieces, n, to, tag, 0, EP(ep)->send_flags, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *m, uint64_t flags)
{
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, m->msg_iov, m->iov_count, m->addr, m->tag, m->data, flags, m->context);
}

static ssize_t tagged_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
    return mad_ofi_inject(EP(ep), MAD_DEV_TAGGED, buf, len, to, tag, 0, 0);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                               uint64_t tag, void *context)
{
    struct iovec piece = {(void *)buf, len};
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_TAGGED, &piece, 1, to, tag, data, EP(ep)->send_flags | FI_REMOTE_CQ_DATA, context);
}

static ssize_t tagged_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t tag)
{
    return mad_ofi_inject(EP(ep), MAD_DEV_TAGGED, buf, len, to, tag, data, FI_REMOTE_CQ_DATA);
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
