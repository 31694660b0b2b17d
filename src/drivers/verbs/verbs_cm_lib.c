/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/verbs/verbs_cm_lib.h"

#include "drivers/fabric/handlers.h"

#define LIBRARY "librdmacm.so.1"
#define REMEDY "install librdmacm of rdma-core 32 or later"

static bool cm_library_open(void *arg, char *reason, size_t size)
{
    verbs_cm_lib_t *c = arg;
    const fabric_symbol_t symbols[] = {
        {"rdma_create_event_channel", &c->create_event_channel},
        {"rdma_destroy_event_channel", &c->destroy_event_channel},
        {"rdma_create_id", &c->create_id},
        {"rdma_destroy_id", &c->destroy_id},
        {"rdma_bind_addr", &c->bind_addr},
        {"rdma_listen", &c->listen},
        {"rdma_get_src_port", &c->get_src_port},
        {"rdma_resolve_addr", &c->resolve_addr},
        {"rdma_resolve_route", &c->resolve_route},
        {"rdma_connect", &c->connect},
        {"rdma_accept", &c->accept},
        {"rdma_reject", &c->reject},
        {"rdma_establish", &c->establish},
        {"rdma_init_qp_attr", &c->init_qp_attr},
        {"rdma_get_cm_event", &c->get_cm_event},
        {"rdma_ack_cm_event", &c->ack_cm_event},
        {"rdma_event_str", &c->event_str},
    };
    return fabric_library_open(LIBRARY, symbols, (int)(sizeof symbols / sizeof *symbols), REMEDY, reason, size);
}

const verbs_cm_lib_t *verbs_cm_lib_open(char *reason, size_t size)
{
    static fabric_library_t library = FABRIC_LIBRARY;
    static verbs_cm_lib_t lib;
    return fabric_library_use(&library, cm_library_open, &lib, reason, size) ? &lib : NULL;
}
