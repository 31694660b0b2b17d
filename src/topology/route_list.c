/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes in order, by a best-first search backwards from the destination.  The distance of every gateway from
 * the source is known, so the search expands no gateway twice before the best route is complete. */
#include "topology/graph.h"

#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 200000 /* maximum number of partial routes kept; beyond that the list ends early */
#define DESTINATION (-1)
#define SOURCE (-2)

/* A partial route: from node to the destination. */
typedef struct route_part {
    madi_route_key_t behind; /* key of the part from node to the destination */
    /* lower bound of the key of the whole route, which assumes the best path from the source to node */
    madi_route_key_t whole;
    int node; /* a relay */
    int next; /* index of the part that follows, reached over `network`; -1 at the destination */
    int network;
} route_part_t;

typedef struct listing {
    const madi_routes_t *r;
    int to, *net;
    madi_route_nets_t nets; /* usable networks of the destination */
    route_part_t *part;
    int parts, size;
    madi_heap_t heap;
    bool failed;
} listing_t;

static madi_route_key_t part_key_sum(madi_route_key_t a, madi_route_key_t b)
{
    return (madi_route_key_t){a.cost + b.cost, a.hops + b.hops, a.later + b.later};
}

/* Order the parts of routes.  Among equal parts the longest comes first, so that routes are completed one by one. */
static bool part_before(const void *arg, int a, int b)
{
    const listing_t *l = arg;
    int order = madi_route_compare(l->part[a].whole, l->part[b].whole);
    return order < 0 || (order == 0 && (l->part[a].behind.hops > l->part[b].behind.hops ||
                                        (l->part[a].behind.hops == l->part[b].behind.hops && a < b)));
}

static void listing_part_add(listing_t *l, route_part_t part)
{
    if (part.behind.hops > MADI_ROUTE_HOPS_MAX || l->parts == PARTS_MAX)
        return;
    if (l->parts == l->size) {
        int size = l->size ? 2 * l->size : 64;
        route_part_t *more = realloc(l->part, (size_t)size * sizeof *more);
        if (!more) {
            l->failed = true;
            return;
        }
        l->part = more;
        l->size = size;
    }
    l->part[l->parts] = part;
    l->failed |= !madi_heap_push(&l->heap, l->parts++);
}

static bool crossed(const listing_t *l, int at, int network)
{
    for (; l->part[at].next >= 0; at = l->part[at].next)
        if (l->part[at].network == network)
            return true;
    return false;
}

/* True if a route may pass this relay.  Hosts equivalent to either end, or to a host already passed, are
 * useless, unless some of these hosts are partly down. */
static bool listing_passes(const listing_t *l, int at, int y)
{
    const madi_routes_t *r = l->r;
    const madi_route_relay_t *relay = &r->relay[y];
    int kind = r->topo->host[relay->host[0]].kind;
    bool alone = relay->hosts < r->topo->kind[kind].hosts;
    if (!alone && (kind == r->topo->host[r->source].kind || kind == r->topo->host[l->to].kind))
        return false;
    if (relay->hosts == 1 && (relay->host[0] == r->source || relay->host[0] == l->to))
        return false;
    for (; l->part[at].next >= 0; at = l->part[at].next)
        if (l->part[at].node == y)
            return false;
    return true;
}

/* Extend a part by every possible hop backwards. */
static void extend(listing_t *l, int at)
{
    const madi_routes_t *r = l->r;
    route_part_t p = l->part[at];
    madi_route_nets_t nets = p.node == DESTINATION ? l->nets : r->relay[p.node].on;
    for (int i = 0; i < nets.nets && !l->failed; i++) {
        int n = nets.net[i];
        madi_route_key_t behind;
        if (crossed(l, at, n))
            continue;
        if (madi_route_on(r->from, n)) {
            behind = part_key_sum(p.behind, madi_route_edge(r, r->from, nets, n));
            listing_part_add(l, (route_part_t){behind, behind, SOURCE, at, n});
        }
        for (int j = r->first[n]; j < r->first[n + 1] && !l->failed; j++) {
            int y = r->at[j];
            if (r->relay[y].far.cost < 0 || !listing_passes(l, at, y))
                continue;
            behind = part_key_sum(p.behind, madi_route_edge(r, r->relay[y].on, nets, n));
            listing_part_add(l, (route_part_t){behind, part_key_sum(behind, r->relay[y].far), y, at, n});
        }
    }
}

static void route_make(const listing_t *l, int at, bool best, madi_route_t *route)
{
    const madi_routes_t *r = l->r;
    *route = (madi_route_t){.later = l->part[at].behind.later, .best = best, .ways = 1};
    for (; l->part[at].next >= 0; at = l->part[at].next) {
        const madi_topo_network_t *n = &r->topo->network[l->part[at].network];
        const route_part_t *next = &l->part[l->part[at].next];
        madi_route_hop_t *hop = &route->hop[route->hops];
        *hop = (madi_route_hop_t){l->part[at].network, &r->topo->kind[r->topo->host[l->to].kind].host[0], 1};
        if (next->node >= 0) {
            hop->host = r->relay[next->node].host;
            hop->hosts = r->relay[next->node].hosts;
        } else {
            for (hop->host = r->topo->kind[r->topo->host[l->to].kind].host; *hop->host != l->to; hop->host++)
                ;
        }
        route->ways *= hop->hosts;
        route->cost_ps += r->cost[hop->network];
        route->latency_ps += n->latency_ps;
        if (!route->hops++ || n->bandwidth < route->bandwidth)
            route->bandwidth = n->bandwidth;
    }
}

mad_status_t madi_routes_to(const madi_routes_t *r, int to, madi_route_t *route, int max, int *count)
{
    listing_t l = {.r = r, .to = to, .heap = {.less = part_before}};
    madi_route_key_t best = {-1, 0, 0};
    int n = 0;
    if (to == r->source) {
        *route = (madi_route_t){.best = true, .ways = 1};
        *count = 1;
        return MAD_OK;
    }
    l.net = malloc((size_t)r->topo->host[to].ons * sizeof *l.net);
    if (!l.net)
        return MAD_ERR_NOMEM;
    l.heap.arg = &l;
    l.nets = madi_route_nets(r, to, l.net);
    listing_part_add(&l, (route_part_t){.node = DESTINATION, .next = -1});
    while (n < max && l.heap.count && !l.failed) {
        int at = madi_heap_pop(&l.heap);
        if (l.part[at].node != SOURCE) {
            extend(&l, at);
            continue;
        }
        if (best.cost < 0)
            best = l.part[at].behind;
        route_make(&l, at, madi_route_compare(best, l.part[at].behind) == 0, &route[n++]);
    }
    madi_heap_fini(&l.heap);
    free(l.part);
    free(l.net);
    if (l.failed)
        return MAD_ERR_NOMEM;
    if (!n)
        return MAD_ERR_UNREACHABLE;
    *count = n;
    return MAD_OK;
}

int madi_route_pick(const madi_route_t *route, int count, uint64_t number, int host[MADI_ROUTE_HOPS_MAX],
                    int network[MADI_ROUTE_HOPS_MAX])
{
    const madi_route_t *picked = route;
    double all = route->ways;
    uint64_t rest = number;
    for (int i = 1; i < count && route[i].best; i++)
        all += route[i].ways;
    if (all < 1e18)
        rest %= (uint64_t)all;
    while (picked + 1 < route + count && picked[1].best && (double)rest >= picked->ways)
        rest -= (uint64_t)picked++->ways;
    for (int i = 0; i < picked->hops; i++) {
        const madi_route_hop_t *hop = &picked->hop[i];
        host[i] = hop->host[rest % (uint64_t)hop->hosts];
        rest /= (uint64_t)hop->hosts;
        network[i] = hop->network;
    }
    return picked->hops;
}
