/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: the table, and adapters. */
#include "drivers/ucx/ucx.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/module.h"
#include <stdio.h>
#include <string.h>

#define CLOSE_NS INT64_C(50000000) /* ns that an adapter's end waits for the last messages to leave */
#define LOOKS 16                   /* polls for a message in one take.  rationale.md, "How does the driver ucx use UCX?" */
#define CLOSE_CALLS 1000           /* minimum number of calls of UCX in that wait: another process may have the core */

static void ucx_caps_set(ucx_adapter_t *a)
{
    bool memory = a->device.memory, tcp = !strncmp(a->device.tls, "tcp", 3);
    a->base.looks = memory ? LOOKS : 1; /* elsewhere a look may be a system call */
    a->base.adapter.caps = (madi_caps_t){.host = memory || !strcmp(a->device.name, "lo"),
                                         .packet_max = UCX_PACKET_MAX,
                                         .chunk_max = MADI_UCX_CHUNK_MAX,
                                         .rdv_min = MADI_UCX_GRANT_MIN,
                                         .cont_min = MADI_UCX_CONT_MIN,
                                         .rdv_eager = MADI_UCX_EAGER,
                                         .gather_max = UCX_GATHER,
                                         .latency_us = memory ? 0.5
                                                       : tcp  ? 9
                                                              : 2,
                                         .bandwidth_MBs = memory ? 8000 : 4000,
                                         .rank = memory ? 41
                                                 : tcp  ? 61
                                                        : 46}; /* after shm and ofi; after tcp; fabrics before tcp */
}

/* Return true if `status` shows that a call of UCX has succeeded; otherwise write the reason.  what: name of the object that
 * the call makes. */
static bool ucx_is_made(const ucx_adapter_t *a, const char *what, ucs_status_t status, char *reason)
{
    if (status != UCS_OK)
        snprintf(reason, MADI_REASON_MAX, "UCX, %.30s for device %.47s: %.60s", what, a->base.adapter.name,
                 a->lib->status_string(status));
    return status == UCS_OK;
}

static bool address_set(ucx_adapter_t *a, char *reason)
{
    ucp_address_t *address;
    if (!ucx_is_made(a, "the address", a->lib->worker_get_address(a->worker, &address, &a->base.adapter.address_len),
                     reason))
        return false;
    bool fits = a->base.adapter.address_len <= UCX_ADDRESS_MAX;
    if (fits) {
        memcpy(a->base.adapter.address, address, a->base.adapter.address_len);
        ucx_address_read(a->base.adapter.address, a->base.adapter.address_len, &a->shape);
        a->shape.memory = a->device.memory;
    } else {
        snprintf(reason, MADI_REASON_MAX,
                 "UCX's address of device %.47s has %zu bytes, more than %d: name fewer transports (UCX_TLS)",
                 a->base.adapter.name, a->base.adapter.address_len, UCX_ADDRESS_MAX);
    }
    a->lib->worker_release_address(a->worker, address);
    return fits;
}

static bool worker_open(ucx_adapter_t *a, char *reason)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = 0,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = ucx_message_arrived,
        .arg = a,
    };
    return ucx_is_made(a, "a context", ucx_context_open(a->lib, &a->device, &a->context), reason) &&
           ucx_is_made(a, "a worker", a->lib->worker_create(a->context, &params, &a->worker), reason) &&
           ucx_is_made(a, "a handler", a->lib->worker_set_am_recv_handler(a->worker, &handler), reason) &&
           address_set(a, reason);
}

static mad_status_t ucx_open(madi_adapter_t *adapter, char *reason)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    a->base.ops = &ucx_ops;
    a->arrived = &a->first_arrived;
    a->lib = ucx_lib_open(reason, MADI_REASON_MAX);
    if (!a->lib || !ucx_device_find(a->lib, adapter->name, &a->device, reason) ||
        !ucx_network_name(&a->device, adapter->network, reason) || !worker_open(a, reason))
        return MAD_ERR_SYSTEM;
    ucx_caps_set(a);
    if (!a->device.memory) /* the name may be mlx5_0:1 */
        snprintf(adapter->device, sizeof adapter->device, "%.*s", (int)strcspn(adapter->name, ":"), adapter->name);
    fabric_heat(&a->base.heat);
    mad_status_t status = ucx_wakeup_open(a, reason);
    return status ? status : fabric_control_open(&a->base, FABRIC_TICK_NS, reason);
}

/* Wait until UCX has closed the endpoints and sent their last messages. */
static void ucx_closes_await(ucx_adapter_t *a)
{
    int64_t end = madi_now() + CLOSE_NS;
    int calls = 0;
    while ((a->closing > 0 || (a->peers && a->n_unsent > 0)) && !a->base.broken &&
           (calls++ < CLOSE_CALLS || madi_now() < end))
        ucx_progress(a);
}

static void ucx_close(madi_adapter_t *adapter)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    ucx_wakeup_close(a);
    fabric_tick_close(adapter->session, &a->base.tick);
    if (!a->lib)
        return;
    ucx_peers_close(a);
    ucx_closes_await(a);
    ucx_peers_fini(a);
    ucx_closes_await(a);
}

static void ucx_worker_fini(ucx_adapter_t *a)
{
    if (a->worker)
        a->lib->worker_destroy(a->worker);
    a->worker = NULL;
    ucx_send_fini(a);
    if (a->context)
        a->lib->cleanup(a->context);
    a->context = NULL;
}

static void ucx_fini(madi_adapter_t *adapter)
{
    ucx_adapter_t *a = (ucx_adapter_t *)adapter;
    ucx_close(adapter);
    if (a->arrived)
        ucx_message_fini(a);
    if (a->close_error != UCS_OK) /* harmless: it ends with the worker */
        madi_log(MADI_LOG_INFO, "ucx", "%s: UCX does not release an endpoint: %s", a->base.adapter.name,
                 a->lib->status_string(a->close_error));
    /* otherwise the worker is leaked: UCX aborts when it destroys a worker whose endpoints are being closed */
    if (!a->closing)
        ucx_worker_fini(a);
    fabric_table_fini(&a->base.links);
}

const madi_driver_t madi_driver_ucx = {
    .abi = MADI_DRIVER_ABI,
    .name = "ucx",
    .apart = "give both a transport of UCX in common: ucx_info -d lists them",
    .adapter_size = sizeof(ucx_adapter_t),
    .link_size = sizeof(ucx_link_t),
    .on_request = true,
    .probe = ucx_probe,
    .open = ucx_open,
    .close = ucx_close,
    .fini = ucx_fini,
    .connect = fabric_link_connect,
    .start = fabric_link_start,
    .send = ucx_send,
    .poll = ucx_poll,
    .link_close = ucx_link_close,
    .link_fini = ucx_link_fini,
    .reach = {.secure = fabric_secure},
    .frames = {.frame_send = ucx_frame_send,
               .frame_answer = ucx_frame_answer,
               .accept = fabric_link_accept,
               .describe = fabric_link_describe,
               .source_end = ucx_source_end},
    .wait = {.pure_poll = fabric_pure_poll, .arm = ucx_arm},
    .fast = {.send_short = ucx_send_short, .take = ucx_take, .slot_put = ucx_slot_put},
    .live = {.drained = fabric_drained},
};

MADI_MODULE(madi_driver_ucx)
