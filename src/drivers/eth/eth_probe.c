/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: interfaces, names of networks, addresses.
 *
 * Each Ethernet interface that is up gives one adapter of its name.  Two adapters communicate if both are on one segment.  A
 * segment has no name of its own: its network is called after the IPv4 subnet of the interface, or by MAD_ETH_NETWORK. */
#include "drivers/eth/eth.h"

#include "base/knob.h"
#include "base/log.h"
#include "base/random.h"
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NOTHING "none" /* name of the adapter that is listed if there is no interface; opening it reports that */

/* True if an interface can carry frames; *why is set if not. */
static bool interface_is_usable(const struct ifaddrs *i, const char **why)
{
    const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)i->ifa_addr;
    bool ethernet = ll->sll_hatype == ARPHRD_ETHER && ll->sll_halen == ETH_MAC && !(i->ifa_flags & IFF_LOOPBACK);
    bool up = (i->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    *why = !ethernet ? "is not Ethernet" : "is down";
    return ethernet && up;
}

static bool is_card(const struct ifaddrs *i)
{
    return i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET;
}

/* Find a word of a comma-separated list that is `name`, or begins with `name=`.  Return the text behind that, and its length
 * in *len; NULL if there is none. */
static const char *word_find(const char *list, const char *name, size_t *len)
{
    size_t n = strlen(name);
    for (const char *at = list; *at;) {
        at += strspn(at, ", ");
        size_t word = strcspn(at, ", ");
        if (word >= n && !memcmp(at, name, n) && (word == n || at[n] == '=')) {
            *len = word == n ? 0 : word - n - 1;
            return at + n + (word > n);
        }
        at += word;
    }
    return NULL;
}

static bool interface_is_chosen(const char *name)
{
    const char *list = madi_knob_text(MADI_KNOB_ETH_INTERFACES);
    size_t len;
    return !list[strspn(list, ", ")] || word_find(list, name, &len);
}

/* Make adapters for the names in the knob that no interface has, so that opening them reports the problem. */
static bool missing_add(const madi_driver_t *driver, struct mad_session *session, const struct ifaddrs *all)
{
    for (const char *at = madi_knob_text(MADI_KNOB_ETH_INTERFACES); *at;) {
        char name[MADI_NAME_MAX];
        const char *why;
        bool found = false;
        at += strspn(at, ", ");
        size_t len = strcspn(at, ", ");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        at += len;
        for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
            found = is_card(i) && interface_is_usable(i, &why) && !strcmp(i->ifa_name, name);
        if (len && !found && !madi_adapter_found(session, driver, name))
            return false;
    }
    return true;
}

mad_status_t eth_probe(const madi_driver_t *driver, struct mad_session *session)
{
    struct ifaddrs *all;
    const char *why;
    bool listed = true, any = false;
    if (getifaddrs(&all) < 0)
        return errno == ENOMEM ? MAD_ERR_NOMEM : MAD_OK;
    for (const struct ifaddrs *i = all; i && listed; i = i->ifa_next) {
        if (!is_card(i) || !interface_is_usable(i, &why) || !interface_is_chosen(i->ifa_name))
            continue;
        listed = madi_adapter_found(session, driver, i->ifa_name);
        any = true;
    }
    if (listed)
        listed = missing_add(driver, session, all);
    if (listed && !any && !*madi_knob_text(MADI_KNOB_ETH_INTERFACES))
        listed = madi_adapter_found(session, driver, NOTHING);
    freeifaddrs(all);
    return listed ? MAD_OK : MAD_ERR_NOMEM;
}

/* ---- An adapter's interface ------------------------------------------------------------------------------------- */

/* Set the name of the network to which an interface is connected. */
static bool network_name(eth_adapter_t *a, const struct ifaddrs *all, char *reason)
{
    size_t len;
    const char *name = word_find(madi_knob_text(MADI_KNOB_ETH_NETWORK), a->base.name, &len);
    if (name && len && len < MADI_NAME_MAX) {
        snprintf(a->base.network, MADI_NAME_MAX, "%.*s", (int)len, name);
        return true;
    }
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !i->ifa_netmask || strcmp(i->ifa_name, a->base.name) != 0)
            continue;
        struct in_addr ip = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
        struct in_addr mask = ((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr;
        char text[INET_ADDRSTRLEN];
        ip.s_addr &= mask.s_addr;
        inet_ntop(AF_INET, &ip, text, sizeof text);
        snprintf(a->base.network, MADI_NAME_MAX, "eth:%s/%d", text, __builtin_popcount(mask.s_addr));
        return true;
    }
    snprintf(reason, MADI_REASON_MAX, "%.40s has no IPv4 subnet that could name its network: set MAD_ETH_NETWORK=%.40s=NAME",
             a->base.name, a->base.name);
    return false;
}

static bool interface_query(const char *name, unsigned long what, struct ifreq *r)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(r->ifr_name, sizeof r->ifr_name, "%.15s", name);
    bool done = fd >= 0 && !ioctl(fd, what, r);
    if (fd >= 0)
        close(fd);
    return done;
}

/* True if nothing checks the frames between here and the peer: a card has a check sum in hardware (FCS), and the two ends of a
 * veth share memory; a virtual card may go through other processes. */
static bool sum_is_needed(const char *name)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq r = {.ifr_data = (void *)&info};
    char path[64];
    int64_t knob = madi_knob_int(MADI_KNOB_ETH_CHECKSUM);
    if (knob >= 0)
        return knob;
    if (interface_query(name, SIOCETHTOOL, &r) && (!strcmp(info.driver, "veth") || !strcmp(info.driver, "virtio_net")))
        return info.driver[1] == 'i';
    snprintf(path, sizeof path, "/sys/class/net/%.15s/device", name);
    return access(path, F_OK) != 0;
}

void eth_mtu_set(eth_adapter_t *a, unsigned mtu)
{
    a->mtu = mtu;
    a->self.mtu[0] = mtu & 255;
    a->self.mtu[1] = (uint8_t)(mtu >> 8);
}

unsigned eth_mtu_query(const eth_adapter_t *a)
{
    struct ifreq r = {0};
    unsigned mtu = interface_query(a->base.name, SIOCGIFMTU, &r) && r.ifr_mtu > 0 ? (unsigned)r.ifr_mtu : 1500;
    return mtu < UINT16_MAX ? mtu : UINT16_MAX;
}

static bool interface_take(eth_adapter_t *a, const struct ifaddrs *i, char *reason)
{
    const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)i->ifa_addr;
    a->ifindex = ll->sll_ifindex;
    memcpy(a->self.mac, ll->sll_addr, ETH_MAC);
    a->mtu = eth_mtu_query(a);
    if (a->mtu < ETH_MTU_MIN) {
        snprintf(reason, MADI_REASON_MAX, "the MTU of %.40s is %u, less than %d", a->base.name, a->mtu, ETH_MTU_MIN);
        return false;
    }
    if (!madi_random(&a->port, sizeof a->port)) {
        snprintf(reason, MADI_REASON_MAX, "no random numbers");
        return false;
    }
    for (int n = 0; n < 4; n++)
        a->self.port[n] = (uint8_t)(a->port >> 8 * n);
    eth_mtu_set(a, a->mtu);
    a->sum = sum_is_needed(i->ifa_name);
    return true;
}

mad_status_t eth_interface_find(eth_adapter_t *a, char *reason)
{
    struct ifaddrs *all;
    const char *why = "does not exist";
    if (getifaddrs(&all) < 0) {
        snprintf(reason, MADI_REASON_MAX, "the interfaces cannot be listed: %s%s", strerror(errno), madi_remedy(errno));
        return MAD_ERR_SYSTEM;
    }
    const struct ifaddrs *i = all;
    for (; i; i = i->ifa_next)
        if (is_card(i) && !strcmp(i->ifa_name, a->base.name) && interface_is_usable(i, &why))
            break;
    bool found = i && interface_take(a, i, reason) && network_name(a, all, reason);
    if (!i && !strcmp(a->base.name, NOTHING))
        snprintf(reason, MADI_REASON_MAX, "no Ethernet interface is up");
    else if (!i)
        snprintf(reason, MADI_REASON_MAX, "interface %.40s %s", a->base.name, why);
    freeifaddrs(all);
    return found ? MAD_OK : MAD_ERR_CONFIG;
}
