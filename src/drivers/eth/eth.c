/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: the table, and adapters. */
#include "drivers/eth/eth.h"

#include "core/module.h"
#include <stdio.h>
#include <string.h>

static void eth_caps_set(eth_adapter_t *a)
{
    a->base.caps = (madi_caps_t){.packet_max = ETH_PACKET_MAX,
                                 .chunk_max = MADI_ETH_CHUNK_MAX,
                                 .rdv_min = MADI_ETH_GRANT_MIN,
                                 .cont_min = MADI_ETH_CONT_MIN,
                                 .rdv_eager = MADI_ETH_EAGER,
                                 .gather_max = ETH_GATHER,
                                 .latency_us = 5,
                                 .bandwidth_MBs = 1100,
                                 .rank = 49}; /* after fabrics, before tcp on a real interface */
    a->base.frame_max = eth_frame_max(a);
}

static mad_status_t eth_open(madi_adapter_t *adapter, char *reason)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    mad_status_t status = eth_interface_find(a, reason);
    if (!status)
        status = eth_sockets_open(a, reason);
    if (!status)
        status = eth_wait_open(a, reason);
    if (status)
        return status;
    eth_caps_set(a);
    memcpy(adapter->device, adapter->name, sizeof adapter->device);
    adapter->address_len = sizeof a->self;
    memcpy(adapter->address, &a->self, sizeof a->self);
    return MAD_OK;
}

static bool eth_reachable(madi_adapter_t *adapter, const void *addr, size_t len, char *reason)
{
    const eth_adapter_t *a = (eth_adapter_t *)adapter;
    if (len != sizeof a->self || memcmp(addr, a->self.mac, ETH_MAC) != 0)
        return true; /* eth_connect checks the rest */
    snprintf(reason, MADI_REASON_MAX,
             "the peer uses %.40s too, and Ethernet returns no frames to their sender: use shm or tcp", adapter->name);
    return false;
}

static mad_status_t eth_secure(madi_adapter_t *adapter, int given, char *reason)
{
    if (given == MADI_SECURITY_SEAL) {
        snprintf(reason, MADI_REASON_MAX,
                 "networks of eth cannot be sealed: give network %s security auth in the topology file", adapter->network);
        return MAD_ERR_CONFIG;
    }
    if (given >= 0)
        adapter->security = (uint8_t)given;
    return MAD_OK;
}

static void eth_close(madi_adapter_t *adapter)
{
    eth_wait_close((eth_adapter_t *)adapter);
}

static void eth_fini(madi_adapter_t *adapter)
{
    eth_adapter_t *a = (eth_adapter_t *)adapter;
    eth_close(adapter);
    eth_wait_fini(a);
    eth_sockets_fini(a);
    fabric_table_fini(&a->links);
}

const madi_driver_t madi_driver_eth = {
    .abi = MADI_DRIVER_ABI,
    .name = "eth",
    .apart = "connect both to one Ethernet segment, and give both interfaces the same IPv4 subnet or MAD_ETH_NETWORK",
    .adapter_size = sizeof(eth_adapter_t),
    .link_size = sizeof(eth_link_t),
    .on_request = true,
    .probe = eth_probe,
    .open = eth_open,
    .close = eth_close,
    .fini = eth_fini,
    .connect = eth_connect,
    .start = eth_start,
    .send = eth_send,
    .poll = eth_poll,
    .link_close = eth_link_close,
    .link_fini = eth_link_fini,
    .reach = {.reachable = eth_reachable, .secure = eth_secure},
    .frames = {.frame_send = eth_frame_send,
               .frame_answer = eth_frame_answer,
               .accept = eth_accept,
               .describe = eth_describe,
               .source_host = ETH_MAC},
    .wait = {.pure_poll = eth_pure_poll, .arm = eth_arm},
    .fast = {.take = eth_take},
    .live = {.drained = eth_drained, .acknowledge = eth_acknowledge},
};

MADI_MODULE(madi_driver_eth)
