/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of routes: the graph of gateways of one virtual channel, and their distances from the source. */
#ifndef MADI_TOPOLOGY_GRAPH_H
#define MADI_TOPOLOGY_GRAPH_H

#include "topology/build.h"
#include "topology/route.h"

/* Order of routes: first by cost, then by number of hops, then by number of hops off the preferred network (later). */
typedef struct madi_route_key {
    int64_t cost;
    int hops, later;
} madi_route_key_t;

int madi_route_compare(madi_route_key_t a, madi_route_key_t b);

/* Usable networks of a host or kind, in ascending order. */
typedef struct madi_route_nets {
    const int *net;
    int nets;
} madi_route_nets_t;

/* Equivalent gateways. */
typedef struct madi_route_relay {
    madi_route_nets_t on;
    const int *host;
    int hosts;
    madi_route_key_t far; /* distance from the source; its cost is -1 if the relay is unreachable */
    /* Number of best paths from the source. */
    double ways;
} madi_route_relay_t;

struct madi_routes {
    const madi_topo_t *topo;
    const madi_topo_virtual_t *virtual;
    madi_topo_arena_t arena;
    int source;
    madi_route_nets_t from; /* networks of the source */
    int64_t *cost;          /* per network: cost of one hop; -1: not part of this virtual channel, or down */
    int *rank;              /* per network: index in the order of preference */
    const madi_route_down_t *down;
    int downs;
    madi_route_relay_t *relay;
    int relays;
    int *at, *first; /* on network n are the relays at[first[n]] to at[first[n + 1] - 1] */
};

/* Return the key of a hop over `network` from a host with the networks a to a host with the networks b. */
madi_route_key_t madi_route_edge(const madi_routes_t *routes, madi_route_nets_t a, madi_route_nets_t b, int network);
/* True if the host can be used on this network. */
bool madi_route_up(const madi_routes_t *routes, int host, int network);
/* Return the usable networks of a host, written to net, which has room for all its networks. */
madi_route_nets_t madi_route_nets(const madi_routes_t *routes, int host, int *net);
bool madi_route_on(madi_route_nets_t nets, int network);

/* A heap of numbers; less(arg, a, b) is true if a comes before b. */
typedef struct madi_heap {
    int *item, count, size;
    bool (*less)(const void *arg, int a, int b);
    const void *arg;
} madi_heap_t;

bool madi_heap_push(madi_heap_t *heap, int item); /* false if out of memory */
int madi_heap_pop(madi_heap_t *heap);             /* heap must not be empty */
void madi_heap_fini(madi_heap_t *heap);

#endif
