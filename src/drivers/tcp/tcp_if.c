/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: interfaces of the host, network names, ports, address bytes.
 *
 * An interface gives an adapter for IPv4 (called as the interface: eth0) and one for IPv6 (eth0/6), each with its first
 * address.  Adapters can talk when their networks have the same name: the subnet ("10.1.0.0/24"), or what a knob says.
 *
 * Address bytes: family (4 or 6), port (2 bytes, little-endian), address (4 or 16 bytes).
 */
#include "base/host.h"
#include "base/knob.h"
#include "base/log.h"
#include "base/own.h"
#include "drivers/tcp/tcp.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A word of a comma list, without spaces around it. */
typedef struct tcp_word {
    const char *at;
    size_t len;
} tcp_word_t;

static bool tcp_word_next(const char **list, tcp_word_t *word)
{
    const char *at = *list, *end;
    at += strspn(at, ", ");
    end = at + strcspn(at, ",");
    *list = end;
    while (end > at && end[-1] == ' ')
        end--;
    word->at = at;
    word->len = (size_t)(end - at);
    return word->len > 0;
}

static bool tcp_word_is(tcp_word_t word, const char *text)
{
    return strlen(text) == word.len && !memcmp(text, word.at, word.len);
}

/* ---- Interfaces ------------------------------------------------------------------------------------------------- */

static bool tcp_is_v6(const struct ifaddrs *i)
{
    return i->ifa_addr->sa_family == AF_INET6;
}

/* Up, and with an address that others can use as it stands (link-local ones need an interface number). */
static bool tcp_usable(const struct ifaddrs *i)
{
    if (!i->ifa_addr || (i->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
        return false;
    if (i->ifa_addr->sa_family == AF_INET)
        return true;
    return i->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr);
}

static void tcp_adapter_name(const struct ifaddrs *i, char *name, size_t size)
{
    snprintf(name, size, "%s%s", i->ifa_name, tcp_is_v6(i) ? "/6" : "");
}

/* The first usable address of the adapter called name. */
static const struct ifaddrs *tcp_if_named(const struct ifaddrs *all, const char *name)
{
    char own[MADI_NAME_MAX];
    for (; all; all = all->ifa_next) {
        if (!tcp_usable(all))
            continue;
        tcp_adapter_name(all, own, sizeof(own));
        if (!strcmp(own, name))
            return all;
    }
    return NULL;
}

/* Does a word of the interfaces knob choose the adapter called name?  eth0 chooses eth0 and eth0/6. */
static bool tcp_word_chooses(tcp_word_t word, const struct ifaddrs *i, const char *name)
{
    return tcp_word_is(word, name) || tcp_word_is(word, i->ifa_name);
}

static bool tcp_chosen(const struct ifaddrs *all, const struct ifaddrs *i, const char *name)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_INTERFACES);
    tcp_word_t word;
    bool any = false;
    while (tcp_word_next(&list, &word)) {
        any = true;
        /* Loopback has one adapter unless its second one is asked for: both lead to the same place. */
        if (tcp_word_is(word, name) || (tcp_word_is(word, i->ifa_name) &&
                                        (!(i->ifa_flags & IFF_LOOPBACK) || !tcp_if_named(all, i->ifa_name))))
            return true;
    }
    return !any && (!(i->ifa_flags & IFF_LOOPBACK) || !tcp_is_v6(i) || !tcp_if_named(all, i->ifa_name));
}

/* Words of the knob that choose nothing become adapters too, so that open says what is wrong with them. */
static mad_status_t tcp_probe_missing(const madi_driver_t *driver, struct mad_session *session,
                                      const struct ifaddrs *all)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_INTERFACES);
    tcp_word_t word;
    while (tcp_word_next(&list, &word)) {
        char name[MADI_NAME_MAX];
        bool found = false;
        for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
            if (!tcp_usable(i))
                continue;
            tcp_adapter_name(i, name, sizeof(name));
            found = tcp_word_chooses(word, i, name);
        }
        snprintf(name, sizeof(name), "%.*s", (int)word.len, word.at);
        if (!found && !madi_adapter_found(session, driver, name))
            return MAD_ERR_NOMEM;
    }
    return MAD_OK;
}

mad_status_t madi_tcp_probe(const madi_driver_t *driver, struct mad_session *session)
{
    struct ifaddrs *all;
    mad_status_t status = MAD_OK;
    if (getifaddrs(&all) < 0)
        return errno == ENOMEM ? MAD_ERR_NOMEM : MAD_OK;
    for (const struct ifaddrs *i = all; i && !status; i = i->ifa_next) {
        char name[MADI_NAME_MAX];
        if (!tcp_usable(i))
            continue;
        tcp_adapter_name(i, name, sizeof(name));
        if (tcp_if_named(all, name) == i && tcp_chosen(all, i, name) && !madi_adapter_found(session, driver, name))
            status = MAD_ERR_NOMEM;
    }
    if (!status)
        status = tcp_probe_missing(driver, session, all);
    freeifaddrs(all);
    return status;
}

/* ---- Network names ---------------------------------------------------------------------------------------------- */

/* Loopback reaches whoever shares the network namespace, whatever the host name says: name it after the kernel's boot
 * and the namespace's inode. */
static void tcp_loopback_network(char *network, bool v6)
{
    char kernel[MADI_BOOT_ID_MAX];
    struct stat ns;
    uint64_t hash;
    madi_boot_id(kernel);
    hash = madi_hash(MADI_HASH_START, kernel, strlen(kernel));
    if (!stat("/proc/self/ns/net", &ns)) {
        hash = madi_hash(hash, &ns.st_dev, sizeof ns.st_dev);
        hash = madi_hash(hash, &ns.st_ino, sizeof ns.st_ino);
    }
    snprintf(network, MADI_NAME_MAX, "lo%s@%016llx", v6 ? "6" : "", (unsigned long long)hash);
}

static void tcp_subnet(const struct ifaddrs *i, char *network)
{
    bool v6 = tcp_is_v6(i);
    size_t bytes = v6 ? 16 : 4;
    unsigned char addr[16], mask[16];
    char text[INET6_ADDRSTRLEN] = "?";
    int prefix = 0;
    memset(mask, 0xff, sizeof(mask));
    if (v6) {
        memcpy(addr, &((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr, bytes);
        if (i->ifa_netmask)
            memcpy(mask, &((struct sockaddr_in6 *)(void *)i->ifa_netmask)->sin6_addr, bytes);
    } else {
        memcpy(addr, &((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr, bytes);
        if (i->ifa_netmask)
            memcpy(mask, &((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr, bytes);
    }
    for (size_t k = 0; k < bytes; k++) {
        addr[k] &= mask[k];
        prefix += __builtin_popcount(mask[k]);
    }
    inet_ntop(v6 ? AF_INET6 : AF_INET, addr, text, sizeof(text));
    snprintf(network, MADI_NAME_MAX, "%s/%d", text, prefix);
}

/* From the knob 'eth0=NAME,eth0/6=NAME2'; eth0 alone covers both, unless eth0/6 is there too.  Sets network to "" when
 * the knob does not speak of this adapter. */
static mad_status_t tcp_network_knob(const char *adapter, const char *ifname, char *network, char *reason)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_NETWORK);
    tcp_word_t word;
    network[0] = 0;
    while (tcp_word_next(&list, &word)) {
        const char *sign = memchr(word.at, '=', word.len);
        tcp_word_t key, value;
        if (!sign || sign == word.at || sign == word.at + word.len - 1) {
            snprintf(reason, MADI_REASON_MAX, "%s: '%.*s' is not INTERFACE=NETWORK",
                     madi_knobs[MADI_KNOB_TCP_NETWORK].name, word.len > 60 ? 60 : (int)word.len, word.at);
            return MAD_ERR_CONFIG;
        }
        key = (tcp_word_t){word.at, (size_t)(sign - word.at)};
        value = (tcp_word_t){sign + 1, word.len - key.len - 1};
        if (!tcp_word_is(key, adapter) && (network[0] || !tcp_word_is(key, ifname)))
            continue;
        if (value.len >= MADI_NAME_MAX) {
            snprintf(reason, MADI_REASON_MAX, "%s: the network name of %s is longer than %d bytes",
                     madi_knobs[MADI_KNOB_TCP_NETWORK].name, adapter, MADI_NAME_MAX - 1);
            return MAD_ERR_CONFIG;
        }
        memcpy(network, value.at, value.len);
        network[value.len] = 0;
        if (tcp_word_is(key, adapter))
            break;
    }
    return MAD_OK;
}

/* Why there is no such adapter, and which there are. */
static mad_status_t tcp_no_such(const struct ifaddrs *all, const char *name, char *reason)
{
    const char *what = "which this host does not have";
    size_t len;
    char base[MADI_NAME_MAX];
    snprintf(base, sizeof(base), "%.*s", (int)strcspn(name, "/"), name);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (!strcmp(i->ifa_name, base))
            what = i->ifa_flags & IFF_UP ? "which has no usable address" : "which is down";
    len = (size_t)snprintf(reason, MADI_REASON_MAX, "%s names %s, %s; usable are:",
                           madi_knobs[MADI_KNOB_TCP_INTERFACES].name, name, what);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char own[MADI_NAME_MAX];
        if (!tcp_usable(i))
            continue;
        tcp_adapter_name(i, own, sizeof(own));
        if (tcp_if_named(all, own) == i && len + strlen(own) + 2 < MADI_REASON_MAX)
            len += (size_t)snprintf(reason + len, MADI_REASON_MAX - len, " %s", own);
    }
    return MAD_ERR_CONFIG;
}

mad_status_t madi_tcp_if_find(madi_tcp_adapter_t *tcp, char *reason)
{
    madi_adapter_t *pub = &tcp->pub;
    const struct ifaddrs *i;
    struct ifaddrs *all;
    mad_status_t status;
    if (getifaddrs(&all) < 0) {
        snprintf(reason, MADI_REASON_MAX, "the interfaces cannot be listed: %s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    i = tcp_if_named(all, pub->name);
    if (!i) {
        status = tcp_no_such(all, pub->name, reason);
        goto out;
    }
    tcp->loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    memcpy(&tcp->self, i->ifa_addr, tcp_is_v6(i) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    status = tcp_network_knob(pub->name, i->ifa_name, pub->network, reason);
    if (status || pub->network[0])
        goto out;
    if (tcp->loopback)
        tcp_loopback_network(pub->network, tcp_is_v6(i));
    else
        tcp_subnet(i, pub->network);
out:
    freeifaddrs(all);
    return status;
}

/* ---- Ports ------------------------------------------------------------------------------------------------------ */

static mad_status_t tcp_ports(int *low, int *high, char *reason)
{
    const char *text = madi_knob_text(MADI_KNOB_TCP_PORTS);
    char rest;
    int n;
    *low = *high = 0;
    if (!*text)
        return MAD_OK;
    n = sscanf(text, "%5d-%5d%c", low, high, &rest);
    if (n == 1 && !strchr(text, '-')) {
        *high = *low;
        n = sscanf(text, "%5d%c", low, &rest) + 1;
    }
    if (n == 2 && *low >= 1 && *low <= *high && *high <= 65535)
        return MAD_OK;
    snprintf(reason, MADI_REASON_MAX, "%s: '%.40s' is not a range of ports like 7000-7099",
             madi_knobs[MADI_KNOB_TCP_PORTS].name, text);
    return MAD_ERR_CONFIG;
}

/* A listening socket on this port (0: any), or -1 and errno. */
static int tcp_listen_on(const struct sockaddr_storage *self, int port)
{
    struct sockaddr_storage at = *self;
    int one = 1, error, s = madi_fd_own(socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (s < 0)
        return -1;
    if (at.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)&at)->sin6_port = htons((uint16_t)port);
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    } else {
        ((struct sockaddr_in *)&at)->sin_port = htons((uint16_t)port);
    }
    /* Connections of an earlier job that linger must not use the range up.  Two listeners still exclude each other, if
     * not in bind then in listen. */
    if (port)
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (!bind(s, (struct sockaddr *)&at, madi_tcp_addr_len(&at)) && !listen(s, SOMAXCONN))
        return s;
    error = errno;
    madi_fd_close(s);
    errno = error;
    return -1;
}

mad_status_t madi_tcp_listen(madi_tcp_adapter_t *tcp, char *reason)
{
    madi_adapter_t *pub = &tcp->pub;
    struct sockaddr_storage at;
    socklen_t len = sizeof(at);
    char text[80];
    int low, high, port, s = -1;
    uint16_t bound;
    mad_status_t status = tcp_ports(&low, &high, reason);
    if (status)
        return status;
    for (port = low; port <= high && s < 0; port++) {
        s = tcp_listen_on(&tcp->self, port);
        if (s < 0 && errno != EADDRINUSE)
            break;
    }
    if (s < 0 || getsockname(s, (struct sockaddr *)&at, &len) < 0) {
        madi_tcp_addr_text(&tcp->self, text, sizeof(text));
        if (low && errno == EADDRINUSE)
            snprintf(reason, MADI_REASON_MAX, "all ports of %s=%d-%d are in use on %.50s (%s); widen the range",
                     madi_knobs[MADI_KNOB_TCP_PORTS].name, low, high, text, pub->name);
        else
            snprintf(reason, MADI_REASON_MAX, "cannot listen on %s (%s), port %d: %s%s", text, pub->name, port,
                     strerror(errno), madi_remedy(errno));
        if (s >= 0)
            madi_fd_close(s);
        return MAD_ERR_SYSTEM;
    }
    pub->listen_fd = s;
    tcp->listening = true;
    bound = at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port;
    bound = ntohs(bound);
    pub->address[0] = at.ss_family == AF_INET6 ? 6 : 4;
    pub->address[1] = (unsigned char)(bound & 0xff);
    pub->address[2] = (unsigned char)(bound >> 8);
    pub->address_len = at.ss_family == AF_INET6 ? 19 : 7;
    if (at.ss_family == AF_INET6)
        memcpy(pub->address + 3, &((struct sockaddr_in6 *)&at)->sin6_addr, 16);
    else
        memcpy(pub->address + 3, &((struct sockaddr_in *)&at)->sin_addr, 4);
    return MAD_OK;
}

/* ---- Addresses -------------------------------------------------------------------------------------------------- */

socklen_t madi_tcp_addr_len(const struct sockaddr_storage *addr)
{
    return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

bool madi_tcp_addr_get(const void *addr, size_t len, struct sockaddr_storage *to, socklen_t *to_len)
{
    const unsigned char *a = addr;
    uint16_t port;
    memset(to, 0, sizeof(*to));
    if (len < 3 || !(a[1] | a[2]))
        return false;
    port = htons((uint16_t)(a[1] | a[2] << 8));
    if (a[0] == 4 && len == 7) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        in->sin_port = port;
        memcpy(&in->sin_addr, a + 3, 4);
    } else if (a[0] == 6 && len == 19) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = port;
        memcpy(&in6->sin6_addr, a + 3, 16);
    } else {
        return false;
    }
    *to_len = madi_tcp_addr_len(to);
    return true;
}

/* 10.1.0.3:7000 or [fd00::2]:7000; without the port when it is 0. */
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
