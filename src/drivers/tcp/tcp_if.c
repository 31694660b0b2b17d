/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp: interfaces of the host, network names, ports.
 *
 * Each subnet in which an interface has addresses gives one adapter, with the first of these addresses.  The first
 * adapter of IPv4 has the interface's name (eth0), the first one of IPv6 is eth0/6, and further ones are eth0/4.2,
 * eth0/4.3, ..., eth0/6.2, ...  Adapters can communicate if their networks have the same name: the subnet
 * ("10.1.0.0/24"), the two ends of a point-to-point address ("10.9.0.1-10.9.0.2"), or the value of a knob; and also
 * if the subnet of one contains the other's address (tcp_addr.c).
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

/* One word of a comma-separated list, without surrounding spaces. */
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

/* True if the interface is up, and has an address that other hosts can use without an interface number (not a link-local
 * one). */
static bool tcp_usable(const struct ifaddrs *i)
{
    if (!i->ifa_addr || (i->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
        return false;
    if (i->ifa_addr->sa_family == AF_INET)
        return true;
    return i->ifa_addr->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr);
}

/* True for a loopback address of the host itself.  Other addresses on the loopback interface belong to a service or
 * router. */
static bool tcp_is_loopback(const struct ifaddrs *i)
{
    if (!(i->ifa_flags & IFF_LOOPBACK))
        return false;
    if (tcp_is_v6(i))
        return IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr);
    return ntohl(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr) >> 24 == 127;
}

static madi_tcp_subnet_t tcp_subnet_of(const struct ifaddrs *i)
{
    return madi_tcp_subnet(i->ifa_addr, i->ifa_netmask, i->ifa_dstaddr);
}

static bool tcp_same_if(const struct ifaddrs *i, const struct ifaddrs *j)
{
    return i->ifa_addr->sa_family == j->ifa_addr->sa_family && !strcmp(i->ifa_name, j->ifa_name);
}

/* True if this is the interface's first usable address in its subnet. */
static bool tcp_is_first(const struct ifaddrs *all, const struct ifaddrs *i)
{
    madi_tcp_subnet_t subnet = tcp_subnet_of(i), other;
    for (; all != i; all = all->ifa_next)
        if (tcp_usable(all) && tcp_same_if(all, i)) {
            other = tcp_subnet_of(all);
            if (!memcmp(&other, &subnet, sizeof other))
                return false;
        }
    return true;
}

/* Write the name of the adapter to which an interface's first address in a subnet belongs. */
static void tcp_adapter_name(const struct ifaddrs *all, const struct ifaddrs *i, char *name, size_t size)
{
    int number = 1;
    for (const struct ifaddrs *j = all; j != i; j = j->ifa_next)
        number += tcp_usable(j) && tcp_same_if(j, i) && tcp_is_first(all, j);
    if (number > 1)
        snprintf(name, size, "%s/%d.%d", i->ifa_name, tcp_is_v6(i) ? 6 : 4, number);
    else
        snprintf(name, size, "%s%s", i->ifa_name, tcp_is_v6(i) ? "/6" : "");
}

/* Return the address of the adapter with this name; NULL if there is none. */
static const struct ifaddrs *tcp_if_named(const struct ifaddrs *all, const char *name)
{
    size_t len = strcspn(name, "/");
    int family = name[len] && name[len + 1] == '6' ? AF_INET6 : AF_INET, number = 1;
    if (name[len] && sscanf(name + len, "/%*1[46].%6d", &number) != 1 && strcmp(name + len, "/6") != 0)
        return NULL;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (tcp_usable(i) && i->ifa_addr->sa_family == family && strlen(i->ifa_name) == len &&
            !memcmp(i->ifa_name, name, len) && tcp_is_first(all, i) && --number == 0)
            return i;
    return NULL;
}

/* Return how exactly a word of a knob names an adapter: 3 its own name; 2 all adapters of one IP version (eth0/4,
 * eth0/6); 1 all adapters of the interface (eth0, which includes its labels eth0:1); 0 not at all. */
static int tcp_word_names(tcp_word_t word, const char *ifname, const char *name, bool v6)
{
    size_t len = strlen(ifname), stem = strcspn(ifname, ":");
    if (tcp_word_is(word, name))
        return 3;
    if (word.len == len + 2 && !memcmp(word.at, ifname, len) && word.at[len] == '/')
        return word.at[len + 1] == (v6 ? '6' : '4') ? 2 : 0;
    return tcp_word_is(word, ifname) || (word.len == stem && !memcmp(word.at, ifname, stem));
}

/* Loopback has one adapter, unless a knob names its second one, since both reach the same processes. */
static bool tcp_is_chosen(const struct ifaddrs *all, const struct ifaddrs *i, const char *name)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_INTERFACES);
    bool spare = tcp_is_loopback(i) && tcp_is_v6(i) && tcp_if_named(all, i->ifa_name), any = false;
    tcp_word_t word;
    while (tcp_word_next(&list, &word)) {
        any = true;
        if (tcp_word_names(word, i->ifa_name, name, tcp_is_v6(i)) > spare)
            return true;
    }
    return !any && !spare;
}

/* Make adapters also of words in the knob that name nothing, so that their open can report what is wrong. */
static mad_status_t tcp_probe_missing(const madi_driver_t *driver, struct mad_session *session, const struct ifaddrs *all)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_INTERFACES);
    tcp_word_t word;
    while (tcp_word_next(&list, &word)) {
        char name[MADI_NAME_MAX];
        bool found = false;
        for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
            if (!tcp_usable(i))
                continue;
            tcp_adapter_name(all, i, name, sizeof(name));
            found = tcp_is_first(all, i) && tcp_word_names(word, i->ifa_name, name, tcp_is_v6(i));
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
        if (!tcp_usable(i) || !tcp_is_first(all, i))
            continue;
        tcp_adapter_name(all, i, name, sizeof(name));
        if (tcp_is_chosen(all, i, name) && !madi_adapter_found(session, driver, name))
            status = MAD_ERR_NOMEM;
    }
    if (!status)
        status = tcp_probe_missing(driver, session, all);
    freeifaddrs(all);
    return status;
}

/* ---- Network names ---------------------------------------------------------------------------------------------- */

/* Name the loopback network after the kernel's boot and the network namespace's inode: loopback reaches all processes of
 * that namespace, whatever the host's name. */
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

/* Read the name from the knob 'eth0=NAME,eth0/6=NAME2'; the word that names the adapter most exactly counts.  Set network
 * to "" if no word names it. */
static mad_status_t tcp_network_knob(const char *adapter, const struct ifaddrs *i, char *network, char *reason)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_NETWORK);
    tcp_word_t word;
    int best = 0;
    network[0] = 0;
    while (tcp_word_next(&list, &word)) {
        const char *sign = memchr(word.at, '=', word.len);
        tcp_word_t key, value;
        int exact;
        if (!sign || sign == word.at || sign == word.at + word.len - 1) {
            snprintf(reason, MADI_REASON_MAX, "%s: '%.*s' is not INTERFACE=NETWORK", madi_knobs[MADI_KNOB_TCP_NETWORK].name,
                     word.len > 60 ? 60 : (int)word.len, word.at);
            return MAD_ERR_CONFIG;
        }
        key = (tcp_word_t){word.at, (size_t)(sign - word.at)};
        value = (tcp_word_t){sign + 1, word.len - key.len - 1};
        exact = tcp_word_names(key, i->ifa_name, adapter, tcp_is_v6(i));
        if (exact <= best)
            continue;
        if (value.len >= MADI_NAME_MAX) {
            snprintf(reason, MADI_REASON_MAX, "%s: the network name of %s is longer than %d bytes",
                     madi_knobs[MADI_KNOB_TCP_NETWORK].name, adapter, MADI_NAME_MAX - 1);
            return MAD_ERR_CONFIG;
        }
        memcpy(network, value.at, value.len);
        network[value.len] = 0;
        best = exact;
    }
    return MAD_OK;
}

/* Return the madi_security_t of this name; -1 if none. */
static int tcp_security_named(tcp_word_t word)
{
    for (unsigned i = MADI_SECURITY_NONE; i <= MADI_SECURITY_SEAL; i++)
        if (tcp_word_is(word, madi_security_name(i)))
            return (int)i;
    return -1;
}

mad_status_t madi_tcp_security(madi_tcp_adapter_t *tcp, int given, char *reason)
{
    const char *list = madi_knob_text(MADI_KNOB_TCP_SECURITY);
    char ifname[MADI_NAME_MAX];
    int best = -1, found = given < 0 ? MADI_SECURITY_AUTH : given;
    tcp_word_t word;
    snprintf(ifname, sizeof ifname, "%.*s", (int)strcspn(tcp->pub.name, "/"), tcp->pub.name);
    while (tcp_word_next(&list, &word)) {
        const char *sign = memchr(word.at, '=', word.len);
        tcp_word_t key = {word.at, sign ? (size_t)(sign - word.at) : 0}, value = word;
        int security, exact = 0;
        if (sign) {
            value = (tcp_word_t){sign + 1, word.len - key.len - 1};
            exact = tcp_word_names(key, ifname, tcp->pub.name, tcp->self.ss_family == AF_INET6);
        }
        security = tcp_security_named(value);
        if (security < 0 || (sign && !key.len)) {
            snprintf(reason, MADI_REASON_MAX, "%s: '%.*s' is not valid: give none, auth or seal, or INTERFACE=seal",
                     madi_knobs[MADI_KNOB_TCP_SECURITY].name, word.len > 60 ? 60 : (int)word.len, word.at);
            return MAD_ERR_CONFIG;
        }
        if (exact > best && (exact || !sign)) {
            best = exact;
            found = security;
        }
    }
    tcp->pub.security = (uint8_t)found;
    return MAD_OK;
}

/* Describe which adapters exist, for a name that no adapter has. */
static mad_status_t tcp_no_such(const struct ifaddrs *all, const char *name, char *reason)
{
    const char *what = "which this host does not have";
    size_t len;
    char base[MADI_NAME_MAX];
    snprintf(base, sizeof(base), "%.*s", (int)strcspn(name, "/"), name);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next)
        if (!strcmp(i->ifa_name, base))
            what = i->ifa_flags & IFF_UP ? "which has no usable address" : "which is down";
    len = (size_t)snprintf(reason, MADI_REASON_MAX,
                           "%s names %s, %s; usable are:", madi_knobs[MADI_KNOB_TCP_INTERFACES].name, name, what);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        char own[MADI_NAME_MAX];
        if (!tcp_usable(i))
            continue;
        tcp_adapter_name(all, i, own, sizeof(own));
        if (tcp_is_first(all, i) && len + strlen(own) + 2 < MADI_REASON_MAX)
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
    tcp->loopback = tcp_is_loopback(i);
    memcpy(&tcp->self, i->ifa_addr, tcp_is_v6(i) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    tcp->own_subnet = tcp_subnet_of(i);
    status = tcp_network_knob(pub->name, i, pub->network, reason);
    if (status || pub->network[0])
        goto out;
    if (tcp->loopback) {
        tcp_loopback_network(pub->network, tcp_is_v6(i));
    } else {
        tcp->subnet = tcp_subnet_of(i);
        madi_tcp_subnet_name(&tcp->subnet, pub->network);
    }
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

/* Return a listening socket on this port (0: any), or -1 with errno. */
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
    /* Lingering connections of an earlier job must not exhaust the range of ports.  Two listeners still exclude each
     * other, in listen if not in bind. */
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
    pub->address_len = madi_tcp_addr_put(&at, &tcp->subnet, pub->address);
    return MAD_OK;
}
