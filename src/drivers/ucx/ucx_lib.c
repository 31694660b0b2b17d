/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/ucx/ucx_lib.h"

#include "drivers/fabric/handlers.h"

#define UCP "libucp.so.0"
#define UCS "libucs.so.0"
#define REMEDY "install UCX 1.13 or later"
#define MINOR_MIN 13 /* of version 1 */

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static bool ucx_library_open(void *arg, char *reason, size_t size)
{
    ucx_lib_t *u = arg;
    const fabric_symbol_t ucp[] = {
        {"ucp_get_version", &u->get_version},
        {"ucp_config_read", &u->config_read},
        {"ucp_config_modify", &u->config_modify},
        {"ucp_config_release", &u->config_release},
        {"ucp_init_version", &u->init},
        {"ucp_cleanup", &u->cleanup},
        {"ucp_context_print_info", &u->context_print_info},
        {"ucp_worker_create", &u->worker_create},
        {"ucp_worker_destroy", &u->worker_destroy},
        {"ucp_worker_get_address", &u->worker_get_address},
        {"ucp_worker_release_address", &u->worker_release_address},
        {"ucp_worker_get_efd", &u->worker_get_efd},
        {"ucp_worker_arm", &u->worker_arm},
        {"ucp_worker_progress", &u->worker_progress},
        {"ucp_worker_set_am_recv_handler", &u->worker_set_am_recv_handler},
        {"ucp_ep_create", &u->ep_create},
        {"ucp_ep_close_nbx", &u->ep_close},
        {"ucp_am_send_nbx", &u->am_send},
        {"ucp_am_recv_data_nbx", &u->am_recv_data},
        {"ucp_am_data_release", &u->am_data_release},
        {"ucp_request_free", &u->request_free},
    };
    const fabric_symbol_t ucs[] = {{"ucs_status_string", &u->status_string}};
    unsigned major, minor, release;
    if (!fabric_library_open(UCP, ucp, COUNT(ucp), REMEDY, reason, size) ||
        !fabric_library_open(UCS, ucs, COUNT(ucs), REMEDY, reason, size))
        return false;
    u->get_version(&major, &minor, &release);
    if (major == 1 && minor >= MINOR_MIN)
        return true;
    snprintf(reason, size, "UCX is version %u.%u: " REMEDY, major, minor);
    return false;
}

const ucx_lib_t *ucx_lib_open(char *reason, size_t size)
{
    static fabric_library_t library = FABRIC_LIBRARY;
    static ucx_lib_t lib;
    return fabric_library_use(&library, ucx_library_open, &lib, reason, size) ? &lib : NULL;
}
