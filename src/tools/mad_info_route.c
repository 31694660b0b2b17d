/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand route: routes from one host to another. */
#include "tools/mad_info_topology.h"

#include "topology/route.h"
#include "topology/value.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUTES_MAX 64
#define ALTERNATIVES 5
#define FOLDED 120
#define WHY_MAX 600

typedef struct route_question {
    const madi_info_options_t *options;
    const madi_topo_t *topo;
    int virtual, from, to;
    int64_t bytes;
} route_question_t;

/* True if the name without a domain matches several hosts; the function then reports the ambiguity. */
static bool name_ambiguous(const route_question_t *q, const char *name)
{
    char list[300] = "", why[700];
    size_t len = strcspn(name, ".");
    int n = 0;
    for (int i = 0; i < q->topo->hosts; i++) {
        const char *host = q->topo->host[i].name;
        if (strncmp(host, name, len) || (host[len] && host[len] != '.'))
            continue;
        if (n++ < 4)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", n > 1 ? ", " : "", host);
    }
    if (n < 2 || name[len])
        return false;
    snprintf(why, sizeof why, "%.200s names %d hosts '%.60s' (%s%s): give the whole name of one", q->topo->file, n, name,
             list, n > 4 ? ", ..." : "");
    madi_info_failed(q->options, why);
    return true;
}

static int name_unknown(const route_question_t *q, madi_topo_what_t what, const char *kind, const char *name)
{
    char hint[400], why[1000];
    if (what == MADI_TOPO_HOST && name_ambiguous(q, name))
        return 1;
    madi_topo_hint(q->topo, what, name, hint, sizeof hint);
    snprintf(why, sizeof why, "%s names no %s '%s'%s", q->topo->file, kind, name, hint);
    return madi_info_failed(q->options, why);
}

/* Parse the arguments.  Return 0, or the exit code. */
static int question_make(route_question_t *q, const char *from, const char *to)
{
    const char *channel = q->options->channel ? q->options->channel : getenv("MAD_VIRTUAL_CHANNEL");
    q->from = madi_topo_host_find(q->topo, from);
    if (q->from < 0)
        return name_unknown(q, MADI_TOPO_HOST, "host", from);
    q->to = madi_topo_host_find(q->topo, to);
    if (q->to < 0)
        return name_unknown(q, MADI_TOPO_HOST, "host", to);
    q->virtual = channel && *channel ? madi_topo_virtual_find(q->topo, channel) : 0;
    if (q->virtual < 0)
        return name_unknown(q, MADI_TOPO_VIRTUAL, "virtual channel", channel);
    q->bytes = MADI_ROUTE_BYTES;
    if (q->options->size && !madi_value_bytes(q->options->size, &q->bytes)) {
        fprintf(stderr, "mad_info: --size '%s' is not valid: give bytes such as 8, 64KiB or 1MB\n", q->options->size);
        return 2;
    }
    return 0;
}

/* ---- Output ----------------------------------------------------------------------------------------------------- */

static json_t *route_json(const route_question_t *q, const madi_route_t *route, const char *why)
{
    json_t *path = json_array();
    for (int i = 0; i < route->hops; i++) {
        const madi_topo_network_t *n = &q->topo->network[route->hop[i].network];
        json_array_append_new(path, json_pack("{s:s, s:s, s:o}", "network", n->name, "driver", n->driver, "hosts",
                                              madi_info_hosts_json(q->topo, route->hop[i].host, route->hop[i].hosts)));
    }
    return json_pack("{s:f, s:f, s:f, s:i, s:b, s:f, s:s, s:o}", "cost_us", (double)route->cost_ps / 1e6, "latency_us",
                     (double)route->latency_ps / 1e6, "bandwidth_MBs", (double)route->bandwidth / 1e6, "hops", route->hops,
                     "best", route->best, "ways", route->ways, "why", why, "path", path);
}

static void route_print(const route_question_t *q, const madi_route_t *route, const char *why)
{
    char text[FOLDED], cost[MADI_VALUE_MAX], bandwidth[MADI_VALUE_MAX];
    printf("  %s", q->topo->host[q->from].name);
    for (int i = 0; i < route->hops; i++)
        printf(" --%s-- %s", q->topo->network[route->hop[i].network].name,
               madi_info_hosts(q->topo, route->hop[i].host, route->hop[i].hosts, text, sizeof text));
    printf("\n    %s, %d %s", madi_value_time_text(route->cost_ps, cost), route->hops, route->hops == 1 ? "hop" : "hops");
    if (route->hops)
        printf(", %s at most", madi_value_bandwidth_text(route->bandwidth, bandwidth));
    if (route->ways > 1)
        printf(", one of %.0f ways each time", route->ways);
    printf(": %s\n", why);
}

static void answer_print(const route_question_t *q, const madi_routes_t *routes, const madi_route_t *route, int count)
{
    char why[WHY_MAX], size[MADI_VALUE_MAX];
    double ways = madi_routes_ways(routes, q->to), shown = 0;
    json_t *list = json_array(), *object;
    int others = 0;
    if (!q->options->json)
        printf("%s to %s over virtual channel %s%s; costs are for %s\nbest\n", q->topo->host[q->from].name,
               q->topo->host[q->to].name, q->topo->virtual[q->virtual].name,
               q->topo->virtual[q->virtual].encrypts ? ", encrypted from end to end" : "",
               madi_value_bytes_text(q->bytes, size));
    for (int i = 0; i < count; i++) {
        madi_route_reason(routes, &route[0], &route[i], why, sizeof why);
        shown += route[i].best ? route[i].ways : 0;
        if (!route[i].best && others++ == ALTERNATIVES)
            break;
        if (!route[i].best && others == 1 && !q->options->json)
            puts("others");
        if (q->options->json)
            json_array_append_new(list, route_json(q, &route[i], why));
        else
            route_print(q, &route[i], why);
    }
    if (q->options->json) {
        object = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "from", q->topo->host[q->from].name, "to",
                           q->topo->host[q->to].name, "virtual_channel", q->topo->virtual[q->virtual].name, "encrypt",
                           q->topo->virtual[q->virtual].encrypts ? "end-to-end" : "none", "bytes", (double)q->bytes, "ways",
                           ways, "routes", list);
        madi_info_print_json(object);
        json_decref(object);
        return;
    }
    if (ways > shown)
        printf("... and %.0f more best ways\n", ways - shown);
    json_decref(list);
}

static int answer_of(const madi_info_options_t *options)
{
    const char *path = options->argc == 3 ? options->argv[0] : NULL;
    madi_topo_t *topo = madi_info_topology_load(options, path);
    route_question_t q = {.options = options, .topo = topo};
    madi_route_t *route = malloc(ROUTES_MAX * sizeof *route);
    madi_routes_t *routes = NULL;
    mad_status_t status = MAD_ERR_NOMEM;
    char why[WHY_MAX], text[WHY_MAX + 100];
    int code = topo ? question_make(&q, options->argv[options->argc - 2], options->argv[options->argc - 1]) : 1, count = 0;
    if (!code && route)
        status = madi_routes_new(topo, q.virtual, q.from, q.bytes, NULL, 0, &routes);
    if (!code && routes)
        status = madi_routes_to(routes, q.to, route, ROUTES_MAX, &count);
    if (!code && status == MAD_OK) {
        answer_print(&q, routes, route, count);
    } else if (!code && status == MAD_ERR_UNREACHABLE) {
        madi_routes_unreachable(routes, q.to, why, sizeof why);
        snprintf(text, sizeof text, "there is no route: %s", why);
        code = madi_info_failed(options, text);
    } else if (!code) {
        code = madi_info_failed(options, mad_status_text(status));
    }
    madi_routes_free(routes);
    free(route);
    madi_topo_free(topo);
    return code;
}

int madi_info_route(const madi_info_options_t *options)
{
    if (options->argc == 3 || getenv("MAD_TOPOLOGY") || access(options->argv[0], R_OK))
        return answer_of(options);
    fprintf(stderr, "mad_info: route: give two hosts behind the file '%s'\n", options->argv[0]);
    return 2;
}
