/* SPDX-License-Identifier: BSD-3-Clause */
/* Explanations of routes. */
#include "topology/graph.h"
#include "topology/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct route_text {
    char *at;
    size_t len, used;
} route_text_t;

static void route_text_add(route_text_t *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void route_text_add(route_text_t *t, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(t->at + t->used, t->len - t->used, format, args);
    va_end(args);
    t->used = t->used + (size_t)n < t->len ? t->used + (size_t)n : t->len - 1;
}

/* Write the names of the marked networks, in order: "red, blue". */
static void text_add_networks(route_text_t *t, const madi_topo_t *topo, const bool *marked)
{
    bool any = false;
    for (int n = 0; n < topo->networks; n++)
        if (marked[n]) {
            route_text_add(t, "%s%s", any ? ", " : "", topo->network[n].name);
            any = true;
        }
}

static void add_downs(route_text_t *t, const madi_routes_t *r)
{
    for (int i = 0; i < r->downs; i++) {
        const madi_route_down_t *d = &r->down[i];
        route_text_add(t, i ? ", " : "; down: ");
        if (d->host >= 0)
            route_text_add(t, "%s%s", r->topo->host[d->host].name, d->network >= 0 ? " on " : "");
        if (d->network >= 0)
            route_text_add(t, "%s", r->topo->network[d->network].name);
    }
}

static void networks_mark(bool *marked, madi_route_nets_t nets, int *any)
{
    for (int i = 0; i < nets.nets; i++) {
        marked[nets.net[i]] = true;
        ++*any;
    }
}

/* Explain that no network of a host is usable. */
static void text_add_nothing(route_text_t *t, const madi_routes_t *r, int host)
{
    route_text_add(t, "no network of host '%s' belongs to virtual channel '%s' and is up", r->topo->host[host].name,
                   r->virtual->name);
}

void madi_routes_unreachable(const madi_routes_t *r, int to, char *why, size_t len)
{
    const madi_topo_t *topo = r->topo;
    route_text_t t = {why, len, 0};
    bool *got = calloc((size_t)topo->networks, sizeof *got), *has = calloc((size_t)topo->networks, sizeof *has);
    int *net = malloc((size_t)topo->host[to].ons * sizeof *net), from = 0, at = 0;
    why[0] = 0;
    if (got && has && net) {
        networks_mark(got, r->from, &from);
        for (int y = 0; y < r->relays; y++)
            if (r->relay[y].far.cost >= 0)
                networks_mark(got, r->relay[y].on, &from);
        networks_mark(has, madi_route_nets(r, to, net), &at);
        if (!from)
            text_add_nothing(&t, r, r->source);
        else if (!at)
            text_add_nothing(&t, r, to);
        else {
            route_text_add(&t, "host '%s' reaches the networks ", topo->host[r->source].name);
            text_add_networks(&t, topo, got);
            route_text_add(&t, ", host '%s' is on ", topo->host[to].name);
            text_add_networks(&t, topo, has);
            route_text_add(&t, ", and no gateway that is up joins them within %d hops", MADI_ROUTE_HOPS_MAX);
        }
        add_downs(&t, r);
    }
    free(got);
    free(has);
    free(net);
}

/* Name the first hop off the preferred network, and the network of this hop. */
static void add_order(route_text_t *t, const madi_routes_t *r, const madi_route_t *best, const madi_route_t *route)
{
    const madi_topo_t *topo = r->topo;
    int preferred = -1, used = -1;
    for (int i = 0; i < route->hops && i < best->hops && used < 0; i++)
        if (route->hop[i].network != best->hop[i].network && route->hop[i].host == best->hop[i].host) {
            used = route->hop[i].network;
            preferred = best->hop[i].network;
        }
    if (used >= 0)
        route_text_add(t, "'%s' comes before '%s' in the order of virtual channel '%s'", topo->network[preferred].name,
                       topo->network[used].name, r->virtual->name);
    else
        route_text_add(t, "%d of its hops are not over the network that virtual channel '%s' prefers there", route->later,
                       r->virtual->name);
}

void madi_route_reason(const madi_routes_t *r, const madi_route_t *best, const madi_route_t *route, char *why, size_t len)
{
    route_text_t t = {why, len, 0};
    char value[MADI_VALUE_MAX];
    int64_t more = route->cost_ps - best->cost_ps;
    why[0] = 0;
    if (route->best) {
        route_text_add(&t, "%s",
                       route->hops == 0   ? "the same host: no network is needed"
                       : route->hops == 1 ? "a network in common; least cost"
                                          : "least cost; of its gateways such as run madgw go first");
        return;
    }
    if (more > 0)
        route_text_add(&t, "costs %s more", madi_value_time_text(more, value));
    if (route->hops > best->hops)
        route_text_add(&t, "%s%d %s more", t.used ? ", " : "", route->hops - best->hops,
                       route->hops - best->hops > 1 ? "hops" : "hop");
    if (route->bandwidth < best->bandwidth)
        route_text_add(&t, "%sslower", t.used ? ", " : "");
    if (route->later) {
        route_text_add(&t, "%s", t.used ? ", and " : "");
        add_order(&t, r, best, route);
    }
    if (!t.used)
        route_text_add(&t, "another route was chosen by the cheapest network of each hop");
}
