/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: which devices become adapters: those that UCX itself would use, so UCX_TLS and UCX_NET_DEVICES choose.  UCX lists
 * them only as a text (ucp_context_print_info).
 *
 * Without any, an adapter is listed that cannot be opened: ucx_open then gives the reason, which the core shows in the log and
 * in mad_info. */
#include "drivers/ucx/ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64
#define NOTHING "UCX" /* name of the adapter that is listed if there is no device; opening it reports why */

/* Restrict UCX to a device, and enable failure reports: without that, transports within a host do not report the end of a
 * peer. */
static ucs_status_t config_restrict(const ucx_lib_t *u, ucp_config_t *config, const ucx_device_t *d)
{
    ucs_status_t status = u->config_modify(config, "TLS", d->tls);
    if (status == UCS_OK && !d->memory)
        status = u->config_modify(config, "NET_DEVICES", d->name);
    if (status == UCS_OK && d->memory)
        status = u->config_modify(config, "MM_ERROR_HANDLING", "y");
    return status;
}

ucs_status_t ucx_context_open(const ucx_lib_t *u, const ucx_device_t *device, ucp_context_h *context)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_config_t *config;
    ucs_status_t status = u->config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return status;
    if (device)
        status = config_restrict(u, config, device);
    if (status == UCS_OK)
        status = u->init(UCP_API_MAJOR, UCP_API_MINOR, &params, config, context);
    u->config_release(config);
    return status;
}

/* List the devices.  Return their number; 0 with the reason. */
static int devices_list(const ucx_lib_t *u, ucx_device_t *devices, char *reason)
{
    ucp_context_h context;
    char *text = NULL, *rest = NULL;
    size_t len;
    int n = 0;
    ucs_status_t status = ucx_context_open(u, NULL, &context);
    if (status != UCS_OK) {
        snprintf(reason, MADI_REASON_MAX, "UCX cannot be opened: %.60s (see UCX_TLS, UCX_NET_DEVICES)",
                 u->status_string(status));
        return 0;
    }
    FILE *f = open_memstream(&text, &len);
    if (f) {
        u->context_print_info(context, f);
        fclose(f);
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            ucx_device_add(devices, &n, DEVICES_MAX, line);
    }
    free(text);
    u->cleanup(context);
    if (!n)
        snprintf(reason, MADI_REASON_MAX, "UCX offers no transport between processes here (see UCX_TLS, ucx_info -d)");
    return n;
}

mad_status_t ucx_probe(const madi_driver_t *driver, struct mad_session *session)
{
    char reason[MADI_REASON_MAX];
    const ucx_lib_t *u = ucx_lib_open(reason, sizeof reason);
    ucx_device_t *devices = calloc(DEVICES_MAX, sizeof *devices);
    int n = devices && u ? devices_list(u, devices, reason) : 0;
    bool listed = devices != NULL;
    for (int i = 0; i < n && listed; i++)
        listed = madi_adapter_found(session, driver, devices[i].name);
    if (!n && listed)
        listed = madi_adapter_found(session, driver, NOTHING);
    free(devices);
    return listed ? MAD_OK : MAD_ERR_NOMEM;
}

bool ucx_device_find(const ucx_lib_t *u, const char *name, ucx_device_t *device, char *reason)
{
    ucx_device_t *devices = calloc(DEVICES_MAX, sizeof *devices);
    bool found = false;
    int n;
    if (!devices) {
        snprintf(reason, MADI_REASON_MAX, "no memory for the list of devices");
        return false;
    }
    n = devices_list(u, devices, reason);
    for (int i = 0; i < n && !found; i++) {
        found = !strcmp(devices[i].name, name);
        if (found)
            *device = devices[i];
    }
    if (n && !found)
        snprintf(reason, MADI_REASON_MAX, "UCX does not offer device %s any more", name);
    free(devices);
    return found;
}
