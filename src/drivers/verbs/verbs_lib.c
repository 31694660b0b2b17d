/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/verbs/verbs_lib.h"

#include "drivers/fabric/handlers.h"

#define LIBRARY "libibverbs.so.1"
#define REMEDY "install libibverbs of rdma-core 32 or later"

static bool verbs_library_open(void *arg, char *reason, size_t size)
{
    verbs_lib_t *v = arg;
    const fabric_symbol_t symbols[] = {
        {"ibv_get_device_list", &v->get_device_list},
        {"ibv_free_device_list", &v->free_device_list},
        {"ibv_get_device_name", &v->get_device_name},
        {"ibv_open_device", &v->open_device},
        {"ibv_close_device", &v->close_device},
        {"ibv_query_device", &v->device_query},
        {"ibv_query_port", &v->port_query},
        {"_ibv_query_gid_ex", &v->gid_query},
        {"ibv_alloc_pd", &v->alloc_pd},
        {"ibv_dealloc_pd", &v->dealloc_pd},
        {"ibv_reg_mr", &v->reg_mr},
        {"ibv_dereg_mr", &v->dereg_mr},
        {"ibv_create_comp_channel", &v->create_comp_channel},
        {"ibv_destroy_comp_channel", &v->destroy_comp_channel},
        {"ibv_create_cq", &v->create_cq},
        {"ibv_destroy_cq", &v->destroy_cq},
        {"ibv_get_cq_event", &v->get_cq_event},
        {"ibv_ack_cq_events", &v->ack_cq_events},
        {"ibv_create_srq", &v->create_srq},
        {"ibv_destroy_srq", &v->destroy_srq},
        {"ibv_create_qp", &v->create_qp},
        {"ibv_modify_qp", &v->modify_qp},
        {"ibv_destroy_qp", &v->destroy_qp},
        {"ibv_get_async_event", &v->get_async_event},
        {"ibv_ack_async_event", &v->ack_async_event},
        {"ibv_wc_status_str", &v->wc_status_str},
        {"ibv_event_type_str", &v->event_type_str},
        {"ibv_port_state_str", &v->port_state_str},
    };
    return fabric_library_open(LIBRARY, symbols, (int)(sizeof symbols / sizeof *symbols), REMEDY, reason, size);
}

const verbs_lib_t *verbs_lib_open(char *reason, size_t size)
{
    static fabric_library_t library = FABRIC_LIBRARY;
    static verbs_lib_t lib;
    return fabric_library_use(&library, verbs_library_open, &lib, reason, size) ? &lib : NULL;
}
