/* SPDX-License-Identifier: BSD-3-Clause */
/* What is not offered, though every slot of libfabric's tables is called unchecked. */
#include "ofi.h"

/* Nothing here looks at what it is given. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NO(type, name, ...)                                                                                              \
    static type no_##name(__VA_ARGS__)                                                                                   \
    {                                                                                                                    \
        return -FI_ENOSYS;                                                                                               \
    }

int mad_ofi_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    return -FI_ENOSYS;
}

int mad_ofi_no_control(struct fid *fid, int command, void *arg)
{
    return -FI_ENOSYS;
}

int mad_ofi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    return -FI_ENOSYS;
}

int mad_ofi_no_tostr(const struct fid *fid, char *buf, size_t len)
{
    return -FI_ENOSYS;
}

int mad_ofi_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    return -FI_ENOSYS;
}

/* ---- Remote memory access --------------------------------------------------------------------------------------- */

NO(ssize_t, rma_read, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr,
   uint64_t key, void *context)
NO(ssize_t, rma_readv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
   uint64_t addr, uint64_t key, void *context)
NO(ssize_t, rma_readmsg, struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
NO(ssize_t, rma_write, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr, uint64_t addr,
   uint64_t key, void *context)
NO(ssize_t, rma_writev, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
   uint64_t addr, uint64_t key, void *context)
NO(ssize_t, rma_writemsg, struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
NO(ssize_t, rma_inject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t
   key)
NO(ssize_t, rma_writedata, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t
   dest_addr, uint64_t addr, uint64_t key, void *context)
NO(ssize_t, rma_injectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
   uint64_t addr, uint64_t key)

struct fi_ops_rma mad_ofi_no_rma = {.size = sizeof(struct fi_ops_rma),
                                    .read = no_rma_read,
                                    .readv = no_rma_readv,
                                    .readmsg = no_rma_readmsg,
                                    .write = no_rma_write,
                                    .writev = no_rma_writev,
                                    .writemsg = no_rma_writemsg,
                                    .inject = no_rma_inject,
                                    .writedata = no_rma_writedata,
                                    .injectdata = no_rma_injectdata};

/* ---- Atomic operations ------------------------------------------------------------------------------------------ */

NO(ssize_t, atomic_write, struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest_addr, uint64_t
   addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
NO(ssize_t, atomic_writev, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t
   dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
NO(ssize_t, atomic_writemsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
NO(ssize_t, atomic_inject, struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr, uint64_t addr,
   uint64_t key, enum fi_datatype datatype, enum fi_op op)
NO(ssize_t, atomic_readwrite, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void
   *context)
NO(ssize_t, atomic_readwritev, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, struct fi_ioc
   *resultv, void **result_desc, size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum
   fi_datatype datatype, enum fi_op op, void *context)
NO(ssize_t, atomic_readwritemsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv, void
   **result_desc, size_t result_count, uint64_t flags)
NO(ssize_t, atomic_compwrite, struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare, void
   *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype
   datatype, enum fi_op op, void *context)
NO(ssize_t, atomic_compwritev, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count, const struct
   fi_ioc *comparev, void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t
   result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void
   *context)
NO(ssize_t, atomic_compwritemsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, const struct fi_ioc *comparev,
   void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t result_count,
   uint64_t flags)
NO(int, atomic_writevalid, struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
NO(int, atomic_readwritevalid, struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
NO(int, atomic_compwritevalid, struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)

struct fi_ops_atomic mad_ofi_no_atomic = {.size = sizeof(struct fi_ops_atomic),
                                          .write = no_atomic_write,
                                          .writev = no_atomic_writev,
                                          .writemsg = no_atomic_writemsg,
                                          .inject = no_atomic_inject,
                                          .readwrite = no_atomic_readwrite,
                                          .readwritev = no_atomic_readwritev,
                                          .readwritemsg = no_atomic_readwritemsg,
                                          .compwrite = no_atomic_compwrite,
                                          .compwritev = no_atomic_compwritev,
                                          .compwritemsg = no_atomic_compwritemsg,
                                          .writevalid = no_atomic_writevalid,
                                          .readwritevalid = no_atomic_readwritevalid,
                                          .compwritevalid = no_atomic_compwritevalid};

/* ---- Collective operations -------------------------------------------------------------------------------------- */

NO(ssize_t, collective_barrier, struct fid_ep *ep, fi_addr_t coll_addr, void *context)
NO(ssize_t, collective_broadcast, struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t coll_addr,
   fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_alltoall, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_allreduce, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
NO(ssize_t, collective_allgather, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_reduce_scatter, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
NO(ssize_t, collective_reduce, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags,
   void *context)
NO(ssize_t, collective_scatter, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_gather, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void
   *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_msg, struct fid_ep *ep, const struct fi_msg_collective *msg, struct fi_ioc *resultv, void
   **result_desc, size_t result_count, uint64_t flags)
NO(ssize_t, collective_barrier2, struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags, void *context)

struct fi_ops_collective mad_ofi_no_collective = {.size = sizeof(struct fi_ops_collective),
                                                  .barrier = no_collective_barrier,
                                                  .broadcast = no_collective_broadcast,
                                                  .alltoall = no_collective_alltoall,
                                                  .allreduce = no_collective_allreduce,
                                                  .allgather = no_collective_allgather,
                                                  .reduce_scatter = no_collective_reduce_scatter,
                                                  .reduce = no_collective_reduce,
                                                  .scatter = no_collective_scatter,
                                                  .gather = no_collective_gather,
                                                  .msg = no_collective_msg,
                                                  .barrier2 = no_collective_barrier2};
