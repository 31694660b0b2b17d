/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of routes: the graph of gateways of one virtual channel, and how far each is from the source. */
#ifndef MADI_TOPOLOGY_GRAPH_H
#define MADI_TOPOLOGY_GRAPH_H

#include "topology/build.h"
#include "topology/route.h"

/* What routes are compared by, first to last. */
typedef struct madi_route_key {
    int64_t cost;
    int hops, later;
} madi_route_key_t;

int madi_route_compare(madi_route_key_t a, madi_route_key_t b);

/* Networks of one host or kind that can be used, in order of their numbers. */
typedef struct madi_route_nets {
    const int *net;
    int nets;
} madi_route_nets_t;

/* Gateways that are alike. */
typedef struct madi_route_relay {
    madi_route_nets_t on;
    const int *host;
    int hosts;
    madi_route_key_t far; /* from the source; cost -1: it is not reached */
    double ways;
} madi_route_relay_t;

struct madi_routes {
    const madi_topo_t *topo;
    const madi_topo_virtual_t *virtual;
    madi_topo_arena_t arena;
    int source;
    madi_route_nets_t from; /* networks of the source */
    int64_t *cost;          /* per network, of one hop; -1: not of this virtual channel, or down */
    int *rank;              /* per network: its place in the order of preference */
    const madi_route_down_t *down;
    int downs;
    madi_route_relay_t *relay;
    int relays;
    int *at, *first; /* the relays on network n are at[first[n]] to at[first[n + 1] - 1] */
};

/* What the hop between two that share network costs. */
madi_route_key_t madi_route_edge(const madi_routes_t *routes, madi_route_nets_t a, madi_route_nets_t b, int network);
/* Can the host be used on this network at all? */
bool madi_route_up(const madi_routes_t *routes, int host, int network);
/* The networks that a host can be reached by, written to net, which has room for all that it is on. */
madi_route_nets_t madi_route_nets(const madi_routes_t *routes, int host, int *net);
bool madi_route_on(madi_route_nets_t nets, int network);

/* A heap of numbers by keys; less(arg, a, b) says which comes first. */
typedef struct madi_heap {
    int *item, count, size;
    bool (*less)(const void *arg, int a, int b);
    const void *arg;
} madi_heap_t;

bool madi_heap_push(madi_heap_t *heap, int item); /* false: no memory */
int madi_heap_pop(madi_heap_t *heap);             /* not of an empty one */
void madi_heap_fini(madi_heap_t *heap);

#endif
