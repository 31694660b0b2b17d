/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes over a virtual channel: from one host to any other, through gateways.
 *
 * The cost of a hop is latency + bytes / bandwidth of its network: the time that each fragment of that size takes.  The
 * cost of a route is the sum over its hops.  (A long message uses all networks at the same time, at the speed of the
 * slowest one, which is reported too.) The best routes have the least cost and, among those, the fewest hops.  All of
 * them are kept, so that connections can be spread over them.
 *
 * If the file gives the networks of a virtual channel an order of preference, and two hosts share several of them, the
 * hop uses the first of them; but routes are compared as if the hop had the cost of the cheapest one.
 *
 * Equivalent hosts (madi_topo_kind_t) count as one. madi_routes_new needs memory for each kind of gateways and each
 * network, not for each host, and time for each pair of kinds of gateways that share a network.  Components that are
 * down are arguments; when they change, make a new object.  Several threads may query one object at a time. */
#ifndef MADI_TOPOLOGY_ROUTE_H
#define MADI_TOPOLOGY_ROUTE_H

#include "topology/topology.h"

#define MADI_ROUTE_HOPS_MAX 32
#define MADI_ROUTE_BYTES 65536 /* default size of a fragment */

/* Components that are down: host -1: the whole network; network -1: the whole host; else the host on this network. */
typedef struct madi_route_down {
    int host, network;
} madi_route_down_t;

typedef struct madi_routes madi_routes_t;

/* Compute the routes from the host `source` over the virtual channel with the index `virtual`.  bytes: size of a
 * fragment, 0 to 1 TiB.  The topology must outlive *routes, which the caller owns.  MAD_ERR_NOMEM. */
mad_status_t madi_routes_new(const madi_topo_t *topo, int virtual, int source, int64_t bytes, const madi_route_down_t *down,
                             int downs, madi_routes_t **routes);
void madi_routes_free(madi_routes_t *routes); /* NULL is legal */

typedef struct madi_route_hop {
    int network;
    const int *host; /* possible ends of the hop: equivalent gateways; for the last hop, the destination */
    int hosts;
} madi_route_hop_t;

typedef struct madi_route {
    int64_t cost_ps, latency_ps;
    int64_t bandwidth; /* bandwidth of the slowest network, in bytes per second */
    int hops;
    int later;   /* hops that are not over the preferred network */
    bool best;   /* true if no other route is better */
    double ways; /* number of host-by-host routes that this route stands for, one per choice of a host for each hop */
    madi_route_hop_t hop[MADI_ROUTE_HOPS_MAX];
} madi_route_t;

/* Write up to max routes to a host: the best ones, then the alternatives in the order of the criteria.  No route uses a
 * network or a kind of gateways twice. *count is the number written; the hosts in them belong to routes.
 * MAD_ERR_UNREACHABLE if there is no route; MAD_ERR_NOMEM. */
mad_status_t madi_routes_to(const madi_routes_t *routes, int to, madi_route_t *route, int max, int *count);
/* Return the number of best routes, counted by hosts; 0 if none. */
double madi_routes_ways(const madi_routes_t *routes, int to);

/* Choose one host-by-host route among those that the first of `count` routes, and the best ones after it, stand for: the
 * one at index `number` modulo their number.  Write the end and the network of each hop, and return the number of hops. */
int madi_route_pick(const madi_route_t *route, int count, uint64_t number, int host[MADI_ROUTE_HOPS_MAX],
                    int network[MADI_ROUTE_HOPS_MAX]);

/* Explain why there is no route, why a route is the best one, or why it is not the best.  best: the first route of the
 * list. */
void madi_routes_unreachable(const madi_routes_t *routes, int to, char *why, size_t len);
void madi_route_reason(const madi_routes_t *routes, const madi_route_t *best, const madi_route_t *route, char *why,
                       size_t len);

#endif
