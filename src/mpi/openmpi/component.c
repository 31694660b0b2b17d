/* SPDX-License-Identifier: BSD-3-Clause */
/* Entry points for Open MPI: parameters, start and end. */
#include "btl_mad.h"
#include "job_key.h"

#include <madeleine/runtime.h>
#include <opal/util/output.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t network_eager_limit = MAD_BTL_NETWORK_EAGER;
static int n_modules; /* number of modules that Open MPI has, and will end */

/* Values of the parameter btl_mad_windows: when the module for windows is offered.  Open MPI uses the module whenever it is
 * there.  (rationale.md, "When do windows of Open MPI use remote memory?") */
enum { WINDOWS_NEVER, WINDOWS_OFFERED, WINDOWS_WITH_THREADS };
static int windows = WINDOWS_WITH_THREADS;

/* ---- Parameters ------------------------------------------------------------------------------------------------ */

/* Set the limits that hold until the session is open. */
static void module_defaults(mca_btl_base_module_t *btl)
{
    btl->btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 1; /* used instead of all other components but `self` */
    btl->btl_eager_limit = MAD_BTL_PACKET_MAX - MAD_BTL_HEADERS;
    btl->btl_rndv_eager_limit = MAD_BTL_PACKET_MAX - MAD_BTL_HEADERS;
    btl->btl_max_send_size = MAD_BTL_PACKET_MAX - MAD_BTL_HEADERS;
    btl->btl_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_SEND_INPLACE | MCA_BTL_FLAGS_GET;
    btl->btl_registration_handle_size = sizeof(mca_btl_base_registration_handle_t);
    btl->btl_get_limit = SIZE_MAX;
    btl->btl_get_alignment = 0;
    btl->btl_rdma_pipeline_send_length = SIZE_MAX / 4;
    btl->btl_rdma_pipeline_frag_size = 1 << 20;
    btl->btl_min_rdma_pipeline_size = SIZE_MAX / 4;
    btl->btl_latency = 1;
    btl->btl_bandwidth = 40000;
}

static int component_register(void)
{
    module_defaults(&mad_btl_memory);
    mca_base_component_var_register(&mad_btl->super.btl_version, "report",
                                    "Print at the end how many bytes went through Madeleine (to the standard error output)",
                                    MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    &mad_btl->report);
    mca_base_component_var_register(
        &mad_btl->super.btl_version, "async",
        "1: long messages are sent, and accesses to windows are served, while the program computes, by a thread of the "
        "library, and in shared memory the receiver reads long messages from the sender's memory; 2: long messages are also "
        "received then, by a thread that calls Open MPI",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, &mad_btl->async);
    mca_base_component_var_register(&mad_btl->super.btl_version, "network_eager_limit",
                                    "Maximum bytes of a message, with its header, that is sent over a network without a "
                                    "grant (btl_mad_eager_limit: in shared memory)",
                                    MCA_BASE_VAR_TYPE_SIZE_T, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    &network_eager_limit);
    mca_base_component_var_register(&mad_btl->super.btl_version, "windows",
                                    "1: windows use remote memory (osc rdma); 0: they do not; 2: they do if the program "
                                    "requests MPI_THREAD_MULTIPLE, with which Open MPI 4.1 has no other windows",
                                    MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
                                    &windows);
    return mca_btl_base_param_register(&mad_btl->super.btl_version, &mad_btl_memory);
}

static int component_open(void)
{
    return OPAL_SUCCESS;
}

static int component_close(void)
{
    return OPAL_SUCCESS;
}

/* ---- Start and end --------------------------------------------------------------------------------------------- */

static mad_status_t session_open(void)
{
    const mad_ompi_exchange_t exchange = {"madeleine.btl.key", "btl mad", opal_btl_base_framework.framework_output};
    mad_mpi_key_t key;
    mad_status_t status;
    if (!mad_ompi_key(&exchange, &key))
        return MAD_ERR_BOOT;
    /* The progress thread calls no function of Open MPI: completions are put into a list. */
    mad_progress_thread_set(mad_btl->async != 0);
    status = mad_open(key.bytes, key.len, &mad_btl->session);
    mad_mpi_key_wipe(&key);
    return status;
}

/* Return the number of bytes that fit into one packet of every adapter, or (of_networks) of every network. */
static size_t packet_room(bool of_networks)
{
    mad_adapter_info_t info;
    size_t room = MAD_BTL_PACKET_MAX;
    for (int i = 0; i < mad_adapter_count(mad_btl->session); i++)
        if (!mad_adapter_get(mad_btl->session, i, &info) && info.packet_max < room &&
            !(of_networks && (!strcmp(info.driver, "shm") || !strcmp(info.driver, "self"))))
            room = info.packet_max;
    return room - MAD_BTL_HEADERS;
}

static void size_limit(size_t *value, size_t most)
{
    if (*value > most)
        *value = most;
}

/* Set the limits from the adapters.  In shared memory a fragment fits into one packet; over networks eager fragments may
 * be longer. */
static void limit_by_adapters(void)
{
    mca_btl_base_module_t *memory = &mad_btl_memory, *network = &mad_btl_network;
    size_limit(&memory->btl_max_send_size, packet_room(false));
    size_limit(&memory->btl_eager_limit, memory->btl_max_send_size);
    size_limit(&memory->btl_rndv_eager_limit, memory->btl_eager_limit);
    mad_btl->block = packet_room(true);
    *network = *memory;
    network->btl_max_send_size = mad_btl->block;
    network->btl_rndv_eager_limit = mad_btl->block;
    network->btl_eager_limit = network_eager_limit;
    size_limit(&network->btl_eager_limit, MAD_BTL_NETWORK_EAGER_MAX);
    size_limit(&network->btl_rndv_eager_limit, network->btl_eager_limit);
    mad_btl_windows.btl_eager_limit = memory->btl_eager_limit; /* not used, but checked by Open MPI */
    mad_btl_windows.btl_rndv_eager_limit = memory->btl_rndv_eager_limit;
    mad_btl_windows.btl_max_send_size = memory->btl_max_send_size;
}

static mca_btl_base_module_t **component_init(int *n, bool progress_threads, bool mpi_threads)
{
    mca_btl_base_module_t **modules;
    mad_status_t status;
    (void)progress_threads;

    *n = 0;
    status = session_open();
    if (!status)
        status = mad_channel_open(mad_btl->session, "openmpi", &mad_btl->channel);
    if (!status)
        status = mad_channel_open(mad_btl->session, "openmpi-bulk", &mad_btl->bulk);
    if (status) {
        opal_output_verbose(1, opal_btl_base_framework.framework_output, "btl mad: no session: %s", mad_status_text(status));
        return NULL;
    }
    limit_by_adapters();
    mad_btl->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    modules = calloc(3, sizeof(mca_btl_base_module_t *));
    if (!modules || mad_btl_fragments_init() != OPAL_SUCCESS || mad_btl_publish() != OPAL_SUCCESS) {
        free(modules);
        return NULL;
    }
    if (mad_btl->async > 1)
        opal_set_using_threads(true); /* makes Open MPI's locks effective; must come before the thread starts */
    modules[0] = &mad_btl_memory;
    modules[1] = &mad_btl_network;
    n_modules = 2;
    if (windows == WINDOWS_OFFERED || (windows == WINDOWS_WITH_THREADS && mpi_threads && !MAD_OMPI_OTHER_WINDOWS))
        modules[n_modules++] = &mad_btl_windows;
    *n = n_modules;
    return modules;
}

static int module_finalize(mca_btl_base_module_t *btl)
{
    static int ended;
    (void)btl;
    if (++ended < n_modules) /* the last module to end closes the session */
        return OPAL_SUCCESS;
    ended = 0;
    mad_btl_thread_stop(); /* if no peer was ever removed, the thread still runs */
    if (mad_btl->report)
        fprintf(stderr,
                "btl mad: sent %llu fragments %llu bytes, received %llu fragments %llu bytes, got %llu blocks %llu bytes, "
                "windows %llu operations %llu bytes\n",
                (unsigned long long)mad_btl->sent.n, (unsigned long long)mad_btl->sent.bytes,
                (unsigned long long)mad_btl->received.n, (unsigned long long)mad_btl->received.bytes,
                (unsigned long long)mad_btl->got.n, (unsigned long long)mad_btl->got.bytes,
                (unsigned long long)mad_btl->windows.n, (unsigned long long)mad_btl->windows.bytes);
    mad_exit(mad_btl->session);
    mad_btl->session = NULL;
    mad_btl_peers_end();
    OBJ_DESTRUCT(&mad_btl->eager);
    OBJ_DESTRUCT(&mad_btl->full);
    return OPAL_SUCCESS;
}

static int module_register_error(mca_btl_base_module_t *btl, mca_btl_base_module_error_cb_fn_t error)
{
    (void)btl;
    mad_btl->error = error;
    return OPAL_SUCCESS;
}

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

mca_btl_base_module_t mad_btl_network; /* like mad_btl_memory, but with limits of its own */
mca_btl_base_module_t mad_btl_memory = {
    .btl_component = &mca_btl_mad_component.super,
    .btl_add_procs = mad_btl_add_procs,
    .btl_del_procs = mad_btl_del_procs,
    .btl_finalize = module_finalize,
    .btl_alloc = mad_btl_alloc,
    .btl_free = mad_btl_free,
    .btl_prepare_src = mad_btl_prepare_src,
    .btl_send = mad_btl_send,
    .btl_sendi = mad_btl_sendi,
    .btl_get = mad_btl_get,
    .btl_put = mad_btl_put,
    .btl_register_mem = mad_btl_register,
    .btl_deregister_mem = mad_btl_deregister,
    .btl_register_error = module_register_error,
};

/* For windows only.  Open MPI's ob1 uses this module for no message: the module cannot send, has no bandwidth to share, and
 * its lengths change none of ob1's bounds.  A module that reaches the same peers directly has a lower latency. */
mca_btl_base_module_t mad_btl_windows = {
    .btl_component = &mca_btl_mad_component.super,
    .btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH - 1,
    .btl_latency = 2,
    .btl_flags = MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS | MAD_OMPI_REMOTE_COMPLETION,
    .btl_atomic_flags = MCA_BTL_ATOMIC_SUPPORTS_ADD | MCA_BTL_ATOMIC_SUPPORTS_AND | MCA_BTL_ATOMIC_SUPPORTS_OR |
                        MCA_BTL_ATOMIC_SUPPORTS_XOR | MCA_BTL_ATOMIC_SUPPORTS_SWAP | MCA_BTL_ATOMIC_SUPPORTS_CSWAP,
    .btl_registration_handle_size = MAD_BTL_WINDOW_HANDLE,
    .btl_get_limit = SIZE_MAX,
    .btl_put_limit = SIZE_MAX,
    .btl_get_local_registration_threshold = SIZE_MAX,
    .btl_put_local_registration_threshold = SIZE_MAX,
    .btl_add_procs = mad_btl_add_procs,
    .btl_del_procs = mad_btl_del_procs,
    .btl_finalize = module_finalize,
    .btl_get = mad_btl_window_get,
    .btl_put = mad_btl_window_put,
    .btl_atomic_op = mad_btl_window_op,
    .btl_atomic_fop = mad_btl_window_fop,
    .btl_atomic_cswap = mad_btl_window_cswap,
    .btl_register_mem = mad_btl_window_register,
    .btl_deregister_mem = mad_btl_window_deregister,
    .btl_register_error = module_register_error,
};

mad_btl_component_t mca_btl_mad_component = {
    .super =
        {
            .btl_version =
                {
                    MCA_BTL_DEFAULT_VERSION("mad"),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .btl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
            .btl_init = component_init,
            .btl_progress = mad_btl_progress,
        },
};
