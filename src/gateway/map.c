/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts and ways, from the topology file. */
#include "gateway/map.h"
#include "base/knob.h"
#include "topology/route.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct madi_map {
    madi_topo_t *topo;
    madi_routes_t *routes;
    int virtual; /* the channel that is used */
    int self;
    uint64_t hash;
};

/* FNV-1a of the bytes of the file. */
static bool file_hash(const char *file, uint64_t *hash)
{
    FILE *f = fopen(file, "re");
    int c;
    if (!f)
        return false;
    *hash = UINT64_C(0xcbf29ce484222325);
    while ((c = getc(f)) != EOF)
        *hash = (*hash ^ (unsigned)c) * UINT64_C(0x100000001b3);
    fclose(f);
    return true;
}

static bool find_self(madi_map_t *m, char *reason)
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

static bool find_virtual(madi_map_t *m, char *reason)
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

madi_map_t *madi_map_open(const char *file, char *reason)
{
    madi_map_t *m = calloc(1, sizeof *m);
    char *errors = NULL;
    mad_status_t status;
    if (!m)
        return NULL;
    if (!file_hash(file, &m->hash)) {
        snprintf(reason, MADI_REASON_MAX, "MAD_TOPOLOGY: %.120s: %s", file, strerror(errno));
        goto fail;
    }
    status = madi_topo_load(file, &m->topo, &errors);
    if (status) {
        snprintf(reason, MADI_REASON_MAX, "%.*s", errors ? (int)strcspn(errors, "\n") : 60,
                 errors ? errors : mad_status_text(status));
        goto fail;
    }
    if (!find_self(m, reason) || !find_virtual(m, reason))
        goto fail;
    status = madi_routes_new(m->topo, m->virtual, m->self, MADI_ROUTE_BYTES, NULL, 0, &m->routes);
    if (status) {
        snprintf(reason, MADI_REASON_MAX, "%s", mad_status_text(status));
        goto fail;
    }
    return m;
fail:
    free(errors);
    madi_map_close(m);
    return NULL;
}

void madi_map_close(madi_map_t *m)
{
    if (!m)
        return;
    madi_routes_free(m->routes);
    madi_topo_free(m->topo);
    free(m);
}

bool madi_map_channel(const madi_map_t *m, const char *name, char *reason)
{
    int v = madi_topo_virtual_find(m->topo, name);
    const madi_topo_virtual_t *used = &m->topo->virtual[m->virtual], *named = v < 0 ? used : &m->topo->virtual[v];
    if (named->networks == used->networks &&
        !memcmp(named->network, used->network, (size_t)used->networks * sizeof *used->network))
        return true;
    snprintf(reason, MADI_REASON_MAX,
             "%.40s has a virtual channel called so, with networks of its own, and this program uses those of %.40s; "
             "see MAD_VIRTUAL_CHANNEL",
             m->topo->file, used->name);
    return false;
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

static int next_of(const madi_routes_t *routes, int to, uint64_t number, char *reason)
{
    enum { MOST = 16 };
    int host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX], count = 0, next = -1;
    madi_route_t *route = malloc(MOST * sizeof *route);
    if (route && madi_routes_to(routes, to, route, MOST, &count) == MAD_OK &&
        madi_route_pick(route, count < MOST ? count : MOST, number, host, network) > 0)
        next = host[0];
    else
        madi_routes_unreachable(routes, to, reason, MADI_REASON_MAX);
    free(route);
    return next;
}

int madi_map_way(const madi_map_t *m, int from, int to, int *hosts, int max)
{
    int host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX], count = 0, hops = 0;
    madi_routes_t *routes = NULL;
    madi_route_t route;
    if (madi_routes_new(m->topo, 0, from, MADI_ROUTE_BYTES, NULL, 0, &routes) == MAD_OK &&
        madi_routes_to(routes, to, &route, 1, &count) == MAD_OK)
        hops = madi_route_pick(&route, 1, 0, host, network);
    madi_routes_free(routes);
    for (int i = 0; i < hops && i < max; i++)
        hosts[i] = host[i];
    return hops;
}

int madi_map_next(const madi_map_t *m, int to, uint64_t number, const int *without, int n, char *reason)
{
    madi_route_down_t *down;
    madi_routes_t *routes = NULL;
    int next = -1;
    if (to == m->self)
        return to;
    if (!n)
        return next_of(m->routes, to, number, reason);
    down = malloc((size_t)n * sizeof *down);
    for (int i = 0; down && i < n; i++)
        down[i] = (madi_route_down_t){without[i], -1};
    if (down && madi_routes_new(m->topo, 0, m->self, MADI_ROUTE_BYTES, down, n, &routes) == MAD_OK)
        next = next_of(routes, to, number, reason);
    madi_routes_free(routes);
    free(down);
    return next;
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
