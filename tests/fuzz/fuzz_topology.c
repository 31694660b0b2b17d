/* SPDX-License-Identifier: BSD-3-Clause */
/* Topology files.  An accepted file is complete, and has routes.  Errors of a refused file begin with the file's name. */
#include "fuzz.h"

#include "topology/draw.h"
#include "topology/route.h"
#include <stdlib.h>
#include <string.h>

#define ROUTES 8

/* libconfig 1.5 does not free a text in whose middle the file ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libconfig.so";
}

static void hosts_check(const madi_topo_t *t)
{
    for (int h = 0; h < t->hosts; h++) {
        const madi_topo_host_t *host = &t->host[h];
        FUZZ_CHECK(host->ons > 0 && host->kind >= 0 && host->kind < t->kinds);
        FUZZ_CHECK(host->cluster >= 0 && host->cluster < t->clusters && host->gateway < t->gateways);
        for (int i = 0; i < host->ons; i++) {
            FUZZ_CHECK(host->on[i].network >= 0 && host->on[i].network < t->networks);
            FUZZ_CHECK(i == 0 || host->on[i - 1].network < host->on[i].network);
        }
        FUZZ_CHECK(h >= 100 || madi_topo_host_find(t, host->name) == h);
    }
}

/* Check routes from one host to some others: each host of the same virtual channel is reached unless it is too far away. */
static void routes_check(const madi_topo_t *t, int virtual, int from)
{
    static madi_route_t route[ROUTES];
    madi_routes_t *routes;
    char why[300];
    int count, host[MADI_ROUTE_HOPS_MAX], network[MADI_ROUTE_HOPS_MAX];
    if (madi_routes_new(t, virtual, from, 65536, NULL, 0, &routes))
        return;
    for (int to = 0; to < t->hosts; to += 1 + t->hosts / 8) {
        mad_status_t status = madi_routes_to(routes, to, route, ROUTES, &count);
        FUZZ_CHECK(status == MAD_OK || status == MAD_ERR_UNREACHABLE);
        if (status) {
            madi_routes_unreachable(routes, to, why, sizeof why);
            FUZZ_CHECK(why[0] && madi_routes_ways(routes, to) == 0);
            continue;
        }
        FUZZ_CHECK(count > 0 && route[0].best && madi_routes_ways(routes, to) > 0);
        for (int i = 0; i < count; i++) {
            int at = from, hops = madi_route_pick(&route[i], 1, 12345, host, network);
            for (int k = 0; k < hops; at = host[k++])
                FUZZ_CHECK(madi_topo_host_on(t, at, network[k]) && madi_topo_host_on(t, host[k], network[k]));
            FUZZ_CHECK(at == to);
            madi_route_reason(routes, &route[0], &route[i], why, sizeof why);
            FUZZ_CHECK(why[0]);
        }
    }
    madi_routes_free(routes);
}

static void draw(const madi_topo_t *t)
{
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return;
    madi_topo_dot(t, NULL, out);
    madi_topo_svg(t, NULL, out);
    fclose(out);
}

static void topology(const uint8_t *data, size_t size)
{
    madi_topo_t *topo = NULL;
    char *errors = NULL;
    mad_status_t status = madi_topo_parse("F", (const char *)data, size, &topo, &errors);
    if (status == MAD_OK) {
        FUZZ_CHECK(!errors && topo->hosts > 0 && topo->networks > 0 && topo->virtuals > 0);
        hosts_check(topo);
        for (int v = 0; v < topo->virtuals && v < 3; v++)
            routes_check(topo, v, v % topo->hosts);
        if (topo->hosts < 1000)
            draw(topo);
        madi_topo_free(topo);
    } else {
        FUZZ_CHECK(!topo && (status == MAD_ERR_NOMEM || (errors && !strncmp(errors, "F:", 2))));
    }
    free(errors);
}

const target_t fuzz_topology = {"topology", NULL, topology};
