/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations with a request.  The library reports that an operation is done, in any thread; Open MPI's progress then stores its
 * results, and completes the request. */
#include "coll_mad.h"
#include "mpi/oldest_first.h"

#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#define FAILURES_LOGGED 8

static atomic_int failures; /* number of failures logged */

static int coll_error(mad_status_t status)
{
    switch (status) {
    case MAD_OK: return OMPI_SUCCESS;
    case MAD_ERR_NOMEM: return OMPI_ERR_OUT_OF_RESOURCE;
    case MAD_ERR_INVAL: return OMPI_ERR_BAD_PARAM;
    default: return MPI_ERR_OTHER;
    }
}

int mad_coll_end(mad_coll_work_t *work, mad_status_t status)
{
    mad_coll_data_close(&work->from, false);
    mad_coll_data_close(&work->to, !status && !work->keeps_to);
    if (OPAL_UNLIKELY(status != MAD_OK) && atomic_fetch_add(&failures, 1) < FAILURES_LOGGED)
        opal_output(0, "coll mad: an operation on communicator %s has failed: %s", work->module->comm->c_name,
                    mad_status_text(status));
    return coll_error(status);
}

/* ---- Requests -------------------------------------------------------------------------------------------------- */

static int coll_request_free(ompi_request_t **request)
{
    mad_coll_request_t *r = (mad_coll_request_t *)*request;
    *request = MPI_REQUEST_NULL;
    OMPI_REQUEST_FINI(&r->super.super);
    OBJ_RELEASE(r);
    return OMPI_SUCCESS;
}

static int coll_request_cancel(ompi_request_t *request, int flag)
{
    (void)request;
    (void)flag;
    return MPI_ERR_REQUEST; /* MPI has no cancellation of collective operations */
}

static void coll_request_construct(mad_coll_request_t *r)
{
    r->work = (mad_coll_work_t){0};
    r->super.super.req_type = OMPI_REQUEST_COLL;
    r->super.super.req_free = coll_request_free;
    r->super.super.req_cancel = coll_request_cancel;
    r->super.super.req_status._cancelled = 0;
}

OBJ_CLASS_INSTANCE(mad_coll_request_t, ompi_coll_base_nbc_request_t, coll_request_construct, NULL);

mad_coll_request_t *mad_coll_request_new(mad_coll_module_t *module)
{
    mad_coll_request_t *r = OBJ_NEW(mad_coll_request_t);
    if (!r)
        return NULL;
    OMPI_REQUEST_INIT(&r->super.super, false);
    r->work.module = module;
    r->super.super.req_mpi_object.comm = module->comm;
    r->super.super.req_state = OMPI_REQUEST_ACTIVE;
    return r;
}

static void coll_request_done(void *arg, mad_status_t status)
{
    mad_coll_request_t *r = arg;
    r->status = status;
    r->next = atomic_load_explicit(&mad_coll->ended, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&mad_coll->ended, &r->next, r, memory_order_release,
                                                  memory_order_relaxed)) /* pairs with mad_coll_progress */
        ;
}

int mad_coll_request_go(mad_coll_request_t *r, mad_status_t status, ompi_request_t **out)
{
    ompi_request_t *request = &r->super.super;
    if (status) {
        int rc = mad_coll_end(&r->work, status);
        coll_request_free(&request);
        return rc;
    }
    OBJ_RETAIN(r->work.module->comm);
    if (!mad_coll->progresses) {
        mad_coll->progresses = true;
        opal_progress_register(mad_coll_progress);
    }
    *out = request;
    mad_request_detach(r->mad, coll_request_done, r);
    return OMPI_SUCCESS;
}

static void coll_request_end(mad_coll_request_t *r)
{
    ompi_communicator_t *comm = r->work.module->comm;
    r->super.super.req_status.MPI_ERROR = mad_coll_end(&r->work, r->status);
    ompi_request_complete(&r->super.super, true); /* another thread may free the request from now on */
    OBJ_RELEASE(comm);
}

int mad_coll_progress(void)
{
    mad_coll_request_t *r, *done;
    int n = 0;
    if (OPAL_LIKELY(!atomic_load_explicit(&mad_coll->ended, memory_order_relaxed)))
        return 0;
    done = atomic_exchange_explicit(&mad_coll->ended, NULL, memory_order_acquire); /* pairs with coll_request_done */
    MAD_OLDEST_FIRST(done, r);
    while (r) {
        mad_coll_request_t *next = r->next;
        coll_request_end(r);
        r = next;
        n++;
    }
    return n;
}
