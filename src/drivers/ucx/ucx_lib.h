/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: the library libucp.  The driver opens it itself instead of being linked with it: libucs installs signal handlers when
 * it is loaded, which have to be undone, and a program without it has to get a reason. */
#ifndef UCX_LIB_H
#define UCX_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <ucp/api/ucp.h>

/* The functions of libucp that the driver calls, by their names there. */
typedef struct ucx_lib {
    void (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    ucs_status_t (*config_read)(const char *prefix, const char *file, ucp_config_t **config);
    ucs_status_t (*config_modify)(ucp_config_t *config, const char *name, const char *value);
    void (*config_release)(ucp_config_t *config);
    ucs_status_t (*init)(unsigned major, unsigned minor, const ucp_params_t *params, const ucp_config_t *config,
                         ucp_context_h *context); /* ucp_init_version */
    void (*cleanup)(ucp_context_h context);
    void (*context_print_info)(ucp_context_h context, FILE *stream);
    ucs_status_t (*worker_create)(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker);
    void (*worker_destroy)(ucp_worker_h worker);
    ucs_status_t (*worker_get_address)(ucp_worker_h worker, ucp_address_t **address, size_t *len);
    void (*worker_release_address)(ucp_worker_h worker, ucp_address_t *address);
    ucs_status_t (*worker_get_efd)(ucp_worker_h worker, int *fd);
    ucs_status_t (*worker_arm)(ucp_worker_h worker);
    unsigned (*worker_progress)(ucp_worker_h worker);
    ucs_status_t (*worker_set_am_recv_handler)(ucp_worker_h worker, const ucp_am_handler_param_t *param);
    ucs_status_t (*ep_create)(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep);
    ucs_status_ptr_t (*ep_close)(ucp_ep_h ep, const ucp_request_param_t *param);
    ucs_status_ptr_t (*am_send)(ucp_ep_h ep, unsigned id, const void *header, size_t header_len, const void *buffer,
                                size_t count, const ucp_request_param_t *param);
    ucs_status_ptr_t (*am_recv_data)(ucp_worker_h worker, void *desc, void *buffer, size_t count,
                                     const ucp_request_param_t *param);
    void (*am_data_release)(ucp_worker_h worker, void *data);
    void (*request_free)(void *request);
    const char *(*status_string)(ucs_status_t status); /* libucs */
} ucx_lib_t;

/* Open the library, at the first call.  On failure return NULL, and write the reason (size bytes) if it is missing, or
 * too old.  The library stays open.  Called by probe and open only. */
const ucx_lib_t *ucx_lib_open(char *reason, size_t size);

#endif
