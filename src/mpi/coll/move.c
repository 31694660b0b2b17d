/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that move data, and the barrier.  Each begin_NAME prepares the data and begins the group's operation, with a
 * request or without.  MPI_IN_PLACE stands for one of the two buffers; the group's operations have forms in place for that. */
#include "coll_mad.h"

static int own_rank(const mad_coll_work_t *work)
{
    return ompi_comm_rank(work->module->comm);
}

static int comm_size(const mad_coll_work_t *work)
{
    return ompi_comm_size(work->module->comm);
}

/* Describe one block. */
static void one_block(mad_coll_data_t *data, const void *buf, int count, ompi_datatype_t *type)
{
    data->buf = (void *)buf;
    data->n = 1;
    data->count = (size_t)count;
    data->type = type;
}

/* Describe a block of each of n members. */
static void all_blocks(mad_coll_data_t *data, int n, const void *buf, int count, ompi_datatype_t *type)
{
    one_block(data, buf, count, type);
    data->n = n;
}

/* Describe a block of each of n members, with its own count and place; types NULL: all have the same type. */
static void all_blocks_v(mad_coll_data_t *data, int n, const void *buf, const int *counts, const int *displs,
                         ompi_datatype_t *type, ompi_datatype_t *const *types)
{
    data->buf = (void *)buf;
    data->n = n;
    data->counts = counts;
    data->displs = displs;
    data->type = type;
    data->types = types;
}

/* ---- One to all ------------------------------------------------------------------------------------------------ */

static mad_status_t begin_bcast(mad_coll_work_t *work, void *buf, int count, ompi_datatype_t *type, int root,
                                mad_request_t **request)
{
    bool is_root = own_rank(work) == root;
    mad_status_t status = mad_coll_begin(work->module);
    one_block(&work->to, buf, count, type);
    work->keeps_to = is_root;
    if (!status)
        status = mad_coll_data_open(&work->to, is_root ? MAD_COLL_PACK_ALL : MAD_COLL_PACK_NONE, 0);
    return status ? status : mad_group_broadcast(work->module->group, root, work->to.base, work->to.len, request);
}

static mad_status_t begin_scatter(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                  int rcount, ompi_datatype_t *rtype, int root, mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = rbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    size_t len;
    if (is_root)
        all_blocks(&work->from, comm_size(work), sbuf, scount, stype);
    if (!in_place)
        one_block(&work->to, rbuf, rcount, rtype);
    if (!status && is_root)
        status = mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
    if (!status && !in_place)
        status = mad_coll_data_open(&work->to, MAD_COLL_PACK_NONE, 0);
    if (status)
        return status;
    len = is_root ? work->from.len : work->to.len;
    return mad_group_scatter(work->module->group, root, work->from.base,
                             in_place ? mad_coll_block(&work->from, root) : work->to.base, len, request);
}

static mad_status_t begin_scatterv(mad_coll_work_t *work, const void *sbuf, const int *scounts, const int *displs,
                                   ompi_datatype_t *stype, void *rbuf, int rcount, ompi_datatype_t *rtype, int root,
                                   mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = rbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    size_t len;
    if (is_root)
        all_blocks_v(&work->from, comm_size(work), sbuf, scounts, displs, stype, NULL);
    if (!in_place)
        one_block(&work->to, rbuf, rcount, rtype);
    if (!status && is_root)
        status = mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
    if (!status && !in_place)
        status = mad_coll_data_open(&work->to, MAD_COLL_PACK_NONE, 0);
    if (status)
        return status;
    len = is_root ? mad_coll_block_len(&work->from, root) : work->to.len;
    return mad_group_scatter_v(work->module->group, root, work->from.base, work->from.lens, work->from.offsets,
                               in_place ? mad_coll_block(&work->from, root) : work->to.base, len, request);
}

/* ---- All to one ------------------------------------------------------------------------------------------------ */

/* Prepare both buffers of a gather.  gathers: this member receives.  In place, its own block is already there. */
static mad_status_t gather_open(mad_coll_work_t *work, bool gathers, bool in_place)
{
    mad_status_t status = MAD_OK;
    if (gathers)
        status = mad_coll_data_open(&work->to, in_place ? MAD_COLL_PACK_ONE : MAD_COLL_PACK_NONE, own_rank(work));
    if (!status && !in_place)
        status = mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
    return status;
}

/* Return this member's own block. */
static unsigned char *gather_own(const mad_coll_work_t *work, bool in_place, size_t *len)
{
    int own = own_rank(work);
    *len = in_place ? mad_coll_block_len(&work->to, own) : work->from.len;
    return in_place ? mad_coll_block(&work->to, own) : work->from.base;
}

static mad_status_t begin_gather(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                 int rcount, ompi_datatype_t *rtype, int root, mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks(&work->to, comm_size(work), rbuf, rcount, rtype);
    if (!in_place)
        one_block(&work->from, sbuf, scount, stype);
    if (!status)
        status = gather_open(work, is_root, in_place);
    if (status)
        return status;
    own = gather_own(work, in_place, &len);
    return mad_group_gather(work->module->group, root, own, len, work->to.base, request);
}

static mad_status_t begin_gatherv(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                  const int *rcounts, const int *displs, ompi_datatype_t *rtype, int root,
                                  mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, displs, rtype, NULL);
    if (!in_place)
        one_block(&work->from, sbuf, scount, stype);
    if (!status)
        status = gather_open(work, is_root, in_place);
    if (status)
        return status;
    own = gather_own(work, in_place, &len);
    return mad_group_gather_v(work->module->group, root, own, len, work->to.base, work->to.lens, work->to.offsets, request);
}

/* ---- All to all ------------------------------------------------------------------------------------------------ */

static mad_status_t begin_allgather(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                    int rcount, ompi_datatype_t *rtype, mad_request_t **request)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    unsigned char *own;
    size_t len;
    all_blocks(&work->to, comm_size(work), rbuf, rcount, rtype);
    if (!in_place)
        one_block(&work->from, sbuf, scount, stype);
    if (!status)
        status = gather_open(work, true, in_place);
    if (status)
        return status;
    own = gather_own(work, in_place, &len);
    return mad_group_allgather(work->module->group, own, len, work->to.base, request);
}

static mad_status_t begin_allgatherv(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                     const int *rcounts, const int *displs, ompi_datatype_t *rtype, mad_request_t **request)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    unsigned char *own;
    size_t len;
    all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, displs, rtype, NULL);
    if (!in_place)
        one_block(&work->from, sbuf, scount, stype);
    if (!status)
        status = gather_open(work, true, in_place);
    if (status)
        return status;
    own = gather_own(work, in_place, &len);
    return mad_group_allgather_v(work->module->group, own, work->to.base, work->to.lens, work->to.offsets, request);
}

/* Prepare both buffers of an exchange, of which only `to` exists in place. */
static mad_status_t exchange_open(mad_coll_work_t *work, bool in_place)
{
    mad_status_t status = mad_coll_data_open(&work->to, in_place ? MAD_COLL_PACK_ALL : MAD_COLL_PACK_NONE, 0);
    return status || in_place ? status : mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
}

static mad_status_t begin_alltoall(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                   int rcount, ompi_datatype_t *rtype, mad_request_t **request)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    all_blocks(&work->to, comm_size(work), rbuf, rcount, rtype);
    if (!in_place)
        all_blocks(&work->from, comm_size(work), sbuf, scount, stype);
    if (!status)
        status = exchange_open(work, in_place);
    return status ? status
                  : mad_group_alltoall(work->module->group, in_place ? work->to.base : work->from.base, work->to.base,
                                       work->to.len, request);
}

/* Begin an exchange whose blocks work->from and work->to describe. */
static mad_status_t exchange_begin(mad_coll_work_t *work, bool in_place, mad_request_t **request)
{
    const mad_coll_data_t *from = in_place ? &work->to : &work->from, *to = &work->to;
    mad_status_t status = mad_coll_begin(work->module);
    if (!status)
        status = exchange_open(work, in_place);
    return status ? status
                  : mad_group_alltoall_v(work->module->group, from->base, from->lens, from->offsets, to->base, to->lens,
                                         to->offsets, request);
}

static mad_status_t begin_alltoallv(mad_coll_work_t *work, const void *sbuf, const int *scounts, const int *sdispls,
                                    ompi_datatype_t *stype, void *rbuf, const int *rcounts, const int *rdispls,
                                    ompi_datatype_t *rtype, mad_request_t **request)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, rdispls, rtype, NULL);
    if (!in_place)
        all_blocks_v(&work->from, comm_size(work), sbuf, scounts, sdispls, stype, NULL);
    return exchange_begin(work, in_place, request);
}

static mad_status_t begin_alltoallw(mad_coll_work_t *work, const void *sbuf, const int *scounts, const int *sdispls,
                                    ompi_datatype_t *const *stypes, void *rbuf, const int *rcounts, const int *rdispls,
                                    ompi_datatype_t *const *rtypes, mad_request_t **request)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, rdispls, NULL, rtypes);
    if (!in_place)
        all_blocks_v(&work->from, comm_size(work), sbuf, scounts, sdispls, NULL, stypes);
    return exchange_begin(work, in_place, request);
}

/* ---- The module's functions ------------------------------------------------------------------------------------ */

#define SEND_ONE const void *sbuf, int scount, ompi_datatype_t *stype
#define SEND_V const void *sbuf, const int *scounts, const int *sdispls, ompi_datatype_t *stype
#define SEND_W const void *sbuf, const int *scounts, const int *sdispls, ompi_datatype_t *const *stypes
#define RECEIVE_ONE void *rbuf, int rcount, ompi_datatype_t *rtype
#define RECEIVE_V void *rbuf, const int *rcounts, const int *rdispls, ompi_datatype_t *rtype
#define RECEIVE_W void *rbuf, const int *rcounts, const int *rdispls, ompi_datatype_t *const *rtypes

MAD_COLL_SHARED_FORMS(bcast, (void *buf, int count, ompi_datatype_t *type, int root), (buf, count, type, root),
                      !mad_coll_is_short(module, count, type))
MAD_COLL_SHARED_FORMS(scatter, (SEND_ONE, RECEIVE_ONE, int root), (sbuf, scount, stype, rbuf, rcount, rtype, root),
                      rbuf == MPI_IN_PLACE ? !mad_coll_is_short(module, scount, stype)
                                           : !mad_coll_is_short(module, rcount, rtype))
MAD_COLL_FORMS(scatterv, (SEND_V, RECEIVE_ONE, int root), (sbuf, scounts, sdispls, stype, rbuf, rcount, rtype, root))
MAD_COLL_SHARED_FORMS(gather, (SEND_ONE, RECEIVE_ONE, int root), (sbuf, scount, stype, rbuf, rcount, rtype, root),
                      sbuf == MPI_IN_PLACE ? !mad_coll_is_short(module, rcount, rtype)
                                           : !mad_coll_is_short(module, scount, stype))
MAD_COLL_FORMS(gatherv, (SEND_ONE, RECEIVE_V, int root), (sbuf, scount, stype, rbuf, rcounts, rdispls, rtype, root))
MAD_COLL_FORMS(allgather, (SEND_ONE, RECEIVE_ONE), (sbuf, scount, stype, rbuf, rcount, rtype))
MAD_COLL_FORMS(allgatherv, (SEND_ONE, RECEIVE_V), (sbuf, scount, stype, rbuf, rcounts, rdispls, rtype))
MAD_COLL_FORMS(alltoall, (SEND_ONE, RECEIVE_ONE), (sbuf, scount, stype, rbuf, rcount, rtype))
MAD_COLL_FORMS(alltoallv, (SEND_V, RECEIVE_V), (sbuf, scounts, sdispls, stype, rbuf, rcounts, rdispls, rtype))
MAD_COLL_FORMS(alltoallw, (SEND_W, RECEIVE_W), (sbuf, scounts, sdispls, stypes, rbuf, rcounts, rdispls, rtypes))

static mad_status_t begin_barrier(mad_coll_work_t *work, mad_request_t **request)
{
    mad_status_t status = mad_coll_begin(work->module);
    return status ? status : mad_group_barrier(work->module->group, request);
}

static int coll_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module)
{
    mad_coll_work_t work = {.module = (mad_coll_module_t *)module};
    (void)comm;
    return mad_coll_end(&work, begin_barrier(&work, NULL));
}

static int coll_ibarrier(ompi_communicator_t *comm, ompi_request_t **request, mca_coll_base_module_t *module)
{
    mad_coll_request_t *r = mad_coll_request_new((mad_coll_module_t *)module);
    (void)comm;
    return r ? mad_coll_request_go(r, begin_barrier(&r->work, &r->mad), request) : OMPI_ERR_OUT_OF_RESOURCE;
}

void mad_coll_moves_set(mca_coll_base_module_t *module)
{
#define SET(name) \
    module->coll_##name = coll_##name; \
    module->coll_i##name = coll_i##name;
    SET(allgather)
    SET(allgatherv)
    SET(alltoall)
    SET(alltoallv)
    SET(alltoallw)
    SET(barrier)
    SET(gatherv)
    SET(scatterv)
#undef SET
#define SET_EITHER(name) \
    module->coll_##name = either_##name; \
    module->coll_i##name = either_i##name;
    SET_EITHER(bcast)
    SET_EITHER(gather)
    SET_EITHER(scatter)
#undef SET_EITHER
}
