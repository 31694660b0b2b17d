/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: the table, and adapters. */
#include "drivers/verbs/verbs.h"

#include "base/log.h"
#include "base/own.h"
#include "core/module.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INLINE_MAX 256 /* bytes: longest message that the processor copies to the device, if the device can do that */
#define SLOTS_MAX 8192 /* maximum number of entries of the receive queue */
#define READS_MAX 16   /* RDMA reads at once */
#define PORT_MIN 1024  /* lowest port that a process without privileges may use */

static int at_most(int n, int limit)
{
    return n < limit ? n : limit;
}

static bool part_made(const verbs_adapter_t *a, const void *part, const char *what, char *reason)
{
    if (!part)
        snprintf(reason, MADI_REASON_MAX, "%.40s of %.47s: %s%s", what, a->base.adapter.name, strerror(errno),
                 madi_remedy(errno));
    return part;
}

/* Make the completion queue and the receive queue, which all links share. */
static bool queues_open(verbs_adapter_t *a, char *reason)
{
    struct ibv_device_attr attr;
    memset(&attr, 0, sizeof attr);
    int rc = a->lib->device_query(a->context, &attr);
    if (rc) {
        snprintf(reason, MADI_REASON_MAX, "the limits of %.40s cannot be read: %s", a->base.adapter.name, strerror(rc));
        return false;
    }
    a->reads = at_most(at_most(attr.max_qp_rd_atom, attr.max_qp_init_rd_atom), READS_MAX);
    a->srq_max = at_most(attr.max_srq_wr, SLOTS_MAX);
    a->inline_max = INLINE_MAX;
    if (a->reads < 1 || a->srq_max < VERBS_WINDOW + VERBS_REPOST) {
        snprintf(reason, MADI_REASON_MAX, "%.40s has no RDMA reads, or no shared receive queues", a->base.adapter.name);
        return false;
    }
    a->pd = a->lib->alloc_pd(a->context);
    if (!part_made(a, a->pd, "a protection domain", reason))
        return false;
    verbs_memory_open(a);
    a->channel = a->lib->create_comp_channel(a->context);
    if (!part_made(a, a->channel, "a completion channel", reason))
        return false;
    a->entries = at_most(attr.max_cqe, VERBS_ENTRIES);
    a->taken = VERBS_REPOST; /* entries for slots that are posted in addition to the slots of links */
    a->cq = a->lib->create_cq(a->context, a->entries, NULL, a->channel, 0);
    if (!part_made(a, a->cq, "a completion queue", reason))
        return false;
    a->srq = a->lib->create_srq(a->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = (uint32_t)a->srq_max, .max_sge = 1}});
    return part_made(a, a->srq, "a shared receive queue", reason) && verbs_slots_want(a, VERBS_REPOST, reason);
}

/* Listen for connections at the IP address of the device's port. */
static bool socket_listen(verbs_adapter_t *a, char *reason)
{
    struct sockaddr_storage at = a->port.self;
    socklen_t len = at.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int s = madi_fd_own(socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    a->base.adapter.listen_fd = s;
    if (s < 0 || bind(s, (struct sockaddr *)&at, len) || listen(s, SOMAXCONN) ||
        getsockname(s, (struct sockaddr *)&at, &len)) {
        snprintf(reason, MADI_REASON_MAX, "no socket for connections of %.40s: %s%s", a->base.adapter.name, strerror(errno),
                 madi_remedy(errno));
        return false;
    }
    a->base.adapter.address_len = verbs_address_put(&at, a->base.adapter.address);
    return true;
}

static mad_status_t verbs_open(madi_adapter_t *adapter, char *reason)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    a->base.ops = &verbs_ops;
    adapter->listen_fd = -1;
    a->lib = verbs_lib_open(reason, MADI_REASON_MAX);
    if (!a->lib || !verbs_port_open(a, reason))
        return MAD_ERR_SYSTEM;
    if (!verbs_network_name(&a->port, adapter->network)) {
        snprintf(reason, MADI_REASON_MAX, "the network of %.40s has a name that is too long", adapter->name);
        return MAD_ERR_SYSTEM;
    }
    if (!queues_open(a, reason) || !socket_listen(a, reason) || !verbs_cm_open(a, reason))
        return MAD_ERR_SYSTEM;
    adapter->caps = (madi_caps_t){.packet_max = VERBS_PACKET_MAX,
                                  .chunk_max = MADI_VERBS_CHUNK_MAX,
                                  .rdv_min = MADI_VERBS_GRANT_MIN,
                                  .cont_min = MADI_VERBS_CONT_MIN,
                                  .rdv_eager = MADI_VERBS_EAGER,
                                  .gather_max = VERBS_GATHER,
                                  .latency_us = 2,
                                  .bandwidth_MBs = 10000,
                                  .rank = 42}; /* after shm, before tcp */
    fabric_heat(&a->base.heat);
    return verbs_wait_open(a, reason);
}

/* True if the address, which may be forged, lies in the port's subnet. */
static bool verbs_within(madi_adapter_t *adapter, const void *addr, size_t len)
{
    const verbs_port_t *port = &((verbs_adapter_t *)adapter)->port;
    const unsigned char *bytes = addr;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    unsigned char masked[16];
    size_t ip_len;
    if (!verbs_address_get(addr, len, &peer, &peer_len) || (bytes[1] | bytes[2] << 8) < PORT_MIN)
        return false;
    const unsigned char *ip = verbs_ip(&peer, &ip_len);
    memcpy(masked, ip, ip_len);
    verbs_subnet_mask(masked, ip_len, port->prefix);
    return ip_len == port->ip_len && !memcmp(masked, port->subnet, ip_len);
}

static void verbs_close(madi_adapter_t *adapter)
{
    verbs_wait_close((verbs_adapter_t *)adapter);
    if (adapter->listen_fd >= 0)
        madi_fd_close(adapter->listen_fd);
    adapter->listen_fd = -1;
    verbs_cm_close((verbs_adapter_t *)adapter);
}

bool verbs_released(const verbs_adapter_t *a, int rc, const char *what)
{
    if (rc)
        madi_log(MADI_LOG_WARN, "verbs", "%s: the device does not release %s: %s", a->base.adapter.name, what, strerror(rc));
    return !rc;
}

/* Release all objects of the adapter.  An object that cannot be released is logged, and lasts until the process ends.
 * Memory is freed only if it is not registered any more. */
static void verbs_fini(madi_adapter_t *adapter)
{
    verbs_adapter_t *a = (verbs_adapter_t *)adapter;
    verbs_close(adapter);
    verbs_cm_fini(a);
    if (a->srq)
        verbs_released(a, a->lib->destroy_srq(a->srq), "the shared receive queue");
    if (a->cq)
        verbs_released(a, a->lib->destroy_cq(a->cq), "the completion queue");
    if (a->channel)
        verbs_released(a, a->lib->destroy_comp_channel(a->channel), "the completion channel");
    verbs_slots_fini(a);
    fabric_registrations_fini(&a->memory);
    if (a->pd)
        verbs_released(a, a->lib->dealloc_pd(a->pd), "the protection domain");
    if (a->context)
        verbs_released(a, a->lib->close_device(a->context) ? errno : 0, "its context");
    fabric_table_fini(&a->base.links);
    a->srq = NULL, a->cq = NULL, a->channel = NULL, a->pd = NULL, a->context = NULL;
}

const madi_driver_t madi_driver_verbs = {
    .abi = MADI_DRIVER_ABI,
    .name = "verbs",
    .apart = "give both an RDMA device of the same kind in a common IP subnet: ibv_devinfo -v lists their GIDs",
    .adapter_size = sizeof(verbs_adapter_t),
    .link_size = sizeof(verbs_link_t),
    .on_request = true,
    .probe = verbs_probe,
    .open = verbs_open,
    .close = verbs_close,
    .fini = verbs_fini,
    .connect = verbs_connect,
    .start = verbs_start,
    .send = verbs_send,
    .poll = verbs_poll,
    .link_close = verbs_link_close,
    .link_fini = verbs_link_fini,
    .reach = {.within = verbs_within, .secure = fabric_secure},
    .wait = {.pure_poll = fabric_pure_poll, .arm = verbs_arm},
    .fast = {.take = verbs_take, .slot_put = verbs_slot_put},
    .live = {.drained = verbs_drained},
};

MADI_MODULE(madi_driver_verbs)
