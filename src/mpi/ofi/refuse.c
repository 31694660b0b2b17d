/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that the provider does not offer.  These functions exist because libfabric calls the entries of its tables
 * without a check. */
#include "ofi.h"

/* All functions in this file ignore their arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NO(type, name, ...) \
    static type no_##name(__VA_ARGS__) \
    { \
        return -FI_ENOSYS; \
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

/* ---- Collective operations -------------------------------------------------------------------------------------- */

NO(ssize_t, collective_barrier, struct fid_ep *ep, fi_addr_t coll_addr, void *context)
NO(ssize_t, collective_broadcast, struct fid_ep *ep, void *buf, size_t count, void *desc, fi_addr_t coll_addr,
   fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_alltoall, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_allreduce, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
NO(ssize_t, collective_allgather, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_reduce_scatter, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
NO(ssize_t, collective_reduce, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void *result_desc,
   fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void *context)
NO(ssize_t, collective_scatter, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
   void *result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_gather, struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void *result_desc,
   fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void *context)
NO(ssize_t, collective_msg, struct fid_ep *ep, const struct fi_msg_collective *msg, struct fi_ioc *resultv,
   void **result_desc, size_t result_count, uint64_t flags)
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
