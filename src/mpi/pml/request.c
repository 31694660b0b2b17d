/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: allocated from a free list, completed by the device, ended by Open MPI.
 *
 *                     +--> complete: nothing else to do, or a waiting thread is woken
 *   device has ended  |
 *                     +--> in the list `ended`: it has a callback, or was freed before, or holds a part of the attached
 *                          buffer; the next mad_pml_progress ends it, outside the device's lock
 *
 * req_complete is REQUEST_PENDING, REQUEST_COMPLETED, a value stored by a waiting thread, or REQUEST_FREED. */
#include "pml_mad.h"
#include "mpi/oldest_first.h"

#include <ompi/mca/pml/base/pml_base_bsend.h>
#include <opal/util/output.h>

#define REQUEST_FREED ((void *)2) /* MPI_Request_free was called before the request ended */
#define FAILURES_LOGGED 8

/* ---- The class ------------------------------------------------------------------------------------------------- */

static int request_cancel(ompi_request_t *request, int flag);

static void request_construct(mad_pml_request_t *r)
{
    r->super.req_type = OMPI_REQUEST_PML;
    r->super.req_start = mad_pml_request_start;
    r->super.req_free = mad_pml_request_free;
    r->super.req_cancel = request_cancel;
    r->type = NULL;
    r->attached = NULL;
    r->data.packed = NULL;
    r->data.type = NULL;
    OBJ_CONSTRUCT(&r->data.convertor, opal_convertor_t);
}

static void request_destruct(mad_pml_request_t *r)
{
    OBJ_DESTRUCT(&r->data.convertor);
}

OBJ_CLASS_INSTANCE(mad_pml_request_t, ompi_request_t, request_construct, request_destruct);

mad_pml_request_t *mad_pml_request_alloc(void)
{
    return (mad_pml_request_t *)opal_free_list_get(&mad_pml->requests);
}

static inline void spare_request_give(mad_pml_request_t *r)
{
    if (OPAL_UNLIKELY(mad_pml->threaded)) {
        opal_free_list_return(&mad_pml->requests, &r->super.super);
        return;
    }
    r->next = mad_pml->spare;
    mad_pml->spare = r;
}

/* Release what few requests have: a packed copy, a retained type, and an index of Fortran. */
static __attribute__((noinline)) void request_fini_rest(mad_pml_request_t *r)
{
    if (r->data.packed != NULL)
        mad_pml_data_release(&r->data);
    if (r->type != NULL)
        OMPI_DATATYPE_RELEASE(r->type);
    r->type = NULL;
    OMPI_REQUEST_FINI(&r->super);
}

static __attribute__((noinline)) void comm_release(ompi_communicator_t *comm)
{
    OBJ_RELEASE(comm);
}

static inline void request_release(mad_pml_request_t *r)
{
    ompi_communicator_t *comm = r->super.req_mpi_object.comm;
    opal_object_t *object = (opal_object_t *)comm;
    if (OPAL_UNLIKELY(!r->plain || r->super.req_f_to_c_index != MPI_UNDEFINED))
        request_fini_rest(r);
    r->super.req_state = OMPI_REQUEST_INVALID;
    if (OPAL_LIKELY(!opal_using_threads() && object->obj_reference_count > 1))
        object->obj_reference_count--; /* like OBJ_RELEASE, without the code for the last reference */
    else
        comm_release(comm);
    spare_request_give(r);
}

void mad_pml_request_release(mad_pml_request_t *r)
{
    request_release(r);
}

/* ---- Calls by Open MPI ----------------------------------------------------------------------------------------- */

int mad_pml_request_free(ompi_request_t **request)
{
    mad_pml_request_t *r = (mad_pml_request_t *)*request;
    void *pending = REQUEST_PENDING;
    *request = MPI_REQUEST_NULL;
    if (REQUEST_COMPLETE(&r->super) ||
        !OPAL_ATOMIC_COMPARE_EXCHANGE_STRONG_PTR(&r->super.req_complete, &pending, REQUEST_FREED))
        request_release(r);
    return OMPI_SUCCESS;
}

/* Cancel a receive.  Sends are never cancelled, as MPI permits. */
static int request_cancel(ompi_request_t *request, int flag)
{
    mad_pml_request_t *r = (mad_pml_request_t *)request;
    (void)flag;
    if (r->kind == MAD_PML_RECEIVE && !REQUEST_COMPLETE(request))
        mad_dev_cancel(mad_pml->dev, r);
    return OMPI_SUCCESS;
}

void mad_pml_request_keep(mad_pml_request_t *r, void *buf, size_t count, ompi_datatype_t *type)
{
    OMPI_REQUEST_INIT(&r->super, true);
    r->buf = buf;
    r->count = count;
    r->type = type;
    r->plain = false;
    OMPI_DATATYPE_RETAIN(type);
}

static int request_start(mad_pml_request_t *r)
{
    int rc;
    if (r->data.packed)
        mad_pml_data_release(&r->data);
    r->super.req_state = OMPI_REQUEST_ACTIVE;
    r->super.req_complete = REQUEST_PENDING;
    rc = r->kind == MAD_PML_SEND ? mad_pml_send_begin(r, r->buf, r->count, r->type)
                                 : mad_pml_receive_begin(r, r->buf, r->count, r->type);
    if (rc != OMPI_SUCCESS) {
        r->super.req_state = OMPI_REQUEST_INACTIVE;
        r->super.req_complete = REQUEST_COMPLETED;
    }
    return rc;
}

/* Start requests.  A callback may start its own request, which is not complete yet at that time. */
int mad_pml_request_start(size_t n, ompi_request_t **requests)
{
    int rc = OMPI_SUCCESS;
    for (size_t i = 0; rc == OMPI_SUCCESS && i < n; i++)
        if (requests[i] && requests[i]->req_type == OMPI_REQUEST_PML)
            rc = request_start((mad_pml_request_t *)requests[i]);
    return rc;
}

/* ---- Ended requests -------------------------------------------------------------------------------------------- */

static void ended_push(mad_pml_request_t *r)
{
    r->next = atomic_load_explicit(&mad_pml->ended, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&mad_pml->ended, &r->next, r, memory_order_release,
                                                  memory_order_relaxed)) /* pairs with mad_pml_request_end_all */
        ;
}

/* Wake the thread that waits for a request.  before: the previous value of req_complete.  error: the error of the
 * request; the request may already be freed. */
static inline void waiter_wake(void *before, int error)
{
    if (before != REQUEST_PENDING && before != REQUEST_COMPLETED)
        wait_sync_update(before, 1, error);
}

/* Mark the request complete.  Return the previous value of req_complete. */
static inline void *complete_set(mad_pml_request_t *r)
{
    void *before;
    if (mad_pml->threaded)
        return (void *)OPAL_ATOMIC_SWAP_PTR(&r->super.req_complete, REQUEST_COMPLETED);
    before = (void *)r->super.req_complete;
    r->super.req_complete = REQUEST_COMPLETED;
    return before;
}

/* Complete a request for Open MPI.  Afterwards another thread may free the request. */
static inline void request_complete(mad_pml_request_t *r)
{
    int error = r->super.req_status.MPI_ERROR;
    void *before;
    if (OPAL_UNLIKELY(r->super.req_complete_cb || (!r->plain && r->attached))) {
        ended_push(r);
        return;
    }
    before = complete_set(r);
    if (OPAL_LIKELY(before == REQUEST_PENDING))
        return;
    if (before == REQUEST_FREED) {
        r->super.req_complete = REQUEST_FREED; /* from now on no other thread has a pointer to the request */
        ended_push(r);
        return;
    }
    waiter_wake(before, error);
}

void mad_pml_request_complete(mad_pml_request_t *r)
{
    request_complete(r);
}

/* End a request outside the device's lock.  If its callback returns 1, the callback has started the request again, or
 * freed it. */
static void request_end(mad_pml_request_t *r)
{
    ompi_request_complete_fn_t callback = r->super.req_complete_cb;
    int error = r->super.req_status.MPI_ERROR;
    void *before;
    if (r->attached) {
        mca_pml_base_bsend_request_free(r->attached);
        r->attached = NULL;
        mad_pml_request_release(r);
        return;
    }
    if (callback) {
        r->super.req_complete_cb = NULL;
        if (callback(&r->super))
            return;
    }
    before = (void *)OPAL_ATOMIC_SWAP_PTR(&r->super.req_complete, REQUEST_COMPLETED);
    if (before == REQUEST_FREED)
        mad_pml_request_release(r);
    else
        waiter_wake(before, error);
}

/* End the requests of the list, oldest first. */
int mad_pml_request_end_all(void)
{
    mad_pml_request_t *list =
        atomic_exchange_explicit(&mad_pml->ended, NULL, memory_order_acquire); /* pairs with ended_push */
    mad_pml_request_t *oldest, *next;
    int n = 0;
    MAD_OLDEST_FIRST(list, oldest);
    for (; oldest; oldest = next, n++) {
        next = oldest->next;
        request_end(oldest);
    }
    return n;
}

/* ---- Completions by the device, under its lock ------------------------------------------------------------------- */

static void failure_log(const mad_pml_request_t *r, mad_status_t status)
{
    if (atomic_fetch_add(&mad_pml->failures, 1) < FAILURES_LOGGED)
        opal_output(0, "pml mad: a %s rank %d of communicator %u failed: %s",
                    r->kind == MAD_PML_SEND ? "message to" : "receive from", r->peer,
                    mad_pml_context(r->super.req_mpi_object.comm), mad_status_text(status));
}

/* Return MPI's error class for a status. */
static int status_error(mad_status_t status)
{
    if (status == MAD_OK || status == MAD_ERR_CANCELLED)
        return MPI_SUCCESS;
    return status == MAD_ERR_NOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;
}

static void request_failed(mad_pml_request_t *r, mad_status_t status)
{
    ompi_status_public_t *s = &r->super.req_status;
    s->MPI_SOURCE = r->peer;
    s->MPI_TAG = r->tag;
    s->MPI_ERROR = status_error(status);
    s->_cancelled = status == MAD_ERR_CANCELLED;
    s->_ucount = 0;
    if (!s->_cancelled)
        failure_log(r, status);
    mad_pml_request_complete(r);
}

static inline void status_received(mad_pml_request_t *r, mad_peer_t peer, uint64_t claimed, uint64_t tag, size_t len)
{
    ompi_status_public_t *s = &r->super.req_status;
    s->MPI_SOURCE = OPAL_LIKELY(r->peer >= 0) ? r->peer : mad_pml_rank(r->super.req_mpi_object.comm, peer, claimed);
    s->MPI_TAG = (int)(uint32_t)tag;
    s->MPI_ERROR = MPI_SUCCESS;
    s->_cancelled = 0;
    s->_ucount = len;
    mad_pml_count(&mad_pml->received, len);
    if (OPAL_UNLIKELY(!r->plain && r->data.packed))
        mad_pml_data_unpack(&r->data, len);
}

void mad_pml_notify_received(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    mad_pml_request_t *r = context;
    (void)arg;
    (void)flags;
    status_received(r, got->source, got->data, got->tag, got->len);
    request_complete(r);
}

void mad_pml_notify(void *arg, const mad_dev_done_t *done)
{
    mad_pml_request_t *r = done->context;
    (void)arg;
    if (done->status) {
        request_failed(r, done->status);
        return;
    }
    if (!done->sent)
        status_received(r, done->source, done->data, done->tag, done->len);
    if (!done->sent && done->whole > done->len)
        r->super.req_status.MPI_ERROR = MPI_ERR_TRUNCATE;
    mad_pml_request_complete(r);
}
