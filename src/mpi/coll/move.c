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

/* Begin, and prepare both buffers of a scatter.  is_root: this member sends.  *own, *len: where its own block goes. */
static mad_status_t scatter_open(mad_coll_work_t *work, bool is_root, bool in_place, unsigned char **own, size_t *len)
{
    mad_status_t status = mad_coll_begin(work->module);
    int me = own_rank(work);
    if (!status && is_root)
        status = mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
    if (!status && !in_place)
        status = mad_coll_data_open(&work->to, MAD_COLL_PACK_NONE, 0);
    if (status)
        return status;
    *own = in_place ? mad_coll_block(&work->from, me) : work->to.base;
    *len = is_root ? mad_coll_block_len(&work->from, me) : work->to.len;
    return MAD_OK;
}

static mad_status_t begin_scatter(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                  int rcount, ompi_datatype_t *rtype, int root, mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = rbuf == MPI_IN_PLACE;
    mad_status_t status;
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks(&work->from, comm_size(work), sbuf, scount, stype);
    if (!in_place)
        one_block(&work->to, rbuf, rcount, rtype);
    status = scatter_open(work, is_root, in_place, &own, &len);
    return status ? status : mad_group_scatter(work->module->group, root, work->from.base, own, len, request);
}

static mad_status_t begin_scatterv(mad_coll_work_t *work, const void *sbuf, const int *scounts, const int *displs,
                                   ompi_datatype_t *stype, void *rbuf, int rcount, ompi_datatype_t *rtype, int root,
                                   mad_request_t **request)
{
    bool is_root = own_rank(work) == root, in_place = rbuf == MPI_IN_PLACE;
    const mad_coll_data_t *from = &work->from;
    mad_status_t status;
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks_v(&work->from, comm_size(work), sbuf, scounts, displs, stype, NULL);
    if (!in_place)
        one_block(&work->to, rbuf, rcount, rtype);
    status = scatter_open(work, is_root, in_place, &own, &len);
    return status ? status
                  : mad_group_scatter_v(work->module->group, root, from->base, from->lens, from->offsets, own, len, request);
}

/* ---- All to one, and to all -------------------------------------------------------------------------------------- */

/* Begin, and prepare both buffers of a gather.  gathers: this member receives.  sbuf: MPI_IN_PLACE if its own block is
 * already there.  *own, *len: its own block. */
static mad_status_t gather_open(mad_coll_work_t *work, bool gathers, const void *sbuf, int scount, ompi_datatype_t *stype,
                                unsigned char **own, size_t *len)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    int me = own_rank(work);
    if (!in_place)
        one_block(&work->from, sbuf, scount, stype);
    if (!status && gathers)
        status = mad_coll_data_open(&work->to, in_place ? MAD_COLL_PACK_ONE : MAD_COLL_PACK_NONE, me);
    if (!status && !in_place)
        status = mad_coll_data_open(&work->from, MAD_COLL_PACK_ALL, 0);
    if (status)
        return status;
    *own = in_place ? mad_coll_block(&work->to, me) : work->from.base;
    *len = in_place ? mad_coll_block_len(&work->to, me) : work->from.len;
    return MAD_OK;
}

static mad_status_t begin_gather(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                 int rcount, ompi_datatype_t *rtype, int root, mad_request_t **request)
{
    bool is_root = own_rank(work) == root;
    mad_status_t status;
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks(&work->to, comm_size(work), rbuf, rcount, rtype);
    status = gather_open(work, is_root, sbuf, scount, stype, &own, &len);
    return status ? status : mad_group_gather(work->module->group, root, own, len, work->to.base, request);
}

static mad_status_t begin_gatherv(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                  const int *rcounts, const int *displs, ompi_datatype_t *rtype, int root,
                                  mad_request_t **request)
{
    bool is_root = own_rank(work) == root;
    const mad_coll_data_t *to = &work->to;
    mad_status_t status;
    unsigned char *own;
    size_t len;
    if (is_root)
        all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, displs, rtype, NULL);
    status = gather_open(work, is_root, sbuf, scount, stype, &own, &len);
    return status ? status
                  : mad_group_gather_v(work->module->group, root, own, len, to->base, to->lens, to->offsets, request);
}

static mad_status_t begin_allgather(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                    int rcount, ompi_datatype_t *rtype, mad_request_t **request)
{
    mad_status_t status;
    unsigned char *own;
    size_t len;
    all_blocks(&work->to, comm_size(work), rbuf, rcount, rtype);
    status = gather_open(work, true, sbuf, scount, stype, &own, &len);
    return status ? status : mad_group_allgather(work->module->group, own, len, work->to.base, request);
}

static mad_status_t begin_allgatherv(mad_coll_work_t *work, const void *sbuf, int scount, ompi_datatype_t *stype, void *rbuf,
                                     const int *rcounts, const int *displs, ompi_datatype_t *rtype, mad_request_t **request)
{
    const mad_coll_data_t *to = &work->to;
    mad_status_t status;
    unsigned char *own;
    size_t len;
    all_blocks_v(&work->to, comm_size(work), rbuf, rcounts, displs, rtype, NULL);
    status = gather_open(work, true, sbuf, scount, stype, &own, &len);
    return status ? status : mad_group_allgather_v(work->module->group, own, to->base, to->lens, to->offsets, request);
}

/* ---- All to all ------------------------------------------------------------------------------------------------ */

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
    MAD_COLL_SET(module, coll, allgather)
    MAD_COLL_SET(module, coll, allgatherv)
    MAD_COLL_SET(module, coll, alltoall)
    MAD_COLL_SET(module, coll, alltoallv)
    MAD_COLL_SET(module, coll, alltoallw)
    MAD_COLL_SET(module, coll, barrier)
    MAD_COLL_SET(module, coll, gatherv)
    MAD_COLL_SET(module, coll, scatterv)
    MAD_COLL_SET(module, either, bcast)
    MAD_COLL_SET(module, either, gather)
    MAD_COLL_SET(module, either, scatter)
}
