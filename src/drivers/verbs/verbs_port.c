/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: which ports of which devices become adapters.
 *
 * RoCE: each GID of version 2 that is the address of an interface of this network namespace, one for each IP subnet.  The
 * first one is the adapter DEVICE:PORT, the others are DEVICE:PORT.GID.  InfiniBand: the port, with the address of its IP
 * interface (IPoIB), through which the sockets go.  iWARP: each address of an interface that rdma_cm finds at the port, one for
 * each IP subnet; the numbers in the names count them.  A port that cannot be used is an adapter, too: its open says why. */
#include "drivers/verbs/verbs.h"

#include "base/knob.h"
#include "base/log.h"
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_DEVICE "libibverbs" /* name of the adapter that reports why there is no other */
#define ARPHRD_IB 32           /* type of an IPoIB interface in sysfs */
#define GIDS_MAX 256           /* a queue pair names a GID of this side by 8 bits */

/* ---- Addresses of this host ------------------------------------------------------------------------------------------ */

static int mask_prefix(const struct sockaddr *mask, size_t len)
{
    struct sockaddr_storage copy = {0};
    int prefix = 0;
    memcpy(&copy, mask, len == 16 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    const unsigned char *ip = verbs_ip(&copy, &len);
    for (size_t i = 0; i < len; i++)
        prefix += __builtin_popcount(ip[i]);
    return prefix;
}

/* Take the address of an interface as that of the socket.  Return false if other hosts cannot reach this address. */
static bool port_place(verbs_port_t *port, const struct ifaddrs *i)
{
    bool v6 = i->ifa_addr->sa_family == AF_INET6;
    memset(&port->self, 0, sizeof port->self);
    memcpy(&port->self, i->ifa_addr, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (v6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)&port->self)->sin6_addr))
        return false;
    const unsigned char *ip = verbs_ip(&port->self, &port->ip_len);
    port->prefix = i->ifa_netmask ? mask_prefix(i->ifa_netmask, port->ip_len) : (int)port->ip_len * 8;
    memcpy(port->subnet, ip, port->ip_len);
    verbs_subnet_mask(port->subnet, port->ip_len, port->prefix);
    return true;
}

/* Find the interface whose address is the port's GID; or, if ifname is given, the first address of that interface. */
static bool port_interface(verbs_port_t *port, const struct ifaddrs *all, const char *ifname)
{
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_storage at = {0};
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        memcpy(&at, i->ifa_addr, family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
        if ((ifname ? !strcmp(i->ifa_name, ifname) : verbs_gid_is(port->gid.raw, &at)) && port_place(port, i))
            return true;
    }
    return false;
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------ */

static int sysfs_number(const char *ifname, const char *what)
{
    char path[128];
    int number = -1;
    snprintf(path, sizeof path, "/sys/class/net/%.32s/%s", ifname, what);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    if (fscanf(f, "%i", &number) != 1)
        number = -1;
    fclose(f);
    return number;
}

/* Find the IP interface of a port of InfiniBand. */
static bool ipoib_find(verbs_port_t *port, const char *device, const struct ifaddrs *all)
{
    char path[128];
    bool found = false;
    snprintf(path, sizeof path, "/sys/class/infiniband/%.64s/device/net", device);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        int number = sysfs_number(e->d_name, "dev_port");
        found = sysfs_number(e->d_name, "type") == ARPHRD_IB && number + 1 == port->number &&
                port_interface(port, all, e->d_name);
    }
    closedir(dir);
    return found;
}

/* ---- Ports --------------------------------------------------------------------------------------------------------------- */

/* Read a GID of a port.  True if it can be used: RoCE version 2, with an interface here. */
static bool gid_read(const verbs_lib_t *lib, struct ibv_context *context, verbs_port_t *port, int index,
                     const struct ifaddrs *all)
{
    struct ibv_gid_entry entry;
    memset(&entry, 0, sizeof entry);
    if (lib->gid_query(context, port->number, (uint32_t)index, &entry, 0, sizeof entry) ||
        entry.gid_type != IBV_GID_TYPE_ROCE_V2)
        return false;
    port->gid = entry.gid;
    port->gid_index = index;
    return port_interface(port, all, NULL);
}

static bool is_same_subnet(const verbs_port_t *a, const verbs_port_t *b)
{
    return a->ip_len == b->ip_len && a->prefix == b->prefix && !memcmp(a->subnet, b->subnet, a->ip_len);
}

/* A walk over the places of a port: its GIDs, or its IP addresses, of subnets that differ. */
#define SUBNETS_MAX 16
typedef struct verbs_walk {
    const verbs_lib_t *lib;
    struct ibv_context *context;
    bool (*each)(void *arg, const verbs_port_t *port, bool first); /* false: no more */
    void *arg;
    verbs_port_t seen[SUBNETS_MAX];
    int n;
} verbs_walk_t;

/* Offer a place of the port to the walk.  Return false if no more places are wanted. */
static bool place_offer(verbs_walk_t *walk, const verbs_port_t *port)
{
    for (int k = 0; k < walk->n; k++)
        if (is_same_subnet(&walk->seen[k], port))
            return true;
    walk->seen[walk->n++] = *port;
    return walk->each(walk->arg, port, walk->n == 1) && walk->n < SUBNETS_MAX;
}

static void gids_walk(verbs_walk_t *walk, const verbs_port_t *port, int gids, const struct ifaddrs *all)
{
    for (int i = 0; i < gids && i < GIDS_MAX; i++) {
        verbs_port_t place = *port;
        if (gid_read(walk->lib, walk->context, &place, i, all) && !place_offer(walk, &place))
            return;
    }
}

static void addresses_walk(verbs_walk_t *walk, const verbs_port_t *port, const verbs_cm_lib_t *cm, const struct ifaddrs *all)
{
    const char *device = walk->lib->get_device_name(walk->context->device);
    int number = 0;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        verbs_port_t place = *port;
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || i->ifa_flags & IFF_LOOPBACK || !port_place(&place, i) ||
            !verbs_cm_owns(walk->lib, cm, device, port->number, &place.self))
            continue;
        place.gid_index = number++;
        if (!place_offer(walk, &place))
            return;
    }
}

/* Call each(arg, port, first) for every place of a port whose subnet differs from those before, until `each` returns false.
 * cm: NULL for RoCE, whose places are GIDs; the library for iWARP, whose places are addresses. */
static void places_each(const verbs_lib_t *lib, const verbs_cm_lib_t *cm, struct ibv_context *context,
                        const struct ibv_port_attr *attr, int number,
                        bool (*each)(void *arg, const verbs_port_t *port, bool first), void *arg)
{
    verbs_walk_t walk = {.lib = lib, .context = context, .each = each, .arg = arg};
    verbs_port_t port = {.number = (uint8_t)number, .ethernet = !cm, .iwarp = cm, .mtu = attr->active_mtu};
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return;
    if (cm)
        addresses_walk(&walk, &port, cm, all);
    else
        gids_walk(&walk, &port, attr->gid_tbl_len, all);
    freeifaddrs(all);
}

static bool device_is_iwarp(const struct ibv_context *context)
{
    return context->device->transport_type == IBV_TRANSPORT_IWARP;
}

static bool port_is_ethernet(const struct ibv_port_attr *attr)
{
    return attr->link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* ---- Probe ---------------------------------------------------------------------------------------------------------------- */

typedef struct verbs_listing {
    const madi_driver_t *driver;
    struct mad_session *session;
    const char *device;
    bool any;
    mad_status_t status;
} verbs_listing_t;

static bool port_name_list(verbs_listing_t *listing, const char *name)
{
    listing->any = true;
    if (!madi_adapter_found(listing->session, listing->driver, name))
        listing->status = MAD_ERR_NOMEM;
    return !listing->status;
}

static bool gid_list(void *arg, const verbs_port_t *port, bool first)
{
    verbs_listing_t *listing = arg;
    char name[MADI_NAME_MAX];
    if (first)
        snprintf(name, sizeof name, "%.32s:%d", listing->device, port->number);
    else
        snprintf(name, sizeof name, "%.32s:%d.%d", listing->device, port->number, port->gid_index);
    return port_name_list(listing, name);
}

static void device_list(const verbs_lib_t *lib, struct ibv_device *device, verbs_listing_t *listing)
{
    struct ibv_context *context = lib->open_device(device);
    struct ibv_device_attr attr;
    char name[MADI_NAME_MAX];
    int ports = context && !lib->device_query(context, &attr) ? attr.phys_port_cnt : 1;
    char reason[MADI_REASON_MAX];
    bool iwarp = context && device_is_iwarp(context);
    const verbs_cm_lib_t *cm = iwarp ? verbs_cm_lib_open(reason, sizeof reason) : NULL;
    listing->device = lib->get_device_name(device);
    for (int number = 1; number <= ports && !listing->status; number++) {
        struct ibv_port_attr port;
        bool before = listing->any;
        memset(&port, 0, sizeof port);
        listing->any = false;
        if (context && !lib->port_query(context, (uint8_t)number, &port) && (iwarp ? cm != NULL : port_is_ethernet(&port)))
            places_each(lib, cm, context, &port, number, gid_list, listing);
        snprintf(name, sizeof name, "%.32s:%d", listing->device, number);
        if (!listing->any && !listing->status)
            port_name_list(listing, name);
        listing->any |= before;
    }
    if (context)
        lib->close_device(context);
}

mad_status_t verbs_probe(const madi_driver_t *driver, struct mad_session *session)
{
    char reason[MADI_REASON_MAX];
    verbs_listing_t listing = {.driver = driver, .session = session};
    const verbs_lib_t *lib = verbs_lib_open(reason, sizeof reason);
    int n = 0;
    struct ibv_device **devices = lib ? lib->get_device_list(&n) : NULL;
    for (int i = 0; devices && i < n && !listing.status; i++)
        device_list(lib, devices[i], &listing);
    if (devices)
        lib->free_device_list(devices);
    if (!listing.any && !listing.status)
        port_name_list(&listing, NO_DEVICE);
    return listing.status;
}

/* ---- Open ------------------------------------------------------------------------------------------------------------------ */

/* Open the device of this name. */
static struct ibv_context *rdma_device_open(const verbs_lib_t *lib, const char *name, char *reason)
{
    int n = 0;
    struct ibv_context *context = NULL;
    struct ibv_device **devices = lib->get_device_list(&n);
    if (!devices)
        snprintf(reason, MADI_REASON_MAX, "RDMA devices cannot be listed: %s%s", strerror(errno), madi_remedy(errno));
    else
        snprintf(reason, MADI_REASON_MAX, "this host has no RDMA device %.40s (see ibv_devices)", name);
    for (int i = 0; devices && i < n; i++) {
        if (strcmp(lib->get_device_name(devices[i]), name) != 0)
            continue;
        context = lib->open_device(devices[i]);
        if (!context)
            snprintf(reason, MADI_REASON_MAX, "device %.40s cannot be opened: %s%s", name, strerror(errno),
                     madi_remedy(errno));
    }
    if (devices)
        lib->free_device_list(devices);
    return context;
}

typedef struct verbs_search {
    verbs_port_t *port;
    int gid;
    bool found;
} verbs_search_t;

static bool gid_compare(void *arg, const verbs_port_t *port, bool first)
{
    verbs_search_t *search = arg;
    search->found = search->gid < 0 ? first : search->gid == port->gid_index;
    if (search->found)
        *search->port = *port;
    return !search->found;
}

/* Fill in a port of iWARP. */
static bool iwarp_find(verbs_adapter_t *a, const struct ibv_port_attr *attr, int number, int index, char *reason)
{
    verbs_search_t search = {.port = &a->port, .gid = index};
    places_each(a->lib, a->cm, a->context, attr, number, gid_compare, &search);
    if (!search.found)
        snprintf(reason, MADI_REASON_MAX, "no IP address of this host is one of %.40s by rdma_cm: give its interface one",
                 a->base.adapter.name);
    return search.found;
}

/* Fill in a port of RoCE or InfiniBand. */
static bool port_find(verbs_adapter_t *a, const char *device, const struct ibv_port_attr *attr, int number, int gid,
                      char *reason)
{
    verbs_search_t search = {.port = &a->port, .gid = gid};
    struct ifaddrs *all = NULL;
    if (port_is_ethernet(attr)) {
        places_each(a->lib, NULL, a->context, attr, number, gid_compare, &search);
        if (!search.found)
            snprintf(
                reason, MADI_REASON_MAX,
                "no GID of RoCE version 2 of %.40s is an IP address of this host: give its interface one (see ibv_devinfo "
                "-v)",
                a->base.adapter.name);
        return search.found;
    }
    a->port = (verbs_port_t){.number = (uint8_t)number, .mtu = attr->active_mtu, .lid = attr->lid};
    struct ibv_gid_entry entry;
    memset(&entry, 0, sizeof entry);
    search.found = !a->lib->gid_query(a->context, (uint32_t)number, 0, &entry, 0, sizeof entry) && !getifaddrs(&all) &&
                   ipoib_find(&a->port, device, all);
    a->port.gid = entry.gid;
    if (all)
        freeifaddrs(all);
    if (!search.found)
        snprintf(reason, MADI_REASON_MAX,
                 "port %.40s has no IP interface (IPoIB) with an address, through which connections are made",
                 a->base.adapter.name);
    return search.found;
}

bool verbs_port_open(verbs_adapter_t *a, char *reason)
{
    char device[MADI_NAME_MAX];
    struct ibv_port_attr attr;
    int number, gid, rc;
    if (!verbs_name_split(a->base.adapter.name, device, sizeof device, &number, &gid)) {
        snprintf(reason, MADI_REASON_MAX, "this host has no RDMA device (see ibv_devices)");
        return false;
    }
    memcpy(a->base.adapter.device, device, sizeof a->base.adapter.device);
    a->context = rdma_device_open(a->lib, device, reason);
    if (!a->context)
        return false;
    if (a->context->device->transport_type != IBV_TRANSPORT_IB && !device_is_iwarp(a->context)) {
        snprintf(reason, MADI_REASON_MAX, "device %.40s is neither InfiniBand, RoCE nor iWARP: use the driver ofi for it",
                 device);
        return false;
    }
    if (device_is_iwarp(a->context) || madi_knob_int(MADI_KNOB_VERBS_CM)) {
        a->cm = verbs_cm_lib_open(reason, MADI_REASON_MAX);
        if (!a->cm)
            return false;
    }
    memset(&attr, 0, sizeof attr);
    rc = a->lib->port_query(a->context, (uint8_t)number, &attr);
    if (rc) {
        snprintf(reason, MADI_REASON_MAX, "the state of port %.40s cannot be read: %s", a->base.adapter.name, strerror(rc));
        return false;
    }
    if (attr.state != IBV_PORT_ACTIVE) {
        snprintf(reason, MADI_REASON_MAX, "port %.40s is not active: %.40s", a->base.adapter.name,
                 a->lib->port_state_str(attr.state));
        return false;
    }
    return device_is_iwarp(a->context) ? iwarp_find(a, &attr, number, gid, reason)
                                       : port_find(a, device, &attr, number, gid, reason);
}
