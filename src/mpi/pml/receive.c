/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives. */
#include "mpi/device/quick.h"
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

/* Set the request's piece. */
static inline int data_set(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type)
{
    if (!mad_pml_is_plain(type, count)) {
        r->plain = false;
        return mad_pml_data_room(&r->data, buf, count, type);
    }
    r->data.piece = mad_pml_piece(buf, count, type);
    return OMPI_SUCCESS;
}

/* The common part of all receives, inlined. */
__attribute__((always_inline)) static inline int receive_begin(mad_pml_request_t *r, void *buf, size_t count,
                                                               ompi_datatype_t *type, int from, int tag,
                                                               ompi_communicator_t *comm)
{
    mad_dev_receive_t pattern;
    struct iovec piece = mad_pml_piece(buf, count, type);
    mad_status_t status;
    int rc = pattern_set(&pattern, from, tag, comm);
    if (OPAL_UNLIKELY(rc != OMPI_SUCCESS))
        return rc;
    if (OPAL_UNLIKELY(!mad_pml_is_plain(type, count))) {
        rc = data_set(r, buf, count, type);
        if (rc != OMPI_SUCCESS)
            return rc;
        piece = r->data.piece;
    }
    if (OPAL_LIKELY(dev_receive_one_quick(mad_pml->dev, pattern.from, pattern.tag, pattern.ignore, piece, r)))
        return OMPI_SUCCESS;
    status = mad_dev_receive_one(mad_pml->dev, pattern.from, pattern.tag, pattern.ignore, piece, r);
    return OPAL_LIKELY(!status) ? OMPI_SUCCESS : mad_pml_error(status);
}

int mad_pml_pattern(mad_dev_receive_t *r, int from, int tag, ompi_communicator_t *comm)
{
    return pattern_set(r, from, tag, comm);
}

int mad_pml_receive_into(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type, mad_dev_receive_t *receive)
{
    receive->pieces = &r->data.piece;
    receive->n = 1;
    receive->context = r;
    return data_set(r, buf, count, type);
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
    *request = &r->super; /* set the request before the receive begins, because the receive may complete at once */
    rc = receive_begin(r, buf, count, type, from, tag, comm);
    if (OPAL_UNLIKELY(rc != OMPI_SUCCESS)) {
        *request = MPI_REQUEST_NULL;
        mad_pml_request_release(r);
    }
    return rc;
}

/* Try to receive a message without a request; return true if a message was received. */
static inline bool message_received(void *buf, size_t count, ompi_datatype_t *type, int from, int tag,
                                    ompi_communicator_t *comm, ompi_status_public_t *status)
{
    mad_dev_receive_t pattern;
    mad_dev_got_t got;
    if (atomic_load_explicit(&mad_pml->ended, memory_order_relaxed) || !mad_pml_is_plain(type, count) ||
        pattern_set(&pattern, from, tag, comm) != OMPI_SUCCESS)
        return false;
    if (mad_dev_receive_now(mad_pml->dev, pattern.from, pattern.tag, pattern.ignore, mad_pml_piece(buf, count, type),
                            &got) != MAD_OK)
        return false;
    mad_pml_count(&mad_pml->received, got.len);
    if (status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = from != MPI_ANY_SOURCE ? from : mad_pml_rank(comm, got.source, got.data);
        status->MPI_TAG = (int)(uint32_t)got.tag;
        status->_cancelled = 0;
        status->_ucount = got.len;
    }
    return true;
}

static __attribute__((noinline)) int receive_and_wait(void *buf, size_t count, ompi_datatype_t *type, int from, int tag,
                                                      ompi_communicator_t *comm, ompi_status_public_t *status)
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

int mad_pml_recv(void *buf, size_t count, ompi_datatype_t *type, int from, int tag, ompi_communicator_t *comm,
                 ompi_status_public_t *status)
{
    if (OPAL_LIKELY(message_received(buf, count, type, from, tag, comm, status)))
        return OMPI_SUCCESS;
    return receive_and_wait(buf, count, type, from, tag, comm, status);
}
