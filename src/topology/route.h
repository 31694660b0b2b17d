/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes over a virtual channel: from one host to any other, through gateways.
 *
 * A hop costs latency + bytes / bandwidth of its network, a route the sum of its hops: what each fragment of so many bytes
 * takes.  (A long message is in all networks at once and runs at the pace of the slowest, which is told as well.)  The
 * best routes are those of least cost, and of these those of fewest hops; all of them are kept, so that connections can be
 * dealt out among them.  Where two hosts share several networks of a virtual channel that the file gives an order of
 * preference, the first in that order carries the hop, and the route is chosen as if it cost what the cheapest does.
 *
 * Hosts that are alike (madi_topo_kind_t) are looked at as one: madi_routes_new takes memory for each kind of gateways and
 * each network, not for each host, and time for each pair of kinds of gateways that share a network.  What is down is part
 * of the question; when that changes, ask anew.  An object may be asked from several threads at a time. */
#ifndef MADI_TOPOLOGY_ROUTE_H
#define MADI_TOPOLOGY_ROUTE_H

#include "topology/topology.h"

#define MADI_ROUTE_HOPS_MAX 32
#define MADI_ROUTE_BYTES 65536 /* for who has nothing better to say */

/* What cannot be used: host -1: the whole network; network -1: the whole host; else the host on this network. */
typedef struct madi_route_down {
    int host, network;
} madi_route_down_t;

typedef struct madi_routes madi_routes_t;

/* Ways from source over virtual (its index).  bytes: 0 to 1 TiB.  The topology must outlive *routes, which the caller
 * owns.  MAD_ERR_NOMEM. */
mad_status_t madi_routes_new(const madi_topo_t *topo, int virtual, int source, int64_t bytes,
                             const madi_route_down_t *down, int downs, madi_routes_t **routes);
void madi_routes_free(madi_routes_t *routes); /* NULL is fine */

typedef struct madi_route_hop {
    int network;
    const int *host; /* where it may end: gateways that are alike; for the last hop the destination */
    int hosts;
} madi_route_hop_t;

typedef struct madi_route {
    int64_t cost_ps, latency_ps;
    int64_t bandwidth; /* of the slowest network */
    int hops;
    int later;   /* hops over another network than the preferred one */
    bool best;   /* no other is better */
    double ways; /* how many it stands for: one of the hosts of each hop */
    madi_route_hop_t hop[MADI_ROUTE_HOPS_MAX];
} madi_route_t;

/* Up to max routes to a host, in order: the best ones, then the alternatives, which come in order of what they were
 * chosen by.  No route crosses a network or a kind of gateways twice.  *count is how many there are; the hosts in them
 * belong to routes.  MAD_ERR_UNREACHABLE: there is none.  MAD_ERR_NOMEM. */
mad_status_t madi_routes_to(const madi_routes_t *routes, int to, madi_route_t *route, int max, int *count);
/* How many best ways there are, by hosts; 0: none. */
double madi_routes_ways(const madi_routes_t *routes, int to);

/* The number-th (modulo their number) of the ways that the first of `count` routes, and those best ones that follow it,
 * stand for: where each hop ends, and over which network.  Returns the number of hops. */
int madi_route_pick(const madi_route_t *route, int count, uint64_t number, int host[MADI_ROUTE_HOPS_MAX],
                    int network[MADI_ROUTE_HOPS_MAX]);

/* Why there is no route, why a route is the best one, or why it is not (best: the first of the list). */
void madi_routes_unreachable(const madi_routes_t *routes, int to, char *why, size_t len);
void madi_route_reason(const madi_routes_t *routes, const madi_route_t *best, const madi_route_t *route, char *why,
                       size_t len);

#endif
