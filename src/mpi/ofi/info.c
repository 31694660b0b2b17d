/* SPDX-License-Identifier: BSD-3-Clause */
/* fi_getinfo: the offer, and whether it meets the hints.  Hints that cannot be met are refused here. */
#include "ofi.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCESS (FI_RMA | FI_ATOMIC)
#define PRIMARY (FI_MSG | FI_TAGGED | ACCESS)
#define SENDING (FI_SEND | FI_READ | FI_WRITE)
#define SERVING (FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT)
#define RECEIVING (FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | SERVING)
#define REACH (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define CAPS (PRIMARY | SENDING | RECEIVING | REACH)
/* Flags of operations that some programs request as capabilities of a domain or endpoint.  These operations are always
 * available. */
#define ALWAYS FI_REMOTE_CQ_DATA

#define PROTOCOL (MAD_OFI_PROV_SPECIFIC | 0x6d6164)
#define FORMAT (MAD_OFI_PROV_SPECIFIC | 0x6d6164)
#define TAG_FORMAT UINT64_C(0xaaaaaaaaaaaaaaaa) /* all bits as one field */
/* Ordering: short accesses are made in the order in which they arrive. */
#define ORDER \
    (FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | \
     FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | \
     FI_ORDER_ATOMIC_WAW)
/* number of queues, counters and endpoints that fi_getinfo reports; there is no limit, and more is offered if the hints
 * request more */
#define COUNT 1024

/* ---- Hints -------------------------------------------------------------------------------------------------------- */

static bool info_refuse(const char *what)
{
    FI_INFO(&mad_ofi_provider, FI_LOG_CORE, "not offered: %s\n", what);
    return false;
}

static bool fabric_fits(const struct fi_fabric_attr *a)
{
    return !a || !a->name || !strcmp(a->name, "mad") || info_refuse("a fabric of this name");
}

static bool domain_fits(const struct fi_domain_attr *a)
{
    if (!a)
        return true;
    if (a->name && strcmp(a->name, "mad"))
        return info_refuse("a domain of this name");
    if (a->cq_data_size > 8)
        return info_refuse("this much data with each message");
    if (a->caps & ~(uint64_t)(REACH | ALWAYS))
        return info_refuse("these capabilities of a domain");
    if (a->auth_key_size)
        return info_refuse("authorization keys");
    if (a->max_ep_tx_ctx > 1 || a->max_ep_rx_ctx > 1 || a->max_ep_stx_ctx || a->max_ep_srx_ctx)
        return info_refuse("several, or shared, contexts of an endpoint");
    if (a->mr_iov_limit > 1 || a->mr_key_size > 8)
        return info_refuse("such registered memory");
    return true;
}

static bool ep_fits(const struct fi_ep_attr *a)
{
    if (!a)
        return true;
    if (a->type != FI_EP_UNSPEC && a->type != FI_EP_RDM)
        return info_refuse("this type of endpoints");
    if (a->protocol != FI_PROTO_UNSPEC && a->protocol != PROTOCOL)
        return info_refuse("this protocol");
    if (a->max_msg_size > MAD_OFI_MESSAGE_MAX)
        return info_refuse("messages of this length");
    if (a->max_order_raw_size > MAD_DEV_ORDERED || a->max_order_war_size > MAD_DEV_ORDERED ||
        a->max_order_waw_size > MAD_DEV_ORDERED)
        return info_refuse("this order of accesses");
    if (a->tx_ctx_cnt > 1 || a->rx_ctx_cnt > 1)
        return info_refuse("several, or shared, contexts of an endpoint");
    return !a->auth_key_size || info_refuse("authorization keys");
}

static bool tx_fits(const struct fi_tx_attr *a)
{
    if (!a)
        return true;
    if (a->caps & ~(uint64_t)(PRIMARY | SENDING | REACH | ALWAYS))
        return info_refuse("these capabilities of sending");
    if (a->op_flags & ~(uint64_t)(MAD_OFI_SEND_FLAGS | FI_REMOTE_CQ_DATA))
        return info_refuse("these flags of sends");
    if (a->msg_order & ~(uint64_t)ORDER || a->comp_order)
        return info_refuse("this order");
    if (a->inject_size > MAD_OFI_INJECT || a->size > MAD_OFI_DEPTH || a->iov_limit > MAD_DEV_PIECES ||
        a->rma_iov_limit > MAD_DEV_PIECES)
        return info_refuse("these limits of sends");
    return true;
}

static bool rx_fits(const struct fi_rx_attr *a)
{
    if (!a)
        return true;
    if (a->caps & ~(uint64_t)(PRIMARY | RECEIVING | REACH | ALWAYS))
        return info_refuse("these capabilities of receiving");
    if (a->op_flags & ~(uint64_t)MAD_OFI_RECEIVE_FLAGS)
        return info_refuse("these flags of receives");
    if (a->msg_order & ~(uint64_t)ORDER || a->comp_order)
        return info_refuse("this order");
    if (a->size > MAD_OFI_DEPTH || a->iov_limit > MAD_DEV_PIECES)
        return info_refuse("these limits of receives");
    return true;
}

static bool source_fits(const struct fi_info *h)
{
    return !h->src_addr || (h->src_addrlen == mad_ofi_name_len() && mad_ofi_name_is_any(h->src_addr));
}

static bool hints_fit(const struct fi_info *h)
{
    if (h->caps & ~(uint64_t)(CAPS | ALWAYS))
        return info_refuse("these capabilities");
    if (h->caps && !(h->caps & PRIMARY))
        return info_refuse("neither messages nor accesses");
    if (h->addr_format != FI_FORMAT_UNSPEC && h->addr_format != FORMAT)
        return info_refuse("this format of addresses");
    if (!source_fits(h) || (h->dest_addr && h->dest_addrlen != mad_ofi_name_len()))
        return info_refuse("this address");
    if (h->handle)
        return info_refuse("connections");
    return fabric_fits(h->fabric_attr) && domain_fits(h->domain_attr) && ep_fits(h->ep_attr) && tx_fits(h->tx_attr) &&
           rx_fits(h->rx_attr);
}

/* ---- Offers ------------------------------------------------------------------------------------------------------- */

/* Return the requested capabilities, and those that cost nothing.  FI_SOURCE is added only if it is requested: it costs
 * nothing, but changes the meaning of calls. */
static uint64_t caps_of(const struct fi_info *h)
{
    uint64_t caps = h && h->caps ? h->caps & ~(uint64_t)ALWAYS : CAPS;
    /* a program that only accesses memory binds no queue for messages */
    if (caps & (FI_MSG | FI_TAGGED) && !(caps & (FI_SEND | FI_RECV)))
        caps |= FI_SEND | FI_RECV;
    if (caps & ACCESS && !(caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
        caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    return caps | REACH;
}

/* Return the mode of registered memory.  No mode is required; a program that knows only the two old modes gets the one
 * that it requests. */
static int memory_mode(int asked, uint32_t version)
{
    if (asked & MAD_OFI_MR_SCALABLE)
        return MAD_OFI_MR_SCALABLE;
    if (asked & MAD_OFI_MR_BASIC)
        return MAD_OFI_MR_BASIC;
    return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? MAD_OFI_MR_SCALABLE : 0;
}

static size_t at_least(size_t least, size_t asked)
{
    return asked > least ? asked : least;
}

static void domain_offer(struct fi_domain_attr *a, const struct fi_domain_attr *h, uint32_t version)
{
    bool asks = h != NULL;
    a->threading = asks && h->threading ? h->threading : FI_THREAD_SAFE;
    a->control_progress = asks && h->control_progress ? h->control_progress : FI_PROGRESS_MANUAL;
    a->data_progress = asks && h->data_progress ? h->data_progress : FI_PROGRESS_MANUAL;
    a->resource_mgmt = FI_RM_ENABLED;
    a->av_type = asks ? h->av_type : FI_AV_UNSPEC;
    a->mr_mode = memory_mode(asks ? h->mr_mode : 0, version);
    a->mr_key_size = sizeof(uint64_t);
    a->mr_iov_limit = 1;
    a->mr_cnt = at_least(MAD_OFI_DEPTH, asks ? h->mr_cnt : 0);
    a->cq_data_size = 8;
    a->cq_cnt = at_least(COUNT, asks ? h->cq_cnt : 0);
    a->ep_cnt = at_least(COUNT, asks ? h->ep_cnt : 0);
    a->tx_ctx_cnt = at_least(COUNT, asks ? h->tx_ctx_cnt : 0);
    a->rx_ctx_cnt = at_least(COUNT, asks ? h->rx_ctx_cnt : 0);
    a->cntr_cnt = at_least(COUNT, asks ? h->cntr_cnt : 0);
    a->max_ep_tx_ctx = a->max_ep_rx_ctx = 1;
    a->caps = REACH;
    a->name = strdup("mad");
}

static void info_offer(struct fi_info *i, const struct fi_info *h, uint32_t version)
{
    i->caps = caps_of(h);
    i->addr_format = FORMAT;
    i->ep_attr->type = FI_EP_RDM;
    i->ep_attr->protocol = PROTOCOL;
    i->ep_attr->protocol_version = 1;
    i->ep_attr->max_msg_size = MAD_OFI_MESSAGE_MAX;
    i->ep_attr->mem_tag_format = h && h->ep_attr && h->ep_attr->mem_tag_format ? h->ep_attr->mem_tag_format : TAG_FORMAT;
    i->ep_attr->max_order_raw_size = i->ep_attr->max_order_war_size = i->ep_attr->max_order_waw_size = MAD_DEV_ORDERED;
    i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
    /* reach (FI_LOCAL_COMM, FI_REMOTE_COMM) is a property of the domain, not of an endpoint (fi_domain(3)) */
    i->tx_attr->caps = i->caps & (PRIMARY | SENDING);
    i->tx_attr->op_flags = h && h->tx_attr ? h->tx_attr->op_flags & MAD_OFI_SEND_FLAGS : 0;
    i->tx_attr->msg_order = i->rx_attr->msg_order = ORDER;
    i->tx_attr->inject_size = MAD_OFI_INJECT;
    i->tx_attr->size = i->rx_attr->size = MAD_OFI_DEPTH;
    i->tx_attr->iov_limit = i->rx_attr->iov_limit = MAD_DEV_PIECES;
    i->tx_attr->rma_iov_limit = MAD_DEV_PIECES;
    i->tx_attr->tclass = h && h->tx_attr ? h->tx_attr->tclass : 0;
    i->rx_attr->caps = i->caps & (PRIMARY | RECEIVING);
    i->rx_attr->op_flags = h && h->rx_attr ? h->rx_attr->op_flags & MAD_OFI_RECEIVE_FLAGS : 0;
    domain_offer(i->domain_attr, h ? h->domain_attr : NULL, version);
    i->fabric_attr->name = strdup("mad"); /* libfabric prefixes the provider's name */
    i->fabric_attr->prov_version = mad_ofi_provider.version;
    i->fabric_attr->api_version = version;
}

static bool addresses_set(struct fi_info *i, const struct fi_info *h)
{
    i->src_addr = calloc(1, mad_ofi_name_len());
    if (!i->src_addr)
        return false;
    i->src_addrlen = mad_ofi_name_len();
    if (!h || !h->dest_addr)
        return true;
    i->dest_addr = malloc(h->dest_addrlen);
    if (!i->dest_addr)
        return false;
    memcpy(i->dest_addr, h->dest_addr, h->dest_addrlen);
    i->dest_addrlen = h->dest_addrlen;
    return true;
}

/* True if node is a name or an address of this host, to which a socket can be bound. */
static bool node_is_here(const char *node, uint64_t flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0}, *all, *one;
    bool here = false;
    if (getaddrinfo(node, NULL, &hints, &all))
        return false;
    for (one = all; one && !here; one = one->ai_next) {
        int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        here = fd >= 0 && !bind(fd, one->ai_addr, one->ai_addrlen);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(all);
    return here;
}

/* True if the node can be served.  A source node must be this host; endpoints use all its networks.  The service
 * is ignored, because names of endpoints have no ports.  A destination is given by its name from fi_getname, not
 * by a node. */
static bool node_fits(const char *node, uint64_t flags)
{
    if (!node)
        return true;
    if (!(flags & FI_SOURCE))
        return info_refuse("destinations by node: names of endpoints come from fi_getname");
    return node_is_here(node, flags) || info_refuse("a source on another host");
}

int mad_ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                    struct fi_info **info)
{
    struct fi_info *i;
    (void)service;
    if (flags & FI_PROV_ATTR_ONLY) {
        hints = NULL;
        node = NULL;
    }
    if (!node_fits(node, flags) || (hints && !hints_fit(hints)))
        return -FI_ENODATA;
    i = fi_allocinfo();
    if (!i)
        return -FI_ENOMEM;
    info_offer(i, hints, version);
    if (!i->domain_attr->name || !i->fabric_attr->name || !addresses_set(i, hints)) {
        fi_freeinfo(i);
        return -FI_ENOMEM;
    }
    *info = i;
    return 0;
}
