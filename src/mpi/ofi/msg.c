/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of untagged messages.  fi_*msg calls use the flags of the call; the other calls use those of the
 * endpoint. */
#include "ofi.h"

#define EP(fid) FROM_FID(mad_ofi_ep_t, fid)

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
    struct iovec piece = {buf, len};
    (void)desc;
    return mad_ofi_receive(EP(ep), MAD_DEV_PLAIN, &piece, 1, from, 0, 0, EP(ep)->receive_flags, context);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t from, void *context)
{
    (void)desc;
    return mad_ofi_receive(EP(ep), MAD_DEV_PLAIN, pieces, n, from, 0, 0, EP(ep)->receive_flags, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    return mad_ofi_receive(EP(ep), MAD_DEV_PLAIN, m->msg_iov, m->iov_count, m->addr, 0, 0, flags, m->context);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
    struct iovec piece = {(void *)buf, len};
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_PLAIN, &piece, 1, to, 0, 0, EP(ep)->send_flags, context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t to, void *context)
{
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_PLAIN, pieces, n, to, 0, 0, EP(ep)->send_flags, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *m, uint64_t flags)
{
    return mad_ofi_send(EP(ep), MAD_DEV_PLAIN, m->msg_iov, m->iov_count, m->addr, 0, m->data, flags, m->context);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
    return mad_ofi_inject(EP(ep), MAD_DEV_PLAIN, buf, len, to, 0, 0, 0);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                            void *context)
{
    struct iovec piece = {(void *)buf, len};
    (void)desc;
    return mad_ofi_send(EP(ep), MAD_DEV_PLAIN, &piece, 1, to, 0, data, EP(ep)->send_flags | FI_REMOTE_CQ_DATA, context);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to)
{
    return mad_ofi_inject(EP(ep), MAD_DEV_PLAIN, buf, len, to, 0, data, FI_REMOTE_CQ_DATA);
}

struct fi_ops_msg mad_ofi_msg = {.size = sizeof(struct fi_ops_msg),
                                 .recv = msg_recv,
                                 .recvv = msg_recvv,
                                 .recvmsg = msg_recvmsg,
                                 .send = msg_send,
                                 .sendv = msg_sendv,
                                 .sendmsg = msg_sendmsg,
                                 .inject = msg_inject,
                                 .senddata = msg_senddata,
                                 .injectdata = msg_injectdata};
