/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that combine data.  MPI's own operation combines the elements, also in the order of the members if it does not
 * commute.  Passed on to the module that Open MPI would have taken: elements that overlap or have no bytes,
 * reduce_scatter with blocks of different lengths, and short operations (the parameter `short`).  All members see the
 * same, so all pass the operation on. */
#include "coll_mad.h"

/* Combine elements, as mad_combine_t.fn describes. */
static void elements_combine(void *arg, const void *in, void *inout, size_t count)
{
    const mad_coll_work_t *work = arg;
    ompi_datatype_t *type = work->from.type;
    ptrdiff_t gap = type->super.true_lb;
    ompi_op_reduce(work->op, (char *)in - gap, (char *)inout - gap, count, type);
}

/* True if the library can combine elements of this type one by one. */
static bool type_is_served(const ompi_datatype_t *type)
{
    const opal_datatype_t *t = &type->super;
    ptrdiff_t extent = t->ub - t->lb;
    return t->size && extent > 0 && t->true_ub - t->true_lb <= extent;
}

/* Prepare both buffers, of `read` and `written` elements, and *combine.  rbuf NULL: this member gets no result. */
static mad_status_t combine_open(mad_coll_work_t *work, const void *sbuf, size_t read, void *rbuf, size_t written,
                                 ompi_datatype_t *type, ompi_op_t *op, mad_combine_t *combine)
{
    bool in_place = sbuf == MPI_IN_PLACE;
    mad_status_t status = mad_coll_begin(work->module);
    work->op = op;
    work->from = (mad_coll_data_t){.buf = in_place ? rbuf : (void *)sbuf, .n = 1, .count = read, .type = type};
    if (!status)
        status = mad_coll_elements_open(&work->from, true);
    if (!status && rbuf) {
        work->to = (mad_coll_data_t){.buf = rbuf, .n = 1, .count = written, .type = type};
        status = mad_coll_elements_open(&work->to, false);
    }
    *combine = (mad_combine_t){.fn = elements_combine,
                               .arg = work,
                               .size = work->from.spaced ? (size_t)(type->super.ub - type->super.lb) : type->super.size,
                               .commutes = ompi_op_is_commute(op)};
    return status;
}

static mad_status_t begin_reduce(mad_coll_work_t *work, const void *sbuf, void *rbuf, int count, ompi_datatype_t *type,
                                 ompi_op_t *op, int root, mad_request_t **request)
{
    bool is_root = ompi_comm_rank(work->module->comm) == root;
    mad_combine_t combine;
    mad_status_t status = combine_open(work, sbuf, (size_t)count, is_root ? rbuf : NULL, (size_t)count, type, op, &combine);
    return status ? status
                  : mad_group_reduce(work->module->group, root, work->from.base, work->to.base, (size_t)count, &combine,
                                     request);
}

static mad_status_t begin_allreduce(mad_coll_work_t *work, const void *sbuf, void *rbuf, int count, ompi_datatype_t *type,
                                    ompi_op_t *op, mad_request_t **request)
{
    mad_combine_t combine;
    mad_status_t status = combine_open(work, sbuf, (size_t)count, rbuf, (size_t)count, type, op, &combine);
    return status
               ? status
               : mad_group_allreduce(work->module->group, work->from.base, work->to.base, (size_t)count, &combine, request);
}

static mad_status_t begin_reduce_scatter_block(mad_coll_work_t *work, const void *sbuf, void *rbuf, int count,
                                               ompi_datatype_t *type, ompi_op_t *op, mad_request_t **request)
{
    size_t all = (size_t)count * (size_t)ompi_comm_size(work->module->comm);
    mad_combine_t combine;
    mad_status_t status = combine_open(work, sbuf, all, rbuf, (size_t)count, type, op, &combine);
    return status ? status
                  : mad_group_reduce_scatter(work->module->group, work->from.base, work->to.base, (size_t)count, &combine,
                                             request);
}

static mad_status_t begin_reduce_scatter(mad_coll_work_t *work, const void *sbuf, void *rbuf, const int *counts,
                                         ompi_datatype_t *type, ompi_op_t *op, mad_request_t **request)
{
    return begin_reduce_scatter_block(work, sbuf, rbuf, counts[0], type, op, request);
}

static mad_status_t begin_scan(mad_coll_work_t *work, const void *sbuf, void *rbuf, int count, ompi_datatype_t *type,
                               ompi_op_t *op, mad_request_t **request)
{
    mad_combine_t combine;
    mad_status_t status = combine_open(work, sbuf, (size_t)count, rbuf, (size_t)count, type, op, &combine);
    return status ? status
                  : mad_group_scan(work->module->group, work->from.base, work->to.base, (size_t)count, &combine, request);
}

static mad_status_t begin_exscan(mad_coll_work_t *work, const void *sbuf, void *rbuf, int count, ompi_datatype_t *type,
                                 ompi_op_t *op, mad_request_t **request)
{
    mad_combine_t combine;
    mad_status_t status = combine_open(work, sbuf, (size_t)count, rbuf, (size_t)count, type, op, &combine);
    work->keeps_to = ompi_comm_rank(work->module->comm) == 0;
    return status ? status
                  : mad_group_exscan(work->module->group, work->from.base, work->to.base, (size_t)count, &combine, request);
}

/* ---- The module's functions ------------------------------------------------------------------------------------ */

static bool all_equal(const int *counts, int n)
{
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0])
            return false;
    return true;
}

/* True if data go one way, and single messages cost less. */
static bool op_passes(const mad_coll_module_t *module, int count, const ompi_datatype_t *type)
{
    return !type_is_served(type) || mad_coll_is_short(module, count, type);
}

#define PARAMETERS const void *sbuf, void *rbuf, int count, ompi_datatype_t *type, ompi_op_t *op
#define ARGUMENTS sbuf, rbuf, count, type, op

MAD_COLL_SHARED_FORMS(reduce, (PARAMETERS, int root), (ARGUMENTS, root), !op_passes(module, count, type))
MAD_COLL_SHARED_FORMS(allreduce, (PARAMETERS), (ARGUMENTS), type_is_served(type))
MAD_COLL_SHARED_FORMS(reduce_scatter_block, (PARAMETERS), (ARGUMENTS), type_is_served(type))
MAD_COLL_SHARED_FORMS(reduce_scatter,
                      (const void *sbuf, void *rbuf, const int *counts, ompi_datatype_t *type, ompi_op_t *op),
                      (sbuf, rbuf, counts, type, op), type_is_served(type) && all_equal(counts, ompi_comm_size(comm)))
MAD_COLL_SHARED_FORMS(scan, (PARAMETERS), (ARGUMENTS), !op_passes(module, count, type))
MAD_COLL_SHARED_FORMS(exscan, (PARAMETERS), (ARGUMENTS), !op_passes(module, count, type))

void mad_coll_combines_set(mca_coll_base_module_t *module)
{
    MAD_COLL_SET(module, either, allreduce)
    MAD_COLL_SET(module, either, exscan)
    MAD_COLL_SET(module, either, reduce)
    MAD_COLL_SET(module, either, reduce_scatter)
    MAD_COLL_SET(module, either, reduce_scatter_block)
    MAD_COLL_SET(module, either, scan)
}
