/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx: names of devices and networks. */
#include "drivers/ucx/ucx.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define MEMORY "memory" /* UCX's device of transports within a host */

/* ---- Devices --------------------------------------------------------------------------------------------------- */

/* True for transports over which no two processes exchange messages: those of one worker with itself, of connections by IP
 * addresses, and of accelerators' memory. */
static bool transport_is_useless(const char *tl)
{
    static const char *const useless[] = {"self", "rdmacm", "sockcm", "cuda", "rocm", "gdr_copy", "ze_", "gaudi", "mad"};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++)
        if (!strncmp(tl, useless[i], strlen(useless[i])))
            return true;
    return false;
}

/* Lines look like "#      resource 4  :  md 3  dev 3  flags -- posix/memory"; flags begin with "a" for a transport that only
 * helps another one to connect. */
void ucx_device_add(ucx_device_t *devices, int *n, int max, const char *line)
{
    char tl[32], device[MADI_NAME_MAX], flag;
    const char *flags = strstr(line, " flags ");
    int i = 0;
    if (!strstr(line, " resource ") || !flags || sscanf(flags, " flags %c%*s %31[^/ ]/%47s", &flag, tl, device) != 3 ||
        transport_is_useless(tl))
        return;
    bool memory = !strcmp(device, MEMORY);
    const char *name = memory ? "shm" : device;
    while (i < *n && strcmp(devices[i].name, name) != 0)
        i++;
    if (i == max)
        return;
    ucx_device_t *d = &devices[i];
    if (i == *n) {
        *d = (ucx_device_t){.memory = memory};
        snprintf(d->name, sizeof d->name, "%s", name);
        ++*n;
    }
    size_t len = strlen(d->tls);
    if (len + strlen(tl) + sizeof ",:aux" <= sizeof d->tls)
        snprintf(d->tls + len, sizeof d->tls - len, "%s%s%s", len ? "," : "", tl, flag == 'a' ? ":aux" : "");
}

/* ---- Networks -------------------------------------------------------------------------------------------------- */

/* Write the subnet of an address, as 10.1.0.0/24. */
static void subnet_write(const struct ifaddrs *i, char *text, size_t size)
{
    bool six = i->ifa_addr->sa_family == AF_INET6;
    size_t len = six ? sizeof(struct in6_addr) : sizeof(struct in_addr);
    unsigned char address[sizeof(struct in6_addr)], mask[sizeof address];
    char number[INET6_ADDRSTRLEN] = "";
    int bits = 0;
    memcpy(address,
           six ? (void *)&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr
               : (void *)&((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr,
           len);
    memcpy(mask,
           six ? (void *)&((struct sockaddr_in6 *)(void *)i->ifa_netmask)->sin6_addr
               : (void *)&((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr,
           len);
    for (size_t b = 0; b < len; b++) {
        address[b] &= mask[b];
        bits += __builtin_popcount(mask[b]);
    }
    inet_ntop(i->ifa_addr->sa_family, address, number, sizeof number);
    snprintf(text, size, "%s/%d", number, bits);
}

/* Write the subnet of an interface; that of IPv4 if the interface has one, because UCX prefers IPv4.  The loopback interface
 * counts as a subnet of this host.  On failure return false, and write the reason. */
static bool interface_subnet(const char *interface, char *text, size_t size, char *reason)
{
    struct ifaddrs *all = NULL;
    const struct ifaddrs *found = NULL;
    bool loop = false;
    if (getifaddrs(&all)) {
        snprintf(reason, MADI_REASON_MAX, "the addresses of interfaces cannot be read");
        return false;
    }
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (strcmp(i->ifa_name, interface) != 0 || !i->ifa_netmask || (family != AF_INET && family != AF_INET6))
            continue;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr))
            continue;
        if (!found || (family == AF_INET && found->ifa_addr->sa_family != AF_INET))
            found = i;
    }
    if (found) {
        loop = found->ifa_flags & IFF_LOOPBACK;
        subnet_write(found, text, size);
    } else {
        snprintf(reason, MADI_REASON_MAX, "interface %s has no address", interface);
    }
    freeifaddrs(all);
    return found && (!loop || fabric_space_text("net", text, size, reason));
}

/* Read the first line of a file of an InfiniBand port ("mlx5_0:1"); false if there is none. */
static bool port_read(const char *device, const char *file, char *text, int size)
{
    char path[160];
    const char *colon = strchr(device, ':');
    snprintf(path, sizeof path, "/sys/class/infiniband/%.*s/ports/%s/%s", (int)(colon - device), device, colon + 1, file);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(text, size, f);
    if (f)
        fclose(f);
    if (read)
        text[strcspn(text, "\n")] = 0;
    return read;
}

/* Write the subnet of a port.  RoCE: the subnet of its interface; otherwise: the prefix of its address. */
static bool port_subnet(const char *device, char *text, size_t size, char *reason)
{
    char line[64], interface[MADI_NAME_MAX];
    if (port_read(device, "link_layer", line, sizeof line) && !strcmp(line, "Ethernet") &&
        port_read(device, "gid_attrs/ndevs/0", interface, sizeof interface))
        return interface_subnet(interface, text, size, reason);
    if (port_read(device, "gids/0", line, sizeof line)) {
        snprintf(text, size, "%.19s", line);
        return true;
    }
    snprintf(reason, MADI_REASON_MAX, "port %s has no address in /sys/class/infiniband", device);
    return false;
}

bool ucx_network_name(const ucx_device_t *d, char *name, char *reason)
{
    char text[MADI_NAME_MAX], pid[MADI_NAME_MAX];
    if (d->memory) {
        if (!fabric_space_text("ipc", text, sizeof text, reason) || !fabric_space_text("pid", pid, sizeof pid, reason))
            return false;
        snprintf(name, MADI_NAME_MAX, "ucx-shm:%.24s%.14s", text, strchr(pid, '.'));
        return true;
    }
    bool port = strchr(d->name, ':') != NULL, tcp = !strncmp(d->tls, "tcp", 3);
    if (tcp ? !interface_subnet(d->name, text, sizeof text, reason)
            : port && !port_subnet(d->name, text, sizeof text, reason))
        return false;
    if (tcp || port)
        snprintf(name, MADI_NAME_MAX, "ucx-%s:%.38s", tcp ? "tcp" : "ib", text);
    else
        snprintf(name, MADI_NAME_MAX, "ucx-%.20s:%.20s", d->tls, d->name);
    return true;
}
