/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of atomic operations. */
#include "ofi.h"

#define EP(fid) FROM_FID(mad_ofi_ep_t, fid)
#define COUNT(type, op, access) (MAD_DEV_ATOMIC_MAX / mad_ofi_atomic_size(access, type, op))

/* Make pieces of bytes from counts of elements.  Return false if there are too many elements, or if the pieces are too
 * long. */
static bool ioc_pieces(const struct fi_ioc *ioc, size_t n, size_t size, struct iovec *pieces)
{
    if (n > MAD_DEV_PIECES)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (ioc[i].count > MAD_DEV_ATOMIC_MAX / size)
            return false;
        pieces[i] = (struct iovec){ioc[i].addr, ioc[i].count * size};
    }
    return true;
}

/* Request an atomic operation.  FI_ATOMIC_READ ignores the operands. */
static ssize_t atomic_it(struct fid_ep *ep, mad_dev_access_t access, const struct fi_msg_atomic *m,
                         const struct fi_ioc *compares, size_t n_compares, const struct fi_ioc *results, size_t n_results,
                         uint64_t flags)
{
    size_t size = mad_ofi_atomic_size(access, m->datatype, m->op), n = m->op == FI_ATOMIC_READ ? 0 : m->iov_count;
    struct iovec operand[MAD_DEV_PIECES], compare[MAD_DEV_PIECES], result[MAD_DEV_PIECES];
    mad_dev_target_t targets[MAD_DEV_PIECES];
    mad_dev_remote_t r = {.access = access,
                          .targets = targets,
                          .n_targets = (int)m->rma_iov_count,
                          .pieces = operand,
                          .n = (int)n,
                          .results = result,
                          .n_results = (int)n_results,
                          .compares = compare,
                          .n_compares = (int)n_compares,
                          .type = (uint8_t)m->datatype,
                          .op = (uint8_t)m->op,
                          .context = m->context,
                          .flags = FI_ATOMIC | (access == MAD_DEV_ATOMIC ? FI_WRITE : FI_READ)};
    if (!size)
        return -FI_EOPNOTSUPP;
    if (m->rma_iov_count > MAD_DEV_PIECES || !ioc_pieces(m->msg_iov, n, size, operand) ||
        !ioc_pieces(compares, n_compares, size, compare) || !ioc_pieces(results, n_results, size, result))
        return -FI_EINVAL;
    for (size_t i = 0; i < m->rma_iov_count; i++)
        targets[i] = (mad_dev_target_t){m->rma_iov[i].addr, m->rma_iov[i].count * size, m->rma_iov[i].key};
    if (flags & FI_REMOTE_CQ_DATA)
        return -FI_EBADFLAGS;
    return mad_ofi_remote(EP(ep), &r, m->addr, flags);
}

/* Request an atomic operation on one target, with as many elements as the pieces have. */
static ssize_t to_one(struct fid_ep *ep, mad_dev_access_t access, const struct fi_ioc *ioc, size_t n,
                      const struct fi_ioc *compares, size_t n_compares, const struct fi_ioc *results, size_t n_results,
                      fi_addr_t to, uint64_t address, uint64_t key, enum fi_datatype type, enum fi_op op, uint64_t flags,
                      void *context)
{
    struct fi_rma_ioc rma = {address, 0, key};
    struct fi_msg_atomic m = {.msg_iov = ioc,
                              .iov_count = n,
                              .addr = to,
                              .rma_iov = &rma,
                              .rma_iov_count = 1,
                              .datatype = type,
                              .op = op,
                              .context = context};
    const struct fi_ioc *counted = access == MAD_DEV_ATOMIC ? ioc : results;
    for (size_t i = 0; i < (access == MAD_DEV_ATOMIC ? n : n_results); i++)
        rma.count += counted[i].count;
    return atomic_it(ep, access, &m, compares, n_compares, results, n_results, flags);
}

/* ---- Without a result --------------------------------------------------------------------------------------------- */

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t to, uint64_t address,
                            uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    struct fi_ioc ioc = {(void *)buf, count};
    (void)desc;
    return to_one(ep, MAD_DEV_ATOMIC, &ioc, 1, NULL, 0, NULL, 0, to, address, key, type, op, EP(ep)->send_flags, context);
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc, size_t n, fi_addr_t to,
                             uint64_t address, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc;
    return to_one(ep, MAD_DEV_ATOMIC, ioc, n, NULL, 0, NULL, 0, to, address, key, type, op, EP(ep)->send_flags, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, uint64_t flags)
{
    return atomic_it(ep, MAD_DEV_ATOMIC, m, NULL, 0, NULL, 0, flags);
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t to, uint64_t address, uint64_t key,
                             enum fi_datatype type, enum fi_op op)
{
    struct fi_ioc ioc = {(void *)buf, count};
    return to_one(ep, MAD_DEV_ATOMIC, &ioc, 1, NULL, 0, NULL, 0, to, address, key, type, op, MAD_OFI_NO_REPORT, NULL);
}

/* ---- With the previous content ------------------------------------------------------------------------------------ */

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                                void *result_desc, fi_addr_t to, uint64_t address, uint64_t key, enum fi_datatype type,
                                enum fi_op op, void *context)
{
    struct fi_ioc ioc = {(void *)buf, count}, results = {result, count};
    (void)desc, (void)result_desc;
    return to_one(ep, MAD_DEV_FETCH, &ioc, 1, NULL, 0, &results, 1, to, address, key, type, op, EP(ep)->send_flags, context);
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc, size_t n, struct fi_ioc *results,
                                 void **result_desc, size_t n_results, fi_addr_t to, uint64_t address, uint64_t key,
                                 enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)result_desc;
    return to_one(ep, MAD_DEV_FETCH, ioc, n, NULL, 0, results, n_results, to, address, key, type, op, EP(ep)->send_flags,
                  context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, struct fi_ioc *results,
                                   void **result_desc, size_t n_results, uint64_t flags)
{
    (void)result_desc;
    return atomic_it(ep, MAD_DEV_FETCH, m, NULL, 0, results, n_results, flags);
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
                                void *compare_desc, void *result, void *result_desc, fi_addr_t to, uint64_t address,
                                uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    struct fi_ioc ioc = {(void *)buf, count}, compares = {(void *)compare, count}, results = {result, count};
    (void)desc, (void)compare_desc, (void)result_desc;
    return to_one(ep, MAD_DEV_COMPARE, &ioc, 1, &compares, 1, &results, 1, to, address, key, type, op, EP(ep)->send_flags,
                  context);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *ioc, void **desc, size_t n,
                                 const struct fi_ioc *compares, void **compare_desc, size_t n_compares,
                                 struct fi_ioc *results, void **result_desc, size_t n_results, fi_addr_t to,
                                 uint64_t address, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
    (void)desc, (void)compare_desc, (void)result_desc;
    return to_one(ep, MAD_DEV_COMPARE, ioc, n, compares, n_compares, results, n_results, to, address, key, type, op,
                  EP(ep)->send_flags, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *m, const struct fi_ioc *compares,
                                   void **compare_desc, size_t n_compares, struct fi_ioc *results, void **result_desc,
                                   size_t n_results, uint64_t flags)
{
    (void)compare_desc, (void)result_desc;
    return atomic_it(ep, MAD_DEV_COMPARE, m, compares, n_compares, results, n_results, flags);
}

/* ---- Queries ------------------------------------------------------------------------------------------------------ */

static int atomic_valid(mad_dev_access_t access, enum fi_datatype type, enum fi_op op, size_t *count)
{
    if (!mad_ofi_atomic_size(access, type, op))
        return -FI_EOPNOTSUPP;
    *count = COUNT(type, op, access);
    return 0;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return atomic_valid(MAD_DEV_ATOMIC, type, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return atomic_valid(MAD_DEV_FETCH, type, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
    (void)ep;
    return atomic_valid(MAD_DEV_COMPARE, type, op, count);
}

int mad_ofi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
                         uint64_t flags)
{
    mad_dev_access_t access = flags == FI_FETCH_ATOMIC     ? MAD_DEV_FETCH
                              : flags == FI_COMPARE_ATOMIC ? MAD_DEV_COMPARE
                                                           : MAD_DEV_ATOMIC;
    (void)domain;
    if (flags && access == MAD_DEV_ATOMIC)
        return -FI_EOPNOTSUPP;
    attr->size = mad_ofi_atomic_size(access, type, op);
    return atomic_valid(access, type, op, &attr->count);
}

struct fi_ops_atomic mad_ofi_atomic = {.size = sizeof(struct fi_ops_atomic),
                                       .write = atomic_write,
                                       .writev = atomic_writev,
                                       .writemsg = atomic_writemsg,
                                       .inject = atomic_inject,
                                       .readwrite = atomic_readwrite,
                                       .readwritev = atomic_readwritev,
                                       .readwritemsg = atomic_readwritemsg,
                                       .compwrite = atomic_compwrite,
                                       .compwritev = atomic_compwritev,
                                       .compwritemsg = atomic_compwritemsg,
                                       .writevalid = atomic_writevalid,
                                       .readwritevalid = atomic_readwritevalid,
                                       .compwritevalid = atomic_compwritevalid};
