/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: the library librdmacm, opened at run time, and only where it has to connect queue pairs. */
#ifndef VERBS_CM_LIB_H
#define VERBS_CM_LIB_H

#include <rdma/rdma_cma.h>
#include <stddef.h>

/* The functions of librdmacm, without their prefix rdma_. */
typedef struct verbs_cm_lib {
    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context, enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    __be16 (*get_src_port)(struct rdma_cm_id *id);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
    int (*establish)(struct rdma_cm_id *id);
    int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);
    const char *(*event_str)(enum rdma_cm_event_type event);
} verbs_cm_lib_t;

/* Return the table; NULL with the reason (size bytes) if the library is missing, or lacks a function. */
const verbs_cm_lib_t *verbs_cm_lib_open(char *reason, size_t size);

#endif
