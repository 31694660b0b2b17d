/* SPDX-License-Identifier: BSD-3-Clause */
/* Entry points for Open MPI: parameters, start and end. */
#include "mpi/openmpi/job_key.h"
#include "pml_mad.h"
#include "engine/wait_policy.h"

#include <madeleine/runtime.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>
#include <stdio.h>
#include <string.h>

#define PRIORITY 100 /* above the priority of Open MPI's own layers, because this one is selected only by name */

/* ---- Parameters ------------------------------------------------------------------------------------------------ */

static int pml_component_register(void)
{
    mca_base_component_var_register(&mad_pml->super.pmlm_version, "report",
                                    "Print at the end how many messages and bytes went through Madeleine (to the standard "
                                    "error output)",
                                    MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    &mad_pml->report);
    return OMPI_SUCCESS;
}

static int pml_component_open(void)
{
    return OMPI_SUCCESS;
}

static int pml_component_close(void)
{
    return OMPI_SUCCESS;
}

/* ---- Progress -------------------------------------------------------------------------------------------------- */

int mad_pml_progress(void)
{
    int n = mad_dev_progress(mad_pml->dev);
    if (OPAL_UNLIKELY(atomic_load_explicit(&mad_pml->ended, memory_order_relaxed) != NULL))
        n += mad_pml_request_end_all();
    return n;
}

/* Wait for a request.  If processes outnumber cores, Open MPI yields in its own progress function. */
void mad_pml_wait(mad_pml_request_t *request)
{
    unsigned every = opal_progress_yield_when_idle ? 1 : MADI_PML_OTHERS_EVERY;
    if (opal_using_threads()) {
        ompi_request_wait_completion(&request->super);
        return;
    }
    for (unsigned turn = 1; !REQUEST_COMPLETE(&request->super); turn++) {
        if (turn % every)
            mad_pml_progress();
        else
            opal_progress();
    }
}

int mad_pml_error(mad_status_t status)
{
    switch (status) {
    case MAD_OK: return OMPI_SUCCESS;
    case MAD_ERR_NOMEM: return OMPI_ERR_OUT_OF_RESOURCE;
    case MAD_ERR_INVAL: return OMPI_ERR_BAD_PARAM;
    default: return MPI_ERR_OTHER;
    }
}

/* ---- Start and end --------------------------------------------------------------------------------------------- */

static mad_status_t pml_device_open(void)
{
    const mad_ompi_exchange_t exchange = {"madeleine.pml.key", "pml mad", ompi_pml_base_framework.framework_output};
    mad_dev_options_t options = {.channel = "openmpi-pml",
                                 .threaded = mad_pml->threaded,
                                 .notify = mad_pml_notify,
                                 .notify_received = mad_pml_notify_received};
    mad_mpi_key_t key;
    mad_status_t status;
    if (!mad_ompi_key(&exchange, &key))
        return MAD_ERR_BOOT;
    mad_progress_thread_set(0);
    options.key = key.bytes;
    options.key_len = key.len;
    status = mad_dev_open(&options, &mad_pml->dev);
    mad_mpi_key_wipe(&key);
    mad_pml->session = status ? NULL : mad_dev_session(mad_pml->dev);
    return status;
}

static int pml_requests_init(void)
{
    /* An odd number of cache lines, so that the requests of a window lie in different sets of the cache. */
    size_t line = (size_t)opal_cache_line_size, lines = ((sizeof(mad_pml_request_t) + line - 1) / line) | 1;
    OBJ_CONSTRUCT(&mad_pml->requests, opal_free_list_t);
    return opal_free_list_init(&mad_pml->requests, lines * line, line, OBJ_CLASS(mad_pml_request_t), 0, 0, 64, -1, 64, NULL,
                               0, NULL, NULL, NULL);
}

/* True if the user has named this component.  No session is opened for programs that use another layer. */
static bool pml_is_selected(void)
{
    const char *selection = ompi_pml_base_framework.framework_selection;
    return selection && *selection && *selection != '^';
}

static int pml_device_close(void)
{
    if (!mad_pml->dev)
        return OMPI_SUCCESS;
    opal_progress_unregister(mad_pml_progress);
    mad_dev_close(mad_pml->dev);
    mad_pml->dev = NULL;
    mad_pml->session = NULL;
    mad_pml_request_end_all();
    OBJ_DESTRUCT(&mad_pml->requests);
    return OMPI_SUCCESS;
}

static mca_pml_base_module_t *pml_component_init(int *priority, bool progress_threads, bool mpi_threads)
{
    mad_status_t status;
    (void)progress_threads;
    if (!pml_is_selected())
        return NULL;
    mad_pml->threaded = mpi_threads || opal_using_threads();
    status = pml_device_open();
    if (status) {
        opal_output(0, "pml mad: no session: %s", mad_status_text(status));
        return NULL;
    }
    if (pml_requests_init() != OMPI_SUCCESS || mad_pml_publish() != OMPI_SUCCESS) {
        pml_device_close();
        return NULL;
    }
    *priority = PRIORITY;
    return &mad_pml_module;
}

static int pml_component_finalize(void)
{
    if (mad_pml->dev && mad_pml->report)
        fprintf(stderr, "pml mad: sent %llu messages %llu bytes, received %llu messages %llu bytes\n",
                (unsigned long long)mad_pml->sent.n, (unsigned long long)mad_pml->sent.bytes,
                (unsigned long long)mad_pml->received.n, (unsigned long long)mad_pml->received.bytes);
    return pml_device_close();
}

static int pml_module_enable(bool enable)
{
    if (enable)
        opal_progress_register(mad_pml_progress);
    return OMPI_SUCCESS;
}

static int pml_module_dump(ompi_communicator_t *comm, int verbose)
{
    (void)comm;
    (void)verbose;
    return OMPI_SUCCESS;
}

#if OMPI_MAJOR_VERSION >= 5
static int pml_module_revoke(ompi_communicator_t *comm, bool coll_only)
{
    (void)comm;
    (void)coll_only;
    return OMPI_ERR_NOT_SUPPORTED;
}
#define PML_VERSION MCA_PML_BASE_VERSION_2_1_0
#else
static int pml_module_checkpoint(int state)
{
    (void)state;
    return OMPI_ERR_NOT_SUPPORTED;
}
#define PML_VERSION MCA_PML_BASE_VERSION_2_0_0
#endif

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

mca_pml_base_module_t mad_pml_module = {
    .pml_add_procs = mad_pml_add_procs,
    .pml_del_procs = mad_pml_del_procs,
    .pml_enable = pml_module_enable,
    .pml_progress = mad_pml_progress,
    .pml_add_comm = mad_pml_add_comm,
    .pml_del_comm = mad_pml_del_comm,
    .pml_irecv_init = mad_pml_irecv_init,
    .pml_irecv = mad_pml_irecv,
    .pml_recv = mad_pml_recv,
    .pml_isend_init = mad_pml_isend_init,
    .pml_isend = mad_pml_isend,
    .pml_send = mad_pml_send,
    .pml_iprobe = mad_pml_iprobe,
    .pml_probe = mad_pml_probe,
    .pml_start = mad_pml_request_start,
    .pml_improbe = mad_pml_improbe,
    .pml_mprobe = mad_pml_mprobe,
    .pml_imrecv = mad_pml_imrecv,
    .pml_mrecv = mad_pml_mrecv,
    .pml_dump = pml_module_dump,
#if OMPI_MAJOR_VERSION >= 5
    .pml_revoke_comm = pml_module_revoke,
#else
    .pml_ft_event = pml_module_checkpoint,
#endif
    .pml_max_contextid = MAD_PML_CONTEXT_MAX,
    .pml_max_tag = INT32_MAX,
};

mad_pml_component_t mca_pml_mad_component = {
    .super =
        {
            .pmlm_version =
                {
                    PML_VERSION,
                    .mca_component_name = "mad",
                    MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
                    .mca_open_component = pml_component_open,
                    .mca_close_component = pml_component_close,
                    .mca_register_component_params = pml_component_register,
                },
            .pmlm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
            .pmlm_init = pml_component_init,
            .pmlm_finalize = pml_component_finalize,
        },
};
