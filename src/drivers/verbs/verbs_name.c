/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs: names of adapters and networks, and address bytes.
 *
 * Address bytes: family (4 or 6), port of the socket (2 bytes, little-endian), IP address (4 or 16 bytes). */
#include "drivers/verbs/verbs.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a number of 1 to 3 digits; -1 if there is none.  *end: the text behind the number. */
static int digits_read(const char *text, const char **end)
{
    size_t n = strspn(text, "0123456789");
    *end = text + n;
    return n < 1 || n > 4 ? -1 : atoi(text);
}

bool verbs_name_split(const char *name, char *device, size_t size, int *port, int *gid)
{
    const char *colon = strrchr(name, ':'), *end;
    if (!colon || colon == name || (size_t)(colon - name) >= size)
        return false;
    snprintf(device, size, "%.*s", (int)(colon - name), name);
    *gid = -1;
    *port = digits_read(colon + 1, &end);
    if (*port < 1 || *port > 255)
        return false;
    if (!*end)
        return true;
    *gid = *end == '.' ? digits_read(end + 1, &end) : -1;
    return *gid >= 0 && !*end;
}

void verbs_subnet_mask(unsigned char *ip, size_t len, int prefix)
{
    for (size_t i = 0; i < len; i++) {
        int bits = prefix - (int)i * 8;
        ip[i] &= (unsigned char)(bits >= 8 ? 0xff : bits <= 0 ? 0 : 0xff << (8 - bits));
    }
}

bool verbs_network_name(const verbs_port_t *port, char *name)
{
    char subnet[INET6_ADDRSTRLEN], fabric[24] = "roce";
    uint64_t prefix;
    memcpy(&prefix, port->gid.raw, sizeof prefix);
    if (port->iwarp)
        snprintf(fabric, sizeof fabric, "iwarp");
    else if (!port->ethernet)
        snprintf(fabric, sizeof fabric, "ib.%llx", (unsigned long long)be64toh(prefix));
    return inet_ntop(port->ip_len == 16 ? AF_INET6 : AF_INET, port->subnet, subnet, sizeof subnet) &&
           snprintf(name, MADI_NAME_MAX, "%s:%s/%d", fabric, subnet, port->prefix) < MADI_NAME_MAX;
}

const unsigned char *verbs_ip(const struct sockaddr_storage *addr, size_t *len)
{
    bool v6 = addr->ss_family == AF_INET6;
    *len = v6 ? 16 : 4;
    return v6 ? (const unsigned char *)&((const struct sockaddr_in6 *)addr)->sin6_addr
              : (const unsigned char *)&((const struct sockaddr_in *)addr)->sin_addr;
}

size_t verbs_address_put(const struct sockaddr_storage *addr, unsigned char *to)
{
    bool v6 = addr->ss_family == AF_INET6;
    uint16_t port =
        ntohs(v6 ? ((const struct sockaddr_in6 *)addr)->sin6_port : ((const struct sockaddr_in *)addr)->sin_port);
    size_t len;
    const unsigned char *ip = verbs_ip(addr, &len);
    to[0] = v6 ? 6 : 4;
    to[1] = (unsigned char)(port & 0xff);
    to[2] = (unsigned char)(port >> 8);
    memcpy(to + 3, ip, len);
    return 3 + len;
}

bool verbs_address_get(const void *bytes, size_t len, struct sockaddr_storage *to, socklen_t *to_len)
{
    const unsigned char *b = bytes;
    bool v6 = len == 3 + 16 && b[0] == 6;
    if ((!v6 && (len != 3 + 4 || b[0] != 4)) || !(b[1] | b[2]))
        return false;
    uint16_t port = htons((uint16_t)(b[1] | b[2] << 8));
    memset(to, 0, sizeof *to);
    if (v6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = port;
        memcpy(&in6->sin6_addr, b + 3, 16);
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = port;
        memcpy(&in->sin_addr, b + 3, 4);
    }
    *to_len = v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return true;
}

bool verbs_gid_is(const unsigned char gid[16], const struct sockaddr_storage *addr)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff}; /* ::ffff:a.b.c.d is the GID of an IPv4 address */
    size_t len;
    const unsigned char *ip = verbs_ip(addr, &len);
    return len == 16 ? !memcmp(gid, ip, 16) : !memcmp(gid, mapped, 12) && !memcmp(gid + 12, ip, 4);
}
