/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of remote memory access.  fi_*msg calls use the flags of the call; the other calls use those of the
 * endpoint. */
#include "ofi.h"

#define EP(fid) FROM_FID(mad_ofi_ep_t, fid)

static ssize_t access_it(struct fid_ep *ep, mad_dev_access_t access, const struct iovec *pieces, size_t n,
                         const struct fi_rma_iov *rma, size_t n_rma, fi_addr_t to, uint64_t data, uint64_t flags,
                         void *context)
{
    mad_dev_target_t targets[MAD_DEV_PIECES];
    mad_dev_remote_t r = {.access = access,
                          .targets = targets,
                          .n_targets = (int)n_rma,
                          .data = data,
                          .context = context,
                          .flags = FI_RMA | (access == MAD_DEV_READ ? FI_READ : FI_WRITE)};
    if (n > MAD_DEV_PIECES || n_rma > MAD_DEV_PIECES)
        return -FI_EINVAL;
    for (size_t i = 0; i < n_rma; i++)
        targets[i] = (mad_dev_target_t){rma[i].addr, rma[i].len, rma[i].key};
    if (access == MAD_DEV_READ) {
        r.results = pieces;
        r.n_results = (int)n;
    } else {
        r.pieces = pieces;
        r.n = (int)n;
    }
    return mad_ofi_remote(EP(ep), &r, to, flags);
}

static ssize_t one(struct fid_ep *ep, mad_dev_access_t access, const void *buf, size_t len, fi_addr_t to, uint64_t address,
                   uint64_t key, uint64_t data, uint64_t flags, void *context)
{
    struct iovec piece = {(void *)buf, len};
    struct fi_rma_iov rma = {address, len, key};
    return access_it(ep, access, &piece, 1, &rma, 1, to, data, flags, context);
}

static ssize_t many(struct fid_ep *ep, mad_dev_access_t access, const struct iovec *pieces, size_t n, fi_addr_t to,
                    uint64_t address, uint64_t key, void *context)
{
    struct fi_rma_iov rma = {address, 0, key};
    for (size_t i = 0; i < n; i++)
        rma.len += pieces[i].iov_len;
    return access_it(ep, access, pieces, n, &rma, 1, to, 0, EP(ep)->send_flags, context);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t address, uint64_t key,
                        void *context)
{
    (void)desc;
    return one(ep, MAD_DEV_READ, buf, len, from, address, key, 0, EP(ep)->send_flags, context);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t from,
                         uint64_t address, uint64_t key, void *context)
{
    (void)desc;
    return many(ep, MAD_DEV_READ, pieces, n, from, address, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    return access_it(ep, MAD_DEV_READ, m->msg_iov, m->iov_count, m->rma_iov, m->rma_iov_count, m->addr, 0, flags,
                     m->context);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t address,
                         uint64_t key, void *context)
{
    (void)desc;
    return one(ep, MAD_DEV_WRITE, buf, len, to, address, key, 0, EP(ep)->send_flags, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *pieces, void **desc, size_t n, fi_addr_t to,
                          uint64_t address, uint64_t key, void *context)
{
    (void)desc;
    return many(ep, MAD_DEV_WRITE, pieces, n, to, address, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *m, uint64_t flags)
{
    return access_it(ep, MAD_DEV_WRITE, m->msg_iov, m->iov_count, m->rma_iov, m->rma_iov_count, m->addr, m->data, flags,
                     m->context);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t address, uint64_t key)
{
    return one(ep, MAD_DEV_WRITE, buf, len, to, address, key, 0, MAD_OFI_NO_REPORT, NULL);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to,
                             uint64_t address, uint64_t key, void *context)
{
    (void)desc;
    return one(ep, MAD_DEV_WRITE, buf, len, to, address, key, data, EP(ep)->send_flags | FI_REMOTE_CQ_DATA, context);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t to, uint64_t address,
                              uint64_t key)
{
    return one(ep, MAD_DEV_WRITE, buf, len, to, address, key, data, MAD_OFI_NO_REPORT | FI_REMOTE_CQ_DATA, NULL);
}

struct fi_ops_rma mad_ofi_rma = {.size = sizeof(struct fi_ops_rma),
                                 .read = rma_read,
                                 .readv = rma_readv,
                                 .readmsg = rma_readmsg,
                                 .write = rma_write,
                                 .writev = rma_writev,
                                 .writemsg = rma_writemsg,
                                 .inject = rma_inject,
                                 .writedata = rma_writedata,
                                 .injectdata = rma_injectdata};
