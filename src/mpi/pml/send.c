/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends in all modes.  Most of them complete without a request, because the device sends them at once. */
#include "pml_mad.h"

#include <ompi/mca/pml/base/pml_base_bsend.h>

/* Try to send a message at once; return true if it was sent. */
static inline bool message_leaves(ompi_communicator_t *comm, mad_peer_t to, int tag, struct iovec piece)
{
    if (mad_dev_send_now(mad_pml->dev, to, piece.iov_base, piece.iov_len, mad_pml_tag(comm, tag),
                         MAD_DEV_DATA((uint32_t)comm->c_my_rank)) != MAD_OK)
        return false;
    mad_pml_count(&mad_pml->sent, piece.iov_len);
    return true;
}

/* Common part of all modes: try to send without a request; return true if the send is complete.  Synchronous sends do
 * not use this, because they end when a receive has matched. */
static inline bool message_sent(const void *buf, size_t count, const ompi_datatype_t *type, mad_peer_t to, int tag,
                                mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    return OPAL_LIKELY(to >= 0) && OPAL_LIKELY(mode != MCA_PML_BASE_SEND_SYNCHRONOUS) && mad_pml_is_plain(type, count) &&
           message_leaves(comm, to, tag, mad_pml_piece(buf, count, type));
}

/* ---- With a request -------------------------------------------------------------------------------------------- */

static int pml_send_piece(mad_pml_request_t *r, mad_peer_t to, const struct iovec *piece)
{
    ompi_communicator_t *comm = r->super.req_mpi_object.comm;
    mad_dev_send_t s = {.to = to,
                        .space = MAD_DEV_TAGGED,
                        .pieces = piece,
                        .n = 1,
                        .tag = mad_pml_tag(comm, r->tag),
                        .data = (uint32_t)comm->c_my_rank,
                        .has_data = true,
                        .matched = r->mode == MCA_PML_BASE_SEND_SYNCHRONOUS,
                        .context = r};
    bool later;
    mad_status_t status;
    r->super.req_status = (ompi_status_public_t){
        .MPI_SOURCE = r->peer, .MPI_TAG = r->tag, .MPI_ERROR = MPI_SUCCESS, ._ucount = piece->iov_len};
    status = mad_dev_send(mad_pml->dev, &s, &later);
    if (status)
        return mad_pml_error(status);
    mad_pml_count(&mad_pml->sent, piece->iov_len);
    if (!later)
        mad_pml_request_complete(r);
    return OMPI_SUCCESS;
}

/* Copy the message into the buffer of MPI_Buffer_attach, with a request of its own; the caller's request is then
 * complete. */
static int send_buffered(mad_pml_request_t *r, mad_peer_t to, const void *buf, size_t count, ompi_datatype_t *type)
{
    ompi_communicator_t *comm = r->super.req_mpi_object.comm;
    size_t len = type->super.size * count;
    mad_pml_request_t *own = mad_pml_request_new(MAD_PML_SEND, comm, r->peer, r->tag);
    int rc;
    if (!own)
        return OMPI_ERR_OUT_OF_RESOURCE;
    own->plain = false;
    own->attached = mca_pml_base_bsend_request_alloc_buf(len ? len : 1);
    if (!own->attached) {
        mad_pml_request_release(own);
        return MPI_ERR_BUFFER;
    }
    mad_pml_data_pack_to(own->attached, buf, count, type);
    own->data.piece = (struct iovec){own->attached, len};
    rc = pml_send_piece(own, to, &own->data.piece);
    if (rc != OMPI_SUCCESS) {
        mca_pml_base_bsend_request_free(own->attached);
        own->attached = NULL;
        mad_pml_request_release(own);
        return rc;
    }
    r->super.req_status =
        (ompi_status_public_t){.MPI_SOURCE = r->peer, .MPI_TAG = r->tag, .MPI_ERROR = MPI_SUCCESS, ._ucount = len};
    mad_pml_request_complete(r);
    return OMPI_SUCCESS;
}

int mad_pml_send_begin(mad_pml_request_t *r, const void *buf, size_t count, ompi_datatype_t *type)
{
    mad_peer_t to = mad_pml_peer(r->super.req_mpi_object.comm, r->peer);
    int rc = OMPI_SUCCESS;
    if (to < 0)
        return OMPI_ERR_UNREACH;
    if (r->mode == MCA_PML_BASE_SEND_BUFFERED)
        return send_buffered(r, to, buf, count, type);
    if (mad_pml_is_plain(type, count)) {
        r->data.piece = mad_pml_piece(buf, count, type);
    } else {
        r->plain = false;
        rc = mad_pml_data_pack(&r->data, buf, count, type);
    }
    return rc == OMPI_SUCCESS ? pml_send_piece(r, to, &r->data.piece) : rc;
}

/* Make a request for a message that could not be sent at once.  On failure return NULL, with the error code in *rc. */
static mad_pml_request_t *send_request(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag,
                                       mca_pml_base_send_mode_t mode, ompi_communicator_t *comm, int *rc)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_SEND, comm, to, tag);
    if (!r) {
        *rc = OMPI_ERR_OUT_OF_RESOURCE;
        return NULL;
    }
    r->mode = (uint8_t)mode;
    *rc = mad_pml_send_begin(r, buf, count, type);
    if (*rc == OMPI_SUCCESS)
        return r;
    mad_pml_request_release(r);
    return NULL;
}

static __attribute__((noinline)) int isend_later(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag,
                                                 mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                                                 ompi_request_t **request)
{
    int rc;
    mad_pml_request_t *r = send_request(buf, count, type, to, tag, mode, comm, &rc);
    if (r)
        *request = &r->super;
    return rc;
}

static __attribute__((noinline)) int send_and_wait(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag,
                                                   mca_pml_base_send_mode_t mode, ompi_communicator_t *comm)
{
    int rc;
    mad_pml_request_t *r = send_request(buf, count, type, to, tag, mode, comm, &rc);
    if (!r)
        return rc;
    mad_pml_wait(r);
    rc = r->super.req_status.MPI_ERROR;
    mad_pml_request_release(r);
    return rc;
}

/* ---- Calls by Open MPI ----------------------------------------------------------------------------------------- */

int mad_pml_isend_init(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                       ompi_communicator_t *comm, ompi_request_t **request)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_SEND, comm, to, tag);
    if (!r)
        return OMPI_ERR_OUT_OF_RESOURCE;
    r->mode = (uint8_t)mode;
    mad_pml_request_keep(r, (void *)buf, count, type);
    *request = &r->super;
    return OMPI_SUCCESS;
}

int mad_pml_isend(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                  ompi_communicator_t *comm, ompi_request_t **request)
{
    if (!message_sent(buf, count, type, mad_pml_peer(comm, to), tag, mode, comm))
        return isend_later(buf, count, type, to, tag, mode, comm, request);
    *request = &ompi_request_empty;
    return OMPI_SUCCESS;
}

int mad_pml_send(const void *buf, size_t count, ompi_datatype_t *type, int to, int tag, mca_pml_base_send_mode_t mode,
                 ompi_communicator_t *comm)
{
    if (!message_sent(buf, count, type, mad_pml_peer(comm, to), tag, mode, comm))
        return send_and_wait(buf, count, type, to, tag, mode, comm);
    return OMPI_SUCCESS;
}
