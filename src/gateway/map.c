/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and paths, from the topology file. */
#include "gateway/map.h"
#include "base/host.h"
#include "base/knob.h"
#include "core/core.h"
#include "topology/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <madeleine.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct madi_map {
    madi_topo_t *topo;
    madi_routes_t **routes; /* routes from this host, by virtual channel; NULL before the first use */
    char **interface;       /* this host's interface on each of its networks; NULL if not given */
    int virtual;            /* virtual channel of lane 0 */
    int self;
    uint64_t hash;
};

#define GIVEN "hex:" /* prefix of a topology text given in place of a file name, in hexadecimal */

static char *text_decode(const char *digits, size_t *len)
{
    size_t n = strlen(digits) / 2;
    char *text = malloc(n + 1);
    if (!text)
        errno = ENOMEM;
    else
        *len = madi_exchange_bytes(digits, (unsigned char *)text, n);
    if (!text || *len == n)
        return text;
    free(text);
    errno = EINVAL;
    return NULL;
}

static mad_status_t text_load(madi_map_t *m, const char *file, char **errors, char *reason)
{
    bool given = !strncmp(file, GIVEN, strlen(GIVEN));
    size_t len;
    char *text = given ? text_decode(file + strlen(GIVEN), &len) : madi_topo_slurp(file, &len);
    mad_status_t status;
    if (!text) {
        snprintf(reason, MADI_REASON_MAX, "MAD_TOPOLOGY: %.120s: %s", given ? GIVEN : file, strerror(errno));
        return MAD_ERR_SYSTEM;
    }
    m->hash = madi_hash(MADI_HASH_START, text, len);
    status = madi_topo_parse(given ? "MAD_TOPOLOGY" : file, text, len, &m->topo, errors);
    free(text);
    if (status)
        snprintf(reason, MADI_REASON_MAX, "%.*s", *errors ? (int)strcspn(*errors, "\n") : 60,
                 *errors ? *errors : mad_status_text(status));
    return status;
}

static bool self_find(madi_map_t *m, char *reason)
{
    char own[256] = "", hint[60];
    const char *name = madi_knob_text(MADI_KNOB_HOST);
    if (!*name) {
        gethostname(own, sizeof own - 1);
        name = own;
    }
    m->self = madi_topo_host_find(m->topo, name);
    if (m->self >= 0)
        return true;
    madi_topo_hint(m->topo, MADI_TOPO_HOST, name, hint, sizeof hint);
    snprintf(reason, MADI_REASON_MAX, "%.50s does not name this host, %.40s%s; see MAD_HOST", m->topo->file, name, hint);
    return false;
}

static bool virtual_find(madi_map_t *m, char *reason)
{
    const char *name = madi_knob_text(MADI_KNOB_VIRTUAL_CHANNEL);
    char hint[60];
    m->virtual = *name ? madi_topo_virtual_find(m->topo, name) : 0;
    if (m->virtual < 0) {
        madi_topo_hint(m->topo, MADI_TOPO_VIRTUAL, name, hint, sizeof hint);
        snprintf(reason, MADI_REASON_MAX, "%.50s has no virtual channel %.40s (MAD_VIRTUAL_CHANNEL)%s", m->topo->file, name,
                 hint);
        return false;
    }
    m->hash += (unsigned)m->virtual;
    return true;
}

/* Return the interface with this address, which may be followed by a prefix length; NULL if none. */
static const char *interface_with(const struct ifaddrs *all, const char *address)
{
    unsigned char wanted[16];
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(address, "/"), address);
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        const void *own = NULL;
        if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET)
            own = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
        else if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET6)
            own = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
        if (own && inet_pton(i->ifa_addr->sa_family, text, wanted) == 1 &&
            !memcmp(own, wanted, i->ifa_addr->sa_family == AF_INET ? 4 : 16))
            return i->ifa_name;
    }
    return NULL;
}

/* Find the interfaces of this host on its networks.  Return false if out of memory. */
static bool interfaces_find(madi_map_t *m)
{
    const madi_topo_host_t *self = &m->topo->host[m->self];
    struct ifaddrs *all = NULL;
    bool done = true;
    m->interface = calloc((size_t)self->ons, sizeof *m->interface);
    if (!m->interface)
        return false;
    if (getifaddrs(&all))
        all = NULL;
    for (int i = 0; i < self->ons && done; i++) {
        const char *name = self->on[i].interface;
        if (!name && self->on[i].address)
            name = interface_with(all, self->on[i].address);
        if (name)
            done = (m->interface[i] = strdup(name)) != NULL;
    }
    if (all)
        freeifaddrs(all);
    return done;
}

madi_map_t *madi_map_open(const char *file, char *reason)
{
    madi_map_t *m = calloc(1, sizeof *m);
    char *errors = NULL;
    if (!m)
        return NULL;
    if (text_load(m, file, &errors, reason))
        goto fail;
    if (!self_find(m, reason) || !virtual_find(m, reason))
        goto fail;
    m->routes = calloc((size_t)m->topo->virtuals, sizeof *m->routes);
    if (m->routes && interfaces_find(m))
        return m;
    snprintf(reason, MADI_REASON_MAX, "%s", mad_status_text(MAD_ERR_NOMEM));
fail:
    free(errors);
    madi_map_close(m);
    return NULL;
}

void madi_map_close(madi_map_t *m)
{
    if (!m)
        return;
    for (int i = 0; m->routes && i < m->topo->virtuals; i++)
        madi_routes_free(m->routes[i]);
    free(m->routes);
    for (int i = 0; m->interface && i < m->topo->host[m->self].ons; i++)
        free(m->interface[i]);
    free(m->interface);
    madi_topo_free(m->topo);
    free(m);
}

int madi_map_hosts(const madi_map_t *m)
{
    return m->topo->hosts;
}

int madi_map_host(const madi_map_t *m, const char *name)
{
    return madi_topo_host_find(m->topo, name);
}

const char *madi_map_name(const madi_map_t *m, int host)
{
    return m->topo->host[host].name;
}

int madi_map_self(const madi_map_t *m)
{
    return m->self;
}

bool madi_map_forwards(const madi_map_t *m)
{
    return m->topo->host[m->self].gateway >= 0;
}

/* ---- Paths ------------------------------------------------------------------------------------------------------ */

/* Return the virtual channel of a lane; -1 if the lane has a single network and no gateways. */
static int virtual_of(const madi_map_t *m, int lane)
{
    return !lane ? m->virtual : lane <= m->topo->virtuals ? lane - 1 : -1;
}

/* Return one of the possible next hosts of the best routes that choice->better accepts: the one at index choice->number
 * modulo the number of these hosts.  Return -1 if none. */
static int next_host_choose(const madi_route_t *route, int count, const madi_map_choice_t *choice)
{
    uint64_t n = 0, wanted = UINT64_MAX;
    for (int round = 0; choice->better && round < 2; round++) {
        for (int i = 0; i < count && route[i].best && route[i].hops > 1; i++)
            for (int k = 0; k < route[i].hop[0].hosts; k++)
                if (choice->better(choice->arg, route[i].hop[0].host[k]) && n++ == wanted)
                    return route[i].hop[0].host[k];
        if (!n)
            return -1;
        wanted = choice->number % n;
        n = 0;
    }
    return -1;
}

static int next_host(const madi_routes_t *routes, int to, const madi_map_choice_t *choice, char *reason)
{
    enum { MOST = 16 };
    int host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX], count = 0, next = -1;
    madi_route_t *route = malloc(MOST * sizeof *route);
    if (route && madi_routes_to(routes, to, route, MOST, &count) == MAD_OK) {
        count = count < MOST ? count : MOST;
        next = next_host_choose(route, count, choice);
        if (next < 0 && madi_route_pick(route, count, choice->number, host, network) > 0)
            next = host[0];
    }
    if (next < 0)
        madi_routes_unreachable(routes, to, reason, MADI_REASON_MAX);
    free(route);
    return next;
}

int madi_map_path(const madi_map_t *m, int lane, int from, int to, int *hosts, int max)
{
    int host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX], count = 0, hops = 0, virtual = virtual_of(m, lane);
    madi_routes_t *routes = NULL;
    madi_route_t route;
    if (virtual >= 0 && madi_routes_new(m->topo, virtual, from, MADI_ROUTE_BYTES, NULL, 0, &routes) == MAD_OK &&
        madi_routes_to(routes, to, &route, 1, &count) == MAD_OK)
        hops = madi_route_pick(&route, 1, 0, host, network);
    madi_routes_free(routes);
    for (int i = 0; i < hops && i < max; i++)
        hosts[i] = host[i];
    return hops;
}

/* Return the next host over the single network of a channel. */
static int next_on_channel(const madi_map_t *m, int lane, int to, char *reason)
{
    const madi_topo_channel_t *channel = &m->topo->channel[lane - 1 - m->topo->virtuals];
    if (madi_topo_host_on(m->topo, m->self, channel->network) && madi_topo_host_on(m->topo, to, channel->network))
        return to;
    snprintf(reason, MADI_REASON_MAX, "channel %.30s stays on the network %.30s, on which %.30s and %.30s are not both",
             channel->name, m->topo->network[channel->network].name, m->topo->host[m->self].name, m->topo->host[to].name);
    return -1;
}

int madi_map_next(const madi_map_t *m, int lane, int to, const madi_map_choice_t *choice, char *reason)
{
    static const madi_map_choice_t any;
    int virtual = virtual_of(m, lane), next = -1;
    madi_route_down_t *down;
    madi_routes_t *routes = NULL;
    if (to == m->self)
        return to;
    if (virtual < 0)
        return next_on_channel(m, lane, to, reason);
    choice = choice ? choice : &any;
    if (!choice->n) {
        if (!m->routes[virtual] &&
            madi_routes_new(m->topo, virtual, m->self, MADI_ROUTE_BYTES, NULL, 0, &m->routes[virtual]))
            return -1;
        return next_host(m->routes[virtual], to, choice, reason);
    }
    down = malloc((size_t)choice->n * sizeof *down);
    for (int i = 0; down && i < choice->n; i++)
        down[i] = (madi_route_down_t){choice->without[i], -1};
    if (down && madi_routes_new(m->topo, virtual, m->self, MADI_ROUTE_BYTES, down, choice->n, &routes) == MAD_OK)
        next = next_host(routes, to, choice, reason);
    madi_routes_free(routes);
    free(down);
    return next;
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------ */

int madi_map_lanes(const madi_map_t *m)
{
    return 1 + m->topo->virtuals + m->topo->channels;
}

int madi_map_lane(const madi_map_t *m, const char *channel)
{
    char name[MAD_CHANNEL_NAME_MAX];
    int virtual, one;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(channel, "/"), channel);
    virtual = madi_topo_virtual_find(m->topo, name);
    one = madi_topo_channel_find(m->topo, name);
    if (virtual >= 0 && m->topo->virtual[virtual].given)
        return 1 + virtual;
    return one >= 0 ? 1 + m->topo->virtuals + one : 0;
}

const char *madi_map_lane_name(const madi_map_t *m, int lane)
{
    if (!lane)
        return "";
    return lane <= m->topo->virtuals ? m->topo->virtual[lane - 1].name : m->topo->channel[lane - 1 - m->topo->virtuals].name;
}

bool madi_map_encrypts(const madi_map_t *m, int lane)
{
    int virtual = virtual_of(m, lane);
    return virtual >= 0 && m->topo->virtual[virtual].encrypts;
}

bool madi_map_encrypts_any(const madi_map_t *m)
{
    bool any = false;
    for (int i = 0; i < m->topo->virtuals; i++)
        any |= m->topo->virtual[i].encrypts;
    return any;
}

/* True if the adapter uses this interface: "eth0" and "eth0/6" of tcp, "mlx5_0:1" of verbs, "tcp+rxm:eth0" of ofi. */
static bool adapter_uses(const char *adapter, const char *interface)
{
    size_t len = strlen(interface);
    const char *domain = strrchr(adapter, ':');
    return (!strncmp(interface, adapter, len) && (!adapter[len] || adapter[len] == '/' || adapter[len] == ':')) ||
           (domain && !strcmp(domain + 1, interface));
}

/* True if the adapter belongs to the i-th network of this host. */
static bool adapter_is_on(const madi_map_t *m, int i, const char *driver, const char *adapter, const char *network)
{
    const madi_topo_network_t *n = &m->topo->network[m->topo->host[m->self].on[i].network];
    return !strcmp(n->driver, driver) &&
           (!strcmp(n->name, network) || (m->interface[i] && *m->interface[i] && adapter_uses(adapter, m->interface[i])));
}

int madi_map_network_index(const madi_map_t *m, int lane, const char *driver, const char *adapter, const char *network,
                           char *reason)
{
    const madi_topo_host_t *self = &m->topo->host[m->self];
    int virtual = virtual_of(m, lane), nets = virtual < 0 ? 1 : m->topo->virtual[virtual].networks, taken = -1;
    const int *net = virtual < 0 ? &m->topo->channel[lane - 1 - m->topo->virtuals].network
                                 : m->topo->virtual[virtual].network;
    bool known = false;
    for (int i = 0; i < m->topo->networks; i++)
        known |= !strcmp(m->topo->network[i].driver, driver);
    if (!known)
        return 0;
    for (int i = 0; i < self->ons && taken < 0; i++)
        if (adapter_is_on(m, i, driver, adapter, network))
            taken = i;
    for (int place = 0; place < nets; place++)
        for (int i = 0; i < self->ons; i++)
            if (self->on[i].network == net[place] && !strcmp(m->topo->network[net[place]].driver, driver) &&
                (taken < 0 ? !m->interface[i] : adapter_is_on(m, i, driver, adapter, network)))
                return place;
    if (reason)
        snprintf(reason, MADI_REASON_MAX, "it is on none of the networks of channel %.60s", madi_map_lane_name(m, lane));
    return -1;
}

const char *madi_map_network(const madi_map_t *m, const char *driver, const char *adapter, const char *network, int host)
{
    const madi_topo_host_t *self = &m->topo->host[m->self];
    const char *name = NULL;
    bool given = false;
    for (int i = 0; i < self->ons; i++)
        given |= adapter_is_on(m, i, driver, adapter, network);
    for (int i = 0; i < self->ons; i++) {
        const madi_topo_network_t *n = &m->topo->network[self->on[i].network];
        if (given ? !adapter_is_on(m, i, driver, adapter, network) : strcmp(n->driver, driver) || m->interface[i])
            continue;
        if (host >= 0 && host != m->self && !madi_topo_host_on(m->topo, host, self->on[i].network))
            continue;
        if (name)
            return NULL;
        name = n->name;
    }
    return name;
}

int madi_map_security(const madi_map_t *m, const char *driver, const char *adapter, const char *network)
{
    const madi_topo_host_t *self = &m->topo->host[m->self];
    bool given = false;
    int most = -1;
    for (int i = 0; i < self->ons; i++)
        given |= adapter_is_on(m, i, driver, adapter, network);
    for (int i = 0; i < self->ons; i++) {
        const madi_topo_network_t *n = &m->topo->network[self->on[i].network];
        if (given ? !adapter_is_on(m, i, driver, adapter, network) : strcmp(n->driver, driver) || m->interface[i])
            continue;
        if ((int)n->security > most)
            most = (int)n->security;
    }
    return most;
}

bool madi_map_drivers_among(const madi_map_t *m, const char *const *drivers)
{
    for (int i = 0; i < m->topo->networks; i++) {
        bool found = false;
        for (int k = 0; drivers[k]; k++)
            found |= !strcmp(drivers[k], m->topo->network[i].driver);
        if (!found)
            return false;
    }
    return true;
}

size_t madi_map_bytes_in(const madi_map_t *m, int us)
{
    int64_t slowest = INT64_MAX / us;
    for (int i = 0; i < m->topo->networks; i++)
        if (m->topo->network[i].bandwidth_given && m->topo->network[i].bandwidth < slowest)
            slowest = m->topo->network[i].bandwidth;
    return (size_t)(slowest * us / 1000000) & ~(size_t)4095;
}

uint64_t madi_map_hash(const madi_map_t *m)
{
    return m->hash;
}
