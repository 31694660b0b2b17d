/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: the library libibverbs, opened at run time.  Calls that post work or poll go straight to the device's provider,
 * by inline functions of infiniband/verbs.h; all others go through this table. */
#ifndef VERBS_LIB_H
#define VERBS_LIB_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* The functions of libibverbs, without their prefix ibv_. */
typedef struct verbs_lib {
    struct ibv_device **(*get_device_list)(int *n);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*device_query)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*port_query)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*gid_query)(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
                     size_t entry_size);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t len, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *arg, struct ibv_comp_channel *channel,
                                int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
    struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
    int (*destroy_srq)(struct ibv_srq *srq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    const char *(*event_type_str)(enum ibv_event_type event);
    const char *(*port_state_str)(enum ibv_port_state state);
} verbs_lib_t;

/* Return the table; NULL with the reason (size bytes) if the library is missing, or lacks a function. */
const verbs_lib_t *verbs_lib_open(char *reason, size_t size);

#endif
