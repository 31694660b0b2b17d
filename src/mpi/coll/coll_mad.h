/* SPDX-License-Identifier: BSD-3-Clause */
/* Open MPI's collective operations over groups of Madeleine (madeleine/coll.h): the component mad of the framework coll.
 *
 *   component.c   found by Open MPI, and asked for each communicator; parameters, report
 *   group.c       the session of pml mad or btl mad; the group of a communicator
 *   data.c        buffers of MPI datatypes as bytes
 *   move.c        operations that move data: broadcast, gather, scatter, allgather, all-to-all, and the barrier
 *   combine.c     operations that combine data: reduce, allreduce, reduce_scatter, scan, exscan
 *   request.c     operations with a request
 *
 * The component has no session of its own.  It takes that of pml mad, or else that of btl mad, so that one connection to each
 * peer serves messages and operations.  Communicators that it does not serve keep the library's own operations: those between
 * two groups, those of one process, and all if neither pml mad nor btl mad is in use.
 *
 * A communicator's group is made by the first operation, because members must not wait for each other before. */
#ifndef MAD_COLL_MAD_H
#define MAD_COLL_MAD_H

#include <ompi_config.h>

#include <ompi/communicator/communicator.h>
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/coll/base/coll_base_util.h>
#include <ompi/mca/coll/coll.h>
#include <ompi/op/op.h>
#include <ompi/request/request.h>

#include <madeleine/coll.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The operations of which some are passed on to the module that Open MPI would have taken. */
#define MAD_COLL_SHARED(X) \
    X(allreduce) \
    X(bcast) \
    X(exscan) \
    X(gather) \
    X(iallreduce) \
    X(ibcast) \
    X(iexscan) \
    X(igather) \
    X(ireduce) \
    X(ireduce_scatter) \
    X(ireduce_scatter_block) \
    X(iscan) \
    X(iscatter) \
    X(reduce) \
    X(reduce_scatter) \
    X(reduce_scatter_block) \
    X(scan) \
    X(scatter)

/* The part of a communicator that belongs to this component. */
typedef struct mad_coll_module {
    mca_coll_base_module_t super;
    ompi_communicator_t *comm; /* not retained, because the communicator retains the module */
    mad_group_t *group;        /* NULL before the first operation */
    bool near;                 /* true if all processes are on this host */
#define MAD_COLL_NEXT(name) \
    mca_coll_base_module_##name##_fn_t name##_next; \
    mca_coll_base_module_t *name##_next_module;
    MAD_COLL_SHARED(MAD_COLL_NEXT) /* the next module's operations */
#undef MAD_COLL_NEXT
} mad_coll_module_t;
OBJ_CLASS_DECLARATION(mad_coll_module_t);

/* Blocks of a buffer of MPI datatypes. */
typedef struct mad_coll_data {
    /* As passed by the program, whose arrays are valid until the operation is complete. */
    void *buf;
    int n;                         /* number of blocks */
    size_t count;                  /* elements of each block, if there are no counts */
    ompi_datatype_t *type;         /* of all blocks, if there are no types */
    const int *counts, *displs;    /* of each block, or NULL; displs in elements, with types in bytes */
    ompi_datatype_t *const *types; /* of each block, or NULL */
    /* As bytes. */
    unsigned char *base; /* the program's memory, or the copy */
    unsigned char *copy; /* NULL if the program's memory is used in place */
    bool spaced;         /* the copy has the elements with their gaps; otherwise it is packed */
    size_t len;          /* bytes of a block, if there are no counts */
    /* Bytes of each block, and its place from base on; NULL if there are no counts.  One allocation. */
    size_t *lens, *offsets;
} mad_coll_data_t;

/* One operation. */
typedef struct mad_coll_work {
    mad_coll_module_t *module;
    mad_coll_data_t from, to;
    bool keeps_to; /* `to` is not changed */
    ompi_op_t *op; /* NULL if the operation only moves data */
} mad_coll_work_t;

typedef struct mad_coll_request {
    /* Must be first, because Open MPI has this pointer.  Open MPI retains in it the datatypes and the operation. */
    ompi_coll_base_nbc_request_t super;
    struct mad_coll_request *next; /* next in the list of complete requests */
    mad_coll_work_t work;
    mad_request_t *mad; /* the request of the group's operation */
    mad_status_t status;
} mad_coll_request_t;
OBJ_CLASS_DECLARATION(mad_coll_request_t);

typedef struct mad_coll_component {
    mca_coll_base_component_t super;
    int priority;                        /* parameter */
    unsigned short_len;                  /* parameter `short`: bytes */
    bool report;                         /* parameter */
    bool progresses;                     /* true once the progress function is registered */
    _Atomic(mad_coll_request_t *) ended; /* requests whose operations are done; NULL if none */
    atomic_ullong n_begun;               /* number of operations */
    atomic_ullong n_passed;              /* number of operations that were passed on */
} mad_coll_component_t;

/* The component; Open MPI looks for this symbol. */
extern mad_coll_component_t mca_coll_mad_component;
#define mad_coll (&mca_coll_mad_component)

/* group.c */
/* Return the session that the component uses; NULL if there is none. */
mad_session_t *mad_coll_session(void);
mad_status_t mad_coll_group_make(mad_coll_module_t *module);
/* Count an operation, and make the group of the module if it has none. */
static inline mad_status_t mad_coll_begin(mad_coll_module_t *module)
{
    if (OPAL_UNLIKELY(mad_coll->report))
        atomic_fetch_add_explicit(&mad_coll->n_begun, 1, memory_order_relaxed);
    return OPAL_LIKELY(module->group != NULL) ? MAD_OK : mad_coll_group_make(module);
}

/* data.c: each fills *data, and returns MAD_ERR_NOMEM if there is no memory */
typedef enum mad_coll_packing {
    MAD_COLL_PACK_NONE, /* the blocks will be written */
    MAD_COLL_PACK_ALL,
    MAD_COLL_PACK_ONE /* only one block is read */
} mad_coll_packing_t;
/* Prepare the blocks that data->buf and the fields after it describe.  one: the block to pack. */
mad_status_t mad_coll_data_open(mad_coll_data_t *data, mad_coll_packing_t packing, int one);
/* Prepare `count` elements of data->type for an operation that combines them. */
mad_status_t mad_coll_elements_open(mad_coll_data_t *data, bool reads);
/* Free what belongs to the data.  writes: first store the copy in the program's buffer. */
void mad_coll_data_close(mad_coll_data_t *data, bool writes);
static inline size_t mad_coll_block_len(const mad_coll_data_t *data, int i)
{
    return data->lens ? data->lens[i] : data->len;
}
static inline unsigned char *mad_coll_block(const mad_coll_data_t *data, int i)
{
    return data->base + (data->lens ? data->offsets[i] : (size_t)i * data->len);
}

static inline void mad_coll_count_passed(void)
{
    if (OPAL_UNLIKELY(mad_coll->report))
        atomic_fetch_add_explicit(&mad_coll->n_passed, 1, memory_order_relaxed);
}

/* request.c */
/* Return an operation of this communicator, with a request; NULL if out of memory. */
mad_coll_request_t *mad_coll_request_new(mad_coll_module_t *module);
/* Return the operation's request to Open MPI, or its error.  status: whether the operation has begun. */
int mad_coll_request_go(mad_coll_request_t *request, mad_status_t status, ompi_request_t **out);
/* Store the results of an operation that is done, and free what belongs to it.  Return its error for Open MPI. */
int mad_coll_end(mad_coll_work_t *work, mad_status_t status);
/* Complete requests whose operations are done.  Return their number. */
int mad_coll_progress(void);

/* move.c, combine.c: the functions of the module.  Each pair has the arguments of Open MPI's coll.h. */
void mad_coll_moves_set(mca_coll_base_module_t *module);
void mad_coll_combines_set(mca_coll_base_module_t *module);

/* True if an operation in which data go one way is passed on. */
static inline bool mad_coll_is_short(const mad_coll_module_t *module, int count, const ompi_datatype_t *type)
{
    return module->near && (size_t)count * type->super.size < mad_coll->short_len;
}

/* Define coll_NAME and coll_iNAME, which call begin_NAME(work, ARGUMENTS, request). */
#define MAD_COLL_FORMS(name, parameters, arguments) \
    static int coll_##name(MAD_COLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module) \
    { \
        mad_coll_work_t work = {.module = (mad_coll_module_t *)module}; \
        (void)comm; \
        return mad_coll_end(&work, begin_##name(&work, MAD_COLL_LIST arguments, NULL)); \
    } \
    static int coll_i##name(MAD_COLL_LIST parameters, ompi_communicator_t *comm, ompi_request_t **request, \
                            mca_coll_base_module_t *module) \
    { \
        mad_coll_request_t *r = mad_coll_request_new((mad_coll_module_t *)module); \
        (void)comm; \
        return r ? mad_coll_request_go(r, begin_##name(&r->work, MAD_COLL_LIST arguments, &r->mad), request) \
                 : OMPI_ERR_OUT_OF_RESOURCE; \
    }
/* Define either_NAME and either_iNAME as well, which call coll_NAME or coll_iNAME where `served` is true, and else the function
 * of the next module.  All members must come to the same decision. */
#define MAD_COLL_SHARED_FORMS(name, parameters, arguments, served) \
    MAD_COLL_FORMS(name, parameters, arguments) \
    static int either_##name(MAD_COLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *super) \
    { \
        const mad_coll_module_t *module = (const mad_coll_module_t *)super; \
        if (served) \
            return coll_##name(MAD_COLL_LIST arguments, comm, super); \
        mad_coll_count_passed(); \
        return module->name##_next(MAD_COLL_LIST arguments, comm, module->name##_next_module); \
    } \
    static int either_i##name(MAD_COLL_LIST parameters, ompi_communicator_t *comm, ompi_request_t **request, \
                              mca_coll_base_module_t *super) \
    { \
        const mad_coll_module_t *module = (const mad_coll_module_t *)super; \
        if (served) \
            return coll_i##name(MAD_COLL_LIST arguments, comm, request, super); \
        mad_coll_count_passed(); \
        return module->i##name##_next(MAD_COLL_LIST arguments, comm, request, module->i##name##_next_module); \
    }
#define MAD_COLL_LIST(...) __VA_ARGS__
/* Enter both forms of an operation into a module: PREFIX_NAME and PREFIX_iNAME. */
#define MAD_COLL_SET(module, prefix, name) \
    (module)->coll_##name = prefix##_##name; \
    (module)->coll_i##name = prefix##_i##name;

#endif
