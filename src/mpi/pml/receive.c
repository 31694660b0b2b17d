/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives. */
#include "pml_mad.h"

#define TAG_BITS UINT64_C(0x7fffffff) /* bits of MPI's tag, except the sign */

static inline int pattern_set(mad_dev_receive_t *r, int from, int tag, ompi_communicator_t *comm)
{
    bool any = tag == MPI_ANY_TAG;
    r->from = from == MPI_ANY_SOURCE ? MAD_ANY_SOURCE : mad_pml_peer(comm, from);
    r->space = MAD_DEV_TAGGED;
    r->tag = mad_pml_tag(comm, any ? 0 : tag);
    r->ignore = any ? TAG_BITS : 0;
    return from == MPI_ANY_SOURCE || OPAL_LIKELY(r->from >= 0) ? OMPI_SUCCESS : OMPI_ERR_UNREACH;
}

static inline int data_set(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type, mad_dev_receive_t *receive)
{
    int rc = OMPI_SUCCESS;
    if (mad_pml_is_plain(type, count))
        r->data.piece = mad_pml_piece(buf, count, type);
    else
        rc = mad_pml_data_room(&r->data, buf, count, type);
    receive->pieces = &r->data.piece;
    receive->n = 1;
    receive->context = r;
    return rc;
}

/* The common part of all receives, inlined. */
static inline int receive_begin(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type, int from, int tag,
                                ompi_communicator_t *comm)
{
    mad_dev_receive_t receive = {.multi = 0};
    mad_status_t status;
    int rc = pattern_set(&receive, from, tag, comm);
    if (OPAL_LIKELY(rc == OMPI_SUCCESS))
        rc = data_set(r, buf, count, type, &receive);
    if (OPAL_UNLIKELY(rc != OMPI_SUCCESS))
        return rc;
    status = mad_dev_receive(mad_pml->dev, &receive);
    return OPAL_LIKELY(!status) ? OMPI_SUCCESS : mad_pml_error(status);
}

int mad_pml_pattern(mad_dev_receive_t *r, int from, int tag, ompi_communicator_t *comm)
{
    return pattern_set(r, from, tag, comm);
}

int mad_pml_receive_into(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type, mad_dev_receive_t *receive)
{
    return data_set(r, buf, count, type, receive);
}

int mad_pml_receive_begin(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type)
{
    return receive_begin(r, buf, count, type, r->peer, r->tag, r->super.req_mpi_object.comm);
}

int mad_pml_receive_end(mad_pml_request_t *r, ompi_status_public_t *status)
{
    int rc;
    mad_pml_wait(r);
    rc = r->super.req_status.MPI_ERROR;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, r->super.req_status, false);
    mad_pml_request_release(r);
    return rc;
}

/* ---- Calls by Open MPI ----------------------------------------------------------------------------------------- */

int mad_pml_irecv_init(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                       ompi_request_t **request)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_RECEIVE, comm, from, tag);
    if (!r)
        return OMPI_ERR_OUT_OF_RESOURCE;
    mad_pml_request_keep(r, buf, count, type);
    *request = &r->super;
    return OMPI_SUCCESS;
}

int mad_pml_irecv(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                  ompi_request_t **request)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_RECEIVE, comm, from, tag);
    int rc;
    if (OPAL_UNLIKELY(!r))
        return OMPI_ERR_OUT_OF_RESOURCE;
    *request = &r->super; /* set before the receive begins, because it may complete at once */
    rc = receive_begin(r, buf, count, type, from, tag, comm);
    if (OPAL_UNLIKELY(rc != OMPI_SUCCESS)) {
        *request = MPI_REQUEST_NULL;
        mad_pml_request_release(r);
    }
    return rc;
}

int mad_pml_recv(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                 ompi_status_public_t *status)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_RECEIVE, comm, from, tag);
    int rc;
    if (OPAL_UNLIKELY(!r))
        return OMPI_ERR_OUT_OF_RESOURCE;
    rc = receive_begin(r, buf, count, type, from, tag, comm);
    if (OPAL_LIKELY(rc == OMPI_SUCCESS))
        return mad_pml_receive_end(r, status);
    mad_pml_request_release(r);
    return rc;
}
