/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: subnets and address bytes.
 *
 * Address bytes: family (4 or 6), port (2 bytes, little-endian), address (4 or 16 bytes), and, where the network's name is
 * that of the subnet, the bits of its prefix (1 byte).
 */
#include "base/host.h"
#include "drivers/tcp/tcp.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Address bytes ---------------------------------------------------------------------------------------------- */

socklen_t madi_tcp_addr_len(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

size_t madi_tcp_addr_put(const struct sockaddr_storage *addr, const madi_tcp_subnet_t *subnet, unsigned char *to)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    bool v6 = addr->ss_family == AF_INET6;
    uint16_t port = ntohs(v6 ? in6->sin6_port : in->sin_port);
    size_t ip_len = v6 ? 16 : 4;
    to[0] = v6 ? 6 : 4;
    to[1] = (unsigned char)(port & 0xff);
    to[2] = (unsigned char)(port >> 8);
    memcpy(to + 3, v6 ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr, ip_len);
    if (!subnet->ip_len || subnet->has_peer)
        return 3 + ip_len;
    to[3 + ip_len] = subnet->prefix;
    return 4 + ip_len;
}

/* Length in bytes of the IP address in address bytes; 0: malformed. */
static size_t tcp_ip_len(const unsigned char *a, size_t len)
{
    size_t ip_len = len && a[0] == 4 ? 4 : 16;
    if (len < 3 + ip_len || len > 4 + ip_len || (a[0] != 4 && a[0] != 6) || !(a[1] | a[2]))
        return 0;
    return len == 4 + ip_len && a[len - 1] > 8 * ip_len ? 0 : ip_len;
}

bool madi_tcp_addr_get(const void *addr, size_t len, struct sockaddr_storage *to, socklen_t *to_len)
{
    const unsigned char *a = addr;
    size_t ip_len = tcp_ip_len(a, len);
    memset(to, 0, sizeof(*to));
    if (!ip_len)
        return false;
    if (ip_len == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)(a[1] | a[2] << 8));
        memcpy(&in->sin_addr, a + 3, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)(a[1] | a[2] << 8));
        memcpy(&in6->sin6_addr, a + 3, 16);
    }
    *to_len = madi_tcp_addr_len(to);
    return true;
}

/* Write 10.1.0.3:7000 or [fd00::2]:7000, without the port if it is 0. */
void madi_tcp_addr_text(const struct sockaddr_storage *addr, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool v6 = addr->ss_family == AF_INET6;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    unsigned port = ntohs(v6 ? in6->sin6_port : in->sin_port);
    inet_ntop(addr->ss_family, v6 ? (const void *)&in6->sin6_addr : (const void *)&in->sin_addr, host, sizeof(host));
    if (!port)
        snprintf(text, size, "%s", host);
    else
        snprintf(text, size, v6 ? "[%s]:%u" : "%s:%u", host, port);
}

/* ---- Subnets ---------------------------------------------------------------------------------------------------- */

static const void *tcp_ip(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr
                                       : (const void *)&((const struct sockaddr_in *)(const void *)addr)->sin_addr;
}

static void tcp_mask(unsigned char *ip, size_t len, int prefix)
{
    for (size_t k = 0; k < len; k++) {
        int bits = prefix - (int)k * 8;
        ip[k] &= (unsigned char)(bits >= 8 ? 0xff : bits <= 0 ? 0 : 0xff << (8 - bits));
    }
}

madi_tcp_subnet_t madi_tcp_subnet(const struct sockaddr *addr, const struct sockaddr *mask, const struct sockaddr *peer)
{
    size_t len = addr->sa_family == AF_INET6 ? 16 : 4;
    madi_tcp_subnet_t s = {.ip_len = (unsigned char)len, .prefix = (unsigned char)(8 * len)};
    if (mask) {
        s.prefix = 0;
        for (size_t k = 0; k < len; k++)
            s.prefix = (unsigned char)(s.prefix + __builtin_popcount(((const unsigned char *)tcp_ip(mask))[k]));
    }
    memcpy(s.ip, tcp_ip(addr), len);
    tcp_mask(s.ip, len, s.prefix);
    if (s.prefix == 8 * len && peer && peer->sa_family == addr->sa_family && memcmp(tcp_ip(peer), s.ip, len) != 0) {
        s.has_peer = true;
        memcpy(s.peer, tcp_ip(peer), len);
    }
    return s;
}

/* Make the network's name from the two addresses, so that it is equal at both ends. */
static void tcp_pair_name(const madi_tcp_subnet_t *s, char *name)
{
    bool swap = memcmp(s->ip, s->peer, s->ip_len) > 0;
    const unsigned char *first = swap ? s->peer : s->ip, *second = swap ? s->ip : s->peer;
    char text[2][INET6_ADDRSTRLEN] = {"?", "?"};
    int family = s->ip_len == 16 ? AF_INET6 : AF_INET;
    inet_ntop(family, first, text[0], sizeof(text[0]));
    inet_ntop(family, second, text[1], sizeof(text[1]));
    if (snprintf(name, MADI_NAME_MAX, "%s-%s", text[0], text[1]) >= MADI_NAME_MAX)
        snprintf(name, MADI_NAME_MAX, "pair@%016llx",
                 (unsigned long long)madi_hash(madi_hash(MADI_HASH_START, first, s->ip_len), second, s->ip_len));
}

void madi_tcp_subnet_name(const madi_tcp_subnet_t *s, char *name)
{
    char text[INET6_ADDRSTRLEN] = "?";
    if (s->has_peer) {
        tcp_pair_name(s, name);
        return;
    }
    inet_ntop(s->ip_len == 16 ? AF_INET6 : AF_INET, s->ip, text, sizeof(text));
    if (snprintf(name, MADI_NAME_MAX, "%s/%d", text, s->prefix) >= MADI_NAME_MAX)
        name[0] = 0; /* no address is that long */
}

bool madi_tcp_network(const void *addr, size_t len, char *name)
{
    const unsigned char *a = addr;
    size_t ip_len = tcp_ip_len(a, len);
    madi_tcp_subnet_t s = {.ip_len = (unsigned char)ip_len};
    if (!ip_len || len == 3 + ip_len)
        return false;
    s.prefix = a[len - 1];
    memcpy(s.ip, a + 3, ip_len);
    tcp_mask(s.ip, ip_len, s.prefix);
    madi_tcp_subnet_name(&s, name);
    return true;
}

bool madi_tcp_holds(const unsigned char *net, int prefix, const unsigned char *ip, size_t len)
{
    unsigned char masked[16];
    memcpy(masked, ip, len);
    tcp_mask(masked, len, prefix);
    return !memcmp(masked, net, len);
}

#define PRIVILEGED 1024 /* lowest port that a process without privileges may use */

bool madi_tcp_within(madi_adapter_t *adapter, const void *addr, size_t len)
{
    const madi_tcp_subnet_t *own = &((madi_tcp_adapter_t *)adapter)->own_subnet;
    const unsigned char *a = addr;
    size_t ip_len = tcp_ip_len(a, len);
    if (!ip_len || ip_len != own->ip_len || (a[1] | a[2] << 8) < PRIVILEGED)
        return false;
    return madi_tcp_holds(own->ip, own->prefix, a + 3, ip_len) || (own->has_peer && !memcmp(own->peer, a + 3, ip_len));
}

/* True if this host's routes use this address as the source towards the peer.  For networks whose subnet is unknown. */
static bool tcp_is_routed(const struct sockaddr_storage *self, const struct sockaddr_storage *peer)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    int s = socket(self->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool same = s >= 0 && !connect(s, (const struct sockaddr *)peer, madi_tcp_addr_len(peer)) &&
                !getsockname(s, (struct sockaddr *)&from, &len) && from.ss_family == self->ss_family &&
                !memcmp(tcp_ip((const struct sockaddr *)&from), tcp_ip((const struct sockaddr *)self),
                        self->ss_family == AF_INET6 ? 16 : 4);
    if (s >= 0)
        close(s);
    return same;
}

bool madi_tcp_common(madi_adapter_t *adapter, const char *network, const void *addr, size_t len)
{
    madi_tcp_adapter_t *tcp = (madi_tcp_adapter_t *)adapter;
    const unsigned char *a = addr, *self = tcp_ip((const struct sockaddr *)&tcp->self);
    size_t ip_len = tcp_ip_len(a, len);
    struct sockaddr_storage peer;
    socklen_t peer_len;
    char name[MADI_NAME_MAX];
    unsigned char net[16];
    int bits = (int)(8 * ip_len), prefix;
    if (!ip_len || ip_len != tcp->subnet.ip_len || tcp->subnet.has_peer || !madi_tcp_network(addr, len, name) ||
        strcmp(name, network) != 0) /* a knob has set the name */
        return false;
    prefix = a[len - 1];
    memcpy(net, a + 3, ip_len);
    tcp_mask(net, ip_len, prefix);
    if (madi_tcp_holds(tcp->subnet.ip, tcp->subnet.prefix, a + 3, ip_len) || madi_tcp_holds(net, prefix, self, ip_len))
        return true;
    return prefix == bits && tcp->subnet.prefix == bits && madi_tcp_addr_get(addr, len, &peer, &peer_len) &&
           tcp_is_routed(&tcp->self, &peer);
}
