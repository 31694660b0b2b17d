/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: the table, and adapters. */
#include "drivers/ofi/ofi.h"

#include "base/log.h"
#include "base/random.h"
#include "core/module.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_BLIND INT64_C(20000000) /* ns between two polls of a queue without a descriptor: it may hold a handshake */
#define LOOKS 4        /* polls for a packet in one take.  rationale.md, "How does the driver ofi use libfabric?" */
#define NAMES_TRIED 16 /* maximum number of endpoints that are tried while their names are in use */

static void caps_set(ofi_adapter_t *a)
{
    bool memory = !strncmp(a->info->fabric_attr->prov_name, "shm", 3);
    a->base.looks = memory ? LOOKS : 1; /* elsewhere a look may be a system call */
    /* ofi_rxd of libfabric 1.17 loses a message of several datagrams if more of them are in flight, in one of a thousand
     * cases.  An injected message is one datagram. */
    a->max_copies = strstr(a->info->fabric_attr->prov_name, ";ofi_rxd") ? 1 : OFI_COPIES;
    a->base.adapter.caps =
        (madi_caps_t){.host = ofi_fabric_is_local(a->info->fabric_attr->prov_name, a->info->fabric_attr->name),
                      .packet_max = OFI_PACKET_MAX,
                      .chunk_max = MADI_OFI_CHUNK_MAX,
                      .rdv_min = MADI_OFI_GRANT_MIN,
                      .cont_min = MADI_OFI_CONT_MIN,
                      .rdv_eager = MADI_OFI_EAGER,
                      .gather_max = OFI_GATHER,
                      .latency_us = memory ? 0.5 : 9,
                      .bandwidth_MBs = memory ? 8000 : 4000,
                      .rank = memory ? 40 : 60}; /* in shared memory: after the driver shm; else after tcp */
}

/* Make an object of libfabric; report its failure. */
static bool is_made(const ofi_adapter_t *a, const char *what, int rc, char *reason)
{
    if (rc)
        snprintf(reason, MADI_REASON_MAX, "%.40s of %.47s: %.60s", what, a->base.adapter.name, a->lib->strerror(-rc));
    return !rc;
}

static bool queue_open(ofi_adapter_t *a, char *reason)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    bool wakes = strcmp(a->info->fabric_attr->prov_name, OFI_SOCKETS) != 0;
    int rc = wakes ? fi_cq_open(a->domain, &attr, &a->cq, NULL) : -FI_ENOSYS;
    if (rc) { /* the provider's queue has no descriptor, or one that reports nothing */
        attr.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(a->domain, &attr, &a->cq, NULL);
    } else {
        int fd = -1;
        if (!fi_control(&a->cq->fid, FI_GETWAIT, &fd) && fd >= 0)
            a->cq_watch.fd = fd;
    }
    return is_made(a, "a completion queue", rc, reason);
}

/* Make an endpoint, and start it.  On failure the endpoint, if there is one, stays in a->ep, but ofi_rxm of libfabric 1.17
 * crashes when it closes an endpoint without addresses: that one is left open.  Return 0 or a negative error; *what: the
 * step that failed. */
static int endpoint_start(ofi_adapter_t *a, const char **what)
{
    *what = "an endpoint";
    int rc = fi_endpoint(a->domain, a->info, &a->ep, NULL);
    if (rc)
        return rc;
    *what = "the addresses of an endpoint";
    rc = fi_ep_bind(a->ep, &a->av->fid, 0);
    if (rc) {
        a->ep = NULL;
        return rc;
    }
    *what = "the queue of an endpoint";
    rc = fi_ep_bind(a->ep, &a->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc)
        return rc;
    *what = "the start of an endpoint";
    return fi_enable(a->ep);
}

/* Like endpoint_start, but try further endpoints while the names of the first ones are in use.  The provider shm names
 * an endpoint after the process's number and the endpoint's; a process of the same number that was killed has left such
 * names, and so may one of another namespace of processes. */
static bool endpoint_start_named(ofi_adapter_t *a, char *reason)
{
    const char *what;
    int rc = endpoint_start(a, &what);
    for (int i = 1; rc == -FI_EBUSY && a->ep && i < NAMES_TRIED; i++) {
        ofi_released(a, fi_close(&a->ep->fid), "an endpoint");
        a->ep = NULL;
        rc = endpoint_start(a, &what);
    }
    return is_made(a, what, rc, reason);
}

static bool endpoint_open(ofi_adapter_t *a, char *reason)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    a->name_len = OFI_NAME_BYTES;
    return is_made(a, "a fabric", a->lib->fabric(a->info->fabric_attr, &a->fabric, NULL), reason) &&
           is_made(a, "a domain", fi_domain(a->fabric, a->info, &a->domain, NULL), reason) && queue_open(a, reason) &&
           is_made(a, "an address vector", fi_av_open(a->domain, &av, &a->av, NULL), reason) &&
           endpoint_start_named(a, reason) &&
           is_made(a, "the address of an endpoint", fi_getname(&a->ep->fid, a->base.adapter.address, &a->name_len), reason);
}

static mad_status_t ofi_open(madi_adapter_t *adapter, char *reason)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    char host[32];
    mad_status_t status;
    a->base.ops = &ofi_ops;
    a->lib = ofi_lib_open(reason, MADI_REASON_MAX);
    if (!a->lib || !fabric_space_text("net", host, sizeof host, reason))
        return MAD_ERR_SYSTEM;
    a->info = ofi_info_find(a->lib, adapter->name, reason);
    if (!a->info || !endpoint_open(a, reason))
        return MAD_ERR_SYSTEM;
    adapter->address_len = a->name_len;
    ofi_network_name(a->info->fabric_attr->prov_name, a->info->fabric_attr->name, host, adapter->network);
    a->inject_max = a->info->tx_attr->inject_size < OFI_INJECT_MAX ? a->info->tx_attr->inject_size : OFI_INJECT_MAX;
    if (!madi_random(&a->key_seed, sizeof a->key_seed))
        return MAD_ERR_SYSTEM;
    a->memory = ofi_memory_mode(a->info->domain_attr->mr_mode, a->info->domain_attr->mr_key_size);
    caps_set(a);
    ofi_device_name(a->info, adapter->device);
    fabric_heat(&a->base.heat);
    status = ofi_buffers_open(a, reason);
    if (!status)
        status = ofi_copies_open(a, reason);
    if (!status)
        status = ofi_wait_open(a, reason);
    return status ? status : fabric_control_open(&a->base, a->cq_watch.fd > 0 ? FABRIC_TICK_NS : TICK_BLIND, reason);
}

static void ofi_close(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    ofi_wait_close(a);
    fabric_tick_close(adapter->session, &a->base.tick);
    ofi_later_fini(a);
}

void ofi_released(const ofi_adapter_t *a, int rc, const char *what)
{
    if (rc)
        madi_log(MADI_LOG_WARN, "ofi", "%s: libfabric does not release %s: %s", a->base.adapter.name, what,
                 a->lib->strerror(-rc));
}

static void fid_close(const ofi_adapter_t *a, struct fid *fid, const char *what)
{
    if (fid)
        ofi_released(a, fi_close(fid), what);
}

static void ofi_fini(madi_adapter_t *adapter)
{
    ofi_adapter_t *a = (ofi_adapter_t *)adapter;
    ofi_close(adapter);
    fid_close(a, a->ep ? &a->ep->fid : NULL, "an endpoint");
    while (a->peers) {
        a->peers->uses = 1;
        ofi_peer_drop(a, a->peers);
    }
    fid_close(a, a->av ? &a->av->fid : NULL, "an address vector");
    fid_close(a, a->cq ? &a->cq->fid : NULL, "a completion queue");
    ofi_bodies_fini(a);
    ofi_buffers_fini(a);
    ofi_send_fini(a);
    ofi_released(a, a->memory_error, "registered memory");
    fid_close(a, a->domain ? &a->domain->fid : NULL, "a domain");
    fid_close(a, a->fabric ? &a->fabric->fid : NULL, "a fabric");
    if (a->info)
        a->lib->freeinfo(a->info);
    fabric_table_fini(&a->base.links);
    free(a->stash);
    a->ep = NULL, a->av = NULL, a->cq = NULL, a->domain = NULL, a->fabric = NULL, a->info = NULL, a->stash = NULL;
}

const madi_driver_t madi_driver_ofi = {
    .abi = MADI_DRIVER_ABI,
    .name = "ofi",
    .apart = "give both a provider and a fabric in common: fi_info lists them",
    .adapter_size = sizeof(ofi_adapter_t),
    .link_size = sizeof(ofi_link_t),
    .on_request = true,
    .probe = ofi_probe,
    .open = ofi_open,
    .close = ofi_close,
    .fini = ofi_fini,
    .connect = fabric_link_connect,
    .start = fabric_link_start,
    .send = ofi_send,
    .poll = ofi_poll,
    .link_close = ofi_link_close,
    .link_fini = ofi_link_fini,
    .reach = {.secure = fabric_secure},
    .frames = {.frame_send = ofi_frame_send,
               .frame_answer = ofi_frame_answer,
               .accept = fabric_link_accept,
               .describe = fabric_link_describe},
    .wait = {.pure_poll = fabric_pure_poll, .arm = ofi_arm, .disarm = ofi_disarm},
    .fast = {.send_short = ofi_send_short, .take = ofi_take, .slot_put = ofi_slot_put},
    .live = {.drained = fabric_drained},
};

MADI_MODULE(madi_driver_ofi)
