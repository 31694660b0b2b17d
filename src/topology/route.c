/* SPDX-License-Identifier: BSD-3-Clause */
/* Distances of all gateways from one host. */
#include "topology/graph.h"

#include <stdlib.h>
#include <string.h>

/* ps: largest cost of one hop, so that the sum of a route's hops does not overflow */
#define HOP_COST_MAX INT64_C(10000000000000000)

int madi_route_compare(madi_route_key_t a, madi_route_key_t b)
{
    if (a.cost != b.cost)
        return a.cost < b.cost ? -1 : 1;
    if (a.hops != b.hops)
        return a.hops < b.hops ? -1 : 1;
    return (a.later > b.later) - (a.later < b.later);
}

/* ---- Networks and hops ------------------------------------------------------------------------------------------ */

static int64_t hop_cost(const madi_topo_network_t *n, int64_t bytes)
{
    unsigned __int128 cost = (unsigned __int128)bytes * 1000000000000u / (uint64_t)n->bandwidth + (uint64_t)n->latency_ps;
    return cost > (unsigned __int128)HOP_COST_MAX ? HOP_COST_MAX : (int64_t)cost;
}

static bool costs_make(madi_routes_t *r, int64_t bytes)
{
    const madi_topo_t *topo = r->topo;
    r->cost = madi_topo_alloc(&r->arena, (size_t)topo->networks, sizeof *r->cost);
    r->rank = madi_topo_alloc(&r->arena, (size_t)topo->networks, sizeof *r->rank);
    if (!r->cost || !r->rank)
        return false;
    for (int n = 0; n < topo->networks; n++)
        r->cost[n] = -1;
    for (int i = 0; i < r->virtual->networks; i++) {
        int n = r->virtual->network[i];
        r->cost[n] = hop_cost(&topo->network[n], bytes);
        r->rank[n] = i;
    }
    for (int i = 0; i < r->downs; i++)
        if (r->down[i].host < 0)
            r->cost[r->down[i].network] = -1;
    return true;
}

bool madi_route_up(const madi_routes_t *r, int host, int network)
{
    for (int i = 0; i < r->downs; i++)
        if (r->down[i].host == host && (r->down[i].network < 0 || r->down[i].network == network))
            return false;
    return r->cost[network] >= 0;
}

madi_route_nets_t madi_route_nets(const madi_routes_t *r, int host, int *net)
{
    const madi_topo_host_t *h = &r->topo->host[host];
    madi_route_nets_t nets = {net, 0};
    for (int i = 0; i < h->ons; i++)
        if (madi_route_up(r, host, h->on[i].network))
            net[nets.nets++] = h->on[i].network;
    return nets;
}

bool madi_route_on(madi_route_nets_t nets, int network)
{
    for (int i = 0; i < nets.nets; i++)
        if (nets.net[i] == network)
            return true;
    return false;
}

madi_route_key_t madi_route_edge(const madi_routes_t *r, madi_route_nets_t a, madi_route_nets_t b, int network)
{
    madi_route_key_t key = {r->cost[network], 1, 0};
    int64_t cheapest = key.cost;
    if (!r->virtual->given)
        return key;
    for (int i = 0, j = 0; i < a.nets && j < b.nets;) {
        int n = a.net[i];
        if (n != b.net[j]) {
            n < b.net[j] ? i++ : j++;
            continue;
        }
        if (r->cost[n] < cheapest)
            cheapest = r->cost[n];
        if (r->rank[n] < r->rank[network])
            key.later = 1;
        i++, j++;
    }
    if (!key.later)
        key.cost = cheapest;
    return key;
}

/* ---- Gateways --------------------------------------------------------------------------------------------------- */

static bool host_listed(const madi_routes_t *r, int host)
{
    for (int i = 0; i < r->downs; i++)
        if (r->down[i].host == host)
            return true;
    return false;
}

/* Add a relay of gateways that share the networks of the first one, if at least two of these are usable. */
static bool relay_add(madi_routes_t *r, const int *host, int hosts)
{
    const madi_topo_host_t *h = &r->topo->host[host[0]];
    int *net = madi_topo_alloc(&r->arena, (size_t)h->ons, sizeof *net), nets = 0;
    if (!net)
        return false;
    for (int i = 0; i < h->ons; i++)
        if (madi_route_up(r, host[0], h->on[i].network) && madi_topo_forwards(r->topo, host[0], h->on[i].network))
            net[nets++] = h->on[i].network;
    if (nets < 2)
        return true;
    r->relay = madi_topo_grow(&r->arena, r->relay, r->relays, sizeof *r->relay);
    if (!r->relay)
        return false;
    r->relay[r->relays++] = (madi_route_relay_t){.on = {net, nets}, .host = host, .hosts = hosts, .far = {-1, 0, 0}};
    return true;
}

/* Add the gateways of a kind.  Each gateway that is partly down becomes a relay of its own. */
static bool kind_add(madi_routes_t *r, const madi_topo_kind_t *kind)
{
    int *kept, n = 0, special = 0;
    for (int i = 0; i < r->downs; i++)
        special += r->down[i].host >= 0 && &r->topo->kind[r->topo->host[r->down[i].host].kind] == kind;
    if (!special)
        return relay_add(r, kind->host, kind->hosts);
    kept = madi_topo_alloc(&r->arena, (size_t)kind->hosts, sizeof *kept);
    if (!kept)
        return false;
    for (int i = 0; i < kind->hosts; i++)
        if (!host_listed(r, kind->host[i]))
            kept[n++] = kind->host[i];
        else if (kind->host[i] != r->source && !relay_add(r, &kind->host[i], 1))
            return false;
    return n == 0 || relay_add(r, kept, n);
}

static bool relays_make(madi_routes_t *r)
{
    const madi_topo_t *topo = r->topo;
    int sum = 0;
    for (int k = 0; k < topo->kinds; k++)
        if (topo->kind[k].gateway >= 0 && !kind_add(r, &topo->kind[k]))
            return false;
    r->first = madi_topo_alloc(&r->arena, (size_t)topo->networks + 1, sizeof *r->first);
    if (!r->first)
        return false;
    for (int y = 0; y < r->relays; y++)
        for (int i = 0; i < r->relay[y].on.nets; i++)
            r->first[r->relay[y].on.net[i]]++;
    for (int n = 0; n <= topo->networks; n++)
        /* end of the slice of network n, because slices are filled backwards */
        r->first[n] = sum += n < topo->networks ? r->first[n] : 0;
    r->at = madi_topo_alloc(&r->arena, (size_t)sum + 1, sizeof *r->at);
    for (int y = r->relays - 1; r->at && y >= 0; y--)
        for (int i = 0; i < r->relay[y].on.nets; i++)
            r->at[--r->first[r->relay[y].on.net[i]]] = y;
    return r->at != NULL;
}

/* ---- Distances -------------------------------------------------------------------------------------------------- */

static madi_route_key_t route_key_sum(madi_route_key_t a, madi_route_key_t b)
{
    return (madi_route_key_t){a.cost + b.cost, a.hops + b.hops, a.later + b.later};
}

/* Heap entry.  A relay that was later reached on a shorter path has several entries; only the first one popped counts. */
typedef struct route_entry {
    madi_route_key_t key;
    int relay;
} route_entry_t;

typedef struct route_search {
    madi_routes_t *r;
    madi_heap_t heap;
    route_entry_t *entry;
    int entries, size;
    bool failed;
} route_search_t;

static bool host_nearer(const void *arg, int a, int b)
{
    const route_search_t *s = arg;
    return madi_route_compare(s->entry[a].key, s->entry[b].key) < 0;
}

static void search_reach(route_search_t *s, int y, madi_route_key_t key)
{
    madi_route_relay_t *relay = &s->r->relay[y];
    if (key.later || key.hops >= MADI_ROUTE_HOPS_MAX || (relay->far.cost >= 0 && madi_route_compare(relay->far, key) <= 0))
        return;
    if (s->entries == s->size) {
        int size = s->size ? 2 * s->size : 64;
        route_entry_t *more = realloc(s->entry, (size_t)size * sizeof *more);
        if (!more) {
            s->failed = true;
            return;
        }
        s->entry = more;
        s->size = size;
    }
    relay->far = key;
    s->entry[s->entries] = (route_entry_t){key, y};
    s->failed |= !madi_heap_push(&s->heap, s->entries++);
}

static void reach_from(route_search_t *s, madi_route_nets_t nets, madi_route_key_t far)
{
    const madi_routes_t *r = s->r;
    for (int i = 0; i < nets.nets; i++)
        for (int j = r->first[nets.net[i]]; j < r->first[nets.net[i] + 1]; j++)
            search_reach(s, r->at[j], route_key_sum(far, madi_route_edge(r, nets, r->relay[r->at[j]].on, nets.net[i])));
}

/* Return the number of best routes that reach hosts on these networks at the distance `far`. */
static double ways_to(const madi_routes_t *r, madi_route_nets_t nets, madi_route_key_t far)
{
    double ways = 0;
    for (int i = 0; i < nets.nets; i++) {
        int n = nets.net[i];
        if (madi_route_on(r->from, n) && madi_route_compare(madi_route_edge(r, r->from, nets, n), far) == 0)
            ways += 1;
        for (int j = r->first[n]; j < r->first[n + 1]; j++) {
            const madi_route_relay_t *x = &r->relay[r->at[j]];
            if (x->far.cost >= 0 && x->far.cost < far.cost &&
                madi_route_compare(route_key_sum(x->far, madi_route_edge(r, x->on, nets, n)), far) == 0)
                ways += x->ways;
        }
    }
    return ways;
}

static bool routes_distances(madi_routes_t *r)
{
    route_search_t s = {.r = r, .heap = {.less = host_nearer}};
    s.heap.arg = &s;
    reach_from(&s, r->from, (madi_route_key_t){0, 0, 0});
    while (s.heap.count && !s.failed) {
        route_entry_t e = s.entry[madi_heap_pop(&s.heap)];
        madi_route_relay_t *x = &r->relay[e.relay];
        if (madi_route_compare(e.key, x->far) != 0 || x->ways > 0)
            continue;
        x->ways = ways_to(r, x->on, x->far) * x->hosts;
        reach_from(&s, x->on, x->far);
    }
    madi_heap_fini(&s.heap);
    free(s.entry);
    return !s.failed;
}

mad_status_t madi_routes_new(const madi_topo_t *topo, int virtual, int source, int64_t bytes, const madi_route_down_t *down,
                             int downs, madi_routes_t **routes)
{
    madi_routes_t *r = calloc(1, sizeof *r);
    madi_route_down_t *kept = NULL;
    int *net = NULL;
    if (!r)
        return MAD_ERR_NOMEM;
    *r = (madi_routes_t){.topo = topo, .virtual = &topo->virtual[virtual], .source = source, .downs = downs};
    kept = madi_topo_alloc(&r->arena, (size_t)downs + 1, sizeof *kept);
    net = madi_topo_alloc(&r->arena, (size_t)topo->host[source].ons, sizeof *net);
    if (!kept || !net)
        goto free_it;
    if (downs)
        memcpy(kept, down, (size_t)downs * sizeof *kept);
    r->down = kept;
    if (!costs_make(r, bytes))
        goto free_it;
    r->from = madi_route_nets(r, source, net);
    if (!relays_make(r) || !routes_distances(r))
        goto free_it;
    *routes = r;
    return MAD_OK;
free_it:
    madi_routes_free(r);
    return MAD_ERR_NOMEM;
}

void madi_routes_free(madi_routes_t *r)
{
    if (!r)
        return;
    madi_topo_arena_fini(&r->arena);
    free(r);
}

/* Return the distance of a host on these networks; cost -1 if it is unreachable. */
static madi_route_key_t far_of(const madi_routes_t *r, madi_route_nets_t nets)
{
    madi_route_key_t best = {-1, 0, 0}, key;
    for (int i = 0; i < nets.nets; i++) {
        int n = nets.net[i];
        if (madi_route_on(r->from, n)) {
            key = madi_route_edge(r, r->from, nets, n);
            if (!key.later && (best.cost < 0 || madi_route_compare(key, best) < 0))
                best = key;
        }
        for (int j = r->first[n]; j < r->first[n + 1]; j++) {
            const madi_route_relay_t *x = &r->relay[r->at[j]];
            if (x->far.cost < 0)
                continue;
            key = route_key_sum(x->far, madi_route_edge(r, x->on, nets, n));
            if (!key.later && (best.cost < 0 || madi_route_compare(key, best) < 0))
                best = key;
        }
    }
    return best;
}

double madi_routes_ways(const madi_routes_t *r, int to)
{
    int *net = malloc((size_t)r->topo->host[to].ons * sizeof *net);
    madi_route_nets_t nets;
    madi_route_key_t far;
    double ways = 0;
    if (!net)
        return 0;
    nets = madi_route_nets(r, to, net);
    far = far_of(r, nets);
    if (to == r->source)
        ways = 1;
    else if (far.cost >= 0)
        ways = ways_to(r, nets, far);
    free(net);
    return ways;
}
