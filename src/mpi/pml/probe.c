/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes.  A matched probe claims the message from the device under a new request, which then receives it. */
#include "pml_mad.h"

#include <opal/runtime/opal_progress.h>

/* Look for a message.  Return MAD_ERR_AGAIN if there is none at the moment. */
static mad_status_t probe_look(mad_dev_receive_t *r, mad_dev_probe_t how, ompi_communicator_t *comm, int from,
                               ompi_status_public_t *status)
{
    mad_dev_done_t found;
    mad_status_t rc = mad_dev_probe(mad_pml->dev, r, how, &found);
    if (rc || status == MPI_STATUS_IGNORE)
        return rc;
    status->MPI_SOURCE = from != MPI_ANY_SOURCE ? from : mad_pml_rank(comm, found.source, found.data);
    status->MPI_TAG = (int)(uint32_t)found.tag;
    status->_cancelled = 0;
    status->_ucount = found.whole;
    return MAD_OK;
}

int mad_pml_iprobe(int from, int tag, ompi_communicator_t *comm, int *found, ompi_status_public_t *status)
{
    mad_dev_receive_t r = {.multi = 0};
    mad_status_t seen;
    int rc = mad_pml_pattern(&r, from, tag, comm);
    *found = 0;
    if (rc != OMPI_SUCCESS)
        return rc;
    seen = probe_look(&r, MAD_DEV_PEEK, comm, from, status);
    if (seen == MAD_ERR_AGAIN) {
        opal_progress();
        seen = probe_look(&r, MAD_DEV_PEEK, comm, from, status);
    }
    *found = seen == MAD_OK;
    return seen == MAD_ERR_AGAIN ? OMPI_SUCCESS : mad_pml_error(seen);
}

int mad_pml_probe(int from, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    int rc, found = 0;
    do
        rc = mad_pml_iprobe(from, tag, comm, &found, status);
    while (rc == OMPI_SUCCESS && !found);
    return rc;
}

/* ---- Matched probes -------------------------------------------------------------------------------------------- */

static void message_fill(ompi_message_t *message, mad_pml_request_t *r, ompi_communicator_t *comm,
                         const ompi_status_public_t *status)
{
    message->comm = comm;
    message->req_ptr = r;
    message->peer = status->MPI_SOURCE;
    message->count = status->_ucount;
}

/* Claim a message, with this request as the context of the claim. */
static int probe_claim(int from, int tag, ompi_communicator_t *comm, mad_pml_request_t *r, ompi_status_public_t *status)
{
    mad_dev_receive_t receive = {.context = r};
    mad_status_t seen;
    int rc = mad_pml_pattern(&receive, from, tag, comm);
    if (rc != OMPI_SUCCESS)
        return rc;
    seen = probe_look(&receive, MAD_DEV_CLAIM, comm, from, status);
    if (seen == MAD_ERR_AGAIN) {
        opal_progress();
        seen = probe_look(&receive, MAD_DEV_CLAIM, comm, from, status);
    }
    return seen == MAD_ERR_AGAIN ? OMPI_ERR_NOT_FOUND : mad_pml_error(seen);
}

int mad_pml_improbe(int from, int tag, ompi_communicator_t *comm, int *found, ompi_message_t **message,
                    ompi_status_public_t *status)
{
    mad_pml_request_t *r = mad_pml_request_new(MAD_PML_RECEIVE, comm, from, tag);
    ompi_message_t *taken = ompi_message_alloc();
    ompi_status_public_t own;
    int rc = r && taken ? probe_claim(from, tag, comm, r, &own) : OMPI_ERR_OUT_OF_RESOURCE;
    *found = rc == OMPI_SUCCESS;
    if (*found) {
        message_fill(taken, r, comm, &own);
        *message = taken;
        if (status != MPI_STATUS_IGNORE)
            OMPI_COPY_STATUS(status, own, false);
        return OMPI_SUCCESS;
    }
    if (taken)
        ompi_message_return(taken);
    if (r)
        mad_pml_request_release(r);
    return rc == OMPI_ERR_NOT_FOUND ? OMPI_SUCCESS : rc;
}

int mad_pml_mprobe(int from, int tag, ompi_communicator_t *comm, ompi_message_t **message, ompi_status_public_t *status)
{
    int rc, found = 0;
    do
        rc = mad_pml_improbe(from, tag, comm, &found, message, status);
    while (rc == OMPI_SUCCESS && !found);
    return rc;
}

/* Receive the message that was claimed under this request. */
static int claimed_receive(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message,
                           mad_pml_request_t **request)
{
    mad_pml_request_t *r = (*message)->req_ptr;
    mad_dev_receive_t receive = {.space = MAD_DEV_TAGGED};
    int rc = mad_pml_receive_into(r, buf, count, type, &receive);
    if (rc != OMPI_SUCCESS)
        return rc;
    *request = r;
    ompi_message_return(*message);
    *message = MPI_MESSAGE_NULL;
    rc = mad_pml_error(mad_dev_receive_claimed(mad_pml->dev, &receive, false));
    if (rc != OMPI_SUCCESS)
        mad_pml_request_release(r);
    return rc;
}

int mad_pml_imrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message, ompi_request_t **request)
{
    mad_pml_request_t *r;
    int rc = claimed_receive(buf, count, type, message, &r);
    if (rc == OMPI_SUCCESS)
        *request = &r->super;
    return rc;
}

int mad_pml_mrecv(void *buf, size_t count, ompi_datatype_t *type, ompi_message_t **message, ompi_status_public_t *status)
{
    mad_pml_request_t *r;
    int rc = claimed_receive(buf, count, type, message, &r);
    return rc == OMPI_SUCCESS ? mad_pml_receive_end(r, status) : rc;
}
