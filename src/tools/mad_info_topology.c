/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommand topology: the content of a topology file, with defaults filled in. */
#include "base/file.h"
#include "tools/mad_info_topology.h"

#include "topology/range.h"
#include "topology/value.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDED 200

madi_topo_t *madi_info_topology_load(const madi_info_options_t *options, const char *path)
{
    madi_topo_t *topo = NULL;
    char *errors = NULL;
    mad_status_t status;
    if (!path)
        path = getenv("MAD_TOPOLOGY");
    if (!path) {
        madi_info_failed(options, "no topology file is named: give one, or set MAD_TOPOLOGY");
        return NULL;
    }
    status = madi_topo_load(path, &topo, &errors);
    if (status == MAD_OK)
        return topo;
    fputs(errors ? errors : mad_status_text(status), stderr); /* file and line come first, as editors expect */
    if (options->json) {
        json_t *object = json_pack("{s:s}", "error", errors ? errors : mad_status_text(status));
        madi_info_print_json(object);
        json_decref(object);
    }
    free(errors);
    return NULL;
}

/* ---- Lists of names --------------------------------------------------------------------------------------------- */

typedef struct namer {
    const madi_topo_t *topo;
    const int *list;
} namer_t;

static const char *host_at(const void *arg, int i)
{
    const namer_t *n = arg;
    return n->topo->host[n->list[i]].name;
}

char *madi_info_hosts(const madi_topo_t *topo, const int *host, int hosts, char *text, size_t len)
{
    namer_t namer = {topo, host};
    madi_range_fold(host_at, &namer, hosts, text, len);
    return text;
}

json_t *madi_info_hosts_json(const madi_topo_t *topo, const int *host, int hosts)
{
    json_t *list = json_array();
    for (int i = 0; i < hosts; i++)
        json_array_append_new(list, json_string(topo->host[host[i]].name));
    return list;
}

static json_t *networks_json(const madi_topo_t *topo, const int *network, int networks)
{
    json_t *list = json_array();
    for (int i = 0; i < networks; i++)
        json_array_append_new(list, json_string(topo->network[network[i]].name));
    return list;
}

static void networks_print(const madi_topo_t *topo, const int *network, int networks)
{
    for (int i = 0; i < networks; i++)
        printf("%s%s", i ? ", " : "", topo->network[network[i]].name);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static json_t *network_json(const madi_topo_t *topo, int index)
{
    const madi_topo_network_t *n = &topo->network[index];
    json_t *parameters = json_object(), *hosts = json_array();
    for (int i = 0; i < n->parameters; i++)
        json_object_set_new(parameters, n->parameter[i].key, json_string(n->parameter[i].value));
    for (int i = 0; i < n->hosts; i++) {
        const madi_topo_on_t *on = madi_topo_host_on(topo, n->host[i], index);
        json_t *host = json_pack("{s:s}", "host", topo->host[n->host[i]].name);
        if (on->interface)
            json_object_set_new(host, "interface", json_string(on->interface));
        if (on->address)
            json_object_set_new(host, "address", json_string(on->address));
        json_array_append_new(hosts, host);
    }
    return json_pack("{s:s, s:s, s:f, s:b, s:f, s:b, s:s, s:b, s:b, s:o, s:o, s:i}", "network", n->name, "driver", n->driver,
                     "latency_us", (double)n->latency_ps / 1e6, "latency_declared", n->latency_given, "bandwidth_MBs",
                     (double)n->bandwidth / 1e6, "bandwidth_declared", n->bandwidth_given, "security",
                     madi_topo_security_name(n->security), "security_declared", n->security_given, "leaves_site",
                     n->leaves_site, "parameters", parameters, "hosts", hosts, "line", n->line);
}

static json_t *gateway_json(const madi_topo_t *topo, const madi_topo_gateway_t *g)
{
    json_t *cores = json_array();
    for (int i = 0; i < g->cores; i++)
        json_array_append_new(cores, json_integer(g->core[i]));
    return json_pack("{s:o, s:i, s:o, s:o, s:b}", "hosts", madi_info_hosts_json(topo, g->host, g->hosts), "count", g->count,
                     "cores", cores, "networks", networks_json(topo, g->network, g->networks), "declared", g->given);
}

static json_t *topology_json(const madi_topo_t *topo)
{
    json_t *networks = json_array(), *clusters = json_array(), *gateways = json_array(), *channels = json_array();
    json_t *virtuals = json_array();
    for (int i = 0; i < topo->networks; i++)
        json_array_append_new(networks, network_json(topo, i));
    for (int i = 0; i < topo->clusters; i++) {
        const madi_topo_cluster_t *c = &topo->cluster[i];
        json_t *cluster = json_pack("{s:s, s:o, s:b}", "cluster", c->name, "hosts",
                                    madi_info_hosts_json(topo, c->host, c->hosts), "declared", c->given);
        if (c->parent >= 0)
            json_object_set_new(cluster, "inside", json_string(topo->cluster[c->parent].name));
        json_array_append_new(clusters, cluster);
    }
    for (int i = 0; i < topo->gateways; i++)
        json_array_append_new(gateways, gateway_json(topo, &topo->gateway[i]));
    for (int i = 0; i < topo->channels; i++)
        json_array_append_new(channels, json_pack("{s:s, s:s}", "channel", topo->channel[i].name, "network",
                                                  topo->network[topo->channel[i].network].name));
    for (int i = 0; i < topo->virtuals; i++)
        json_array_append_new(virtuals, json_pack("{s:s, s:o, s:b, s:s}", "virtual_channel", topo->virtual[i].name, "over",
                                                  networks_json(topo, topo->virtual[i].network, topo->virtual[i].networks),
                                                  "declared", topo->virtual[i].given, "encrypt",
                                                  topo->virtual[i].encrypts ? "end-to-end" : "none"));
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "file", topo->file, "hosts", topo->hosts, "networks", networks,
                     "clusters", clusters, "gateways", gateways, "channels", channels, "virtual_channels", virtuals);
}

/* ---- Text ------------------------------------------------------------------------------------------------------- */

/* Print the hosts of a network: adjacent ones with the same interface share a line. */
static void network_hosts_print(const madi_topo_t *topo, int index)
{
    const madi_topo_network_t *n = &topo->network[index];
    char text[FOLDED];
    for (int i = 0, j; i < n->hosts; i = j) {
        const char *interface = madi_topo_host_on(topo, n->host[i], index)->interface, *address = NULL;
        for (j = i; j < n->hosts; j++) {
            const madi_topo_on_t *on = madi_topo_host_on(topo, n->host[j], index);
            if (strcmp(on->interface ? on->interface : "", interface ? interface : ""))
                break;
            address = address ? address : on->address;
        }
        printf("    %s", madi_info_hosts(topo, n->host + i, j - i, text, sizeof text));
        if (interface)
            printf("  interface %s", interface);
        if (address)
            printf("  addresses from %s", address);
        putchar('\n');
    }
}

static void networks_print_text(const madi_topo_t *topo)
{
    char latency[MADI_VALUE_MAX], bandwidth[MADI_VALUE_MAX];
    puts("networks");
    for (int i = 0; i < topo->networks; i++) {
        const madi_topo_network_t *n = &topo->network[i];
        printf("  %-14s  %s, latency %s%s, bandwidth %s%s, security %s%s, %d %s\n", n->name, n->driver,
               madi_value_time_text(n->latency_ps, latency), n->latency_given ? "" : " (assumed)",
               madi_value_bandwidth_text(n->bandwidth, bandwidth), n->bandwidth_given ? "" : " (assumed)",
               madi_topo_security_name(n->security),
               n->security_given ? ""
               : n->leaves_site  ? " (it leaves the site)"
                                 : " (assumed)",
               n->hosts, n->hosts == 1 ? "host" : "hosts");
        network_hosts_print(topo, i);
        for (int k = 0; k < n->parameters; k++)
            printf("    parameter %s = %s\n", n->parameter[k].key, n->parameter[k].value);
    }
}

static void clusters_text(const madi_topo_t *topo, int parent, int depth)
{
    char text[FOLDED];
    for (int i = 0; i < topo->clusters; i++) {
        const madi_topo_cluster_t *c = &topo->cluster[i];
        if (c->parent != parent)
            continue;
        printf("%*s%-*s  %s%s\n", 2 + 2 * depth, "", 14 - 2 * (depth < 7 ? depth : 7), c->name,
               madi_info_hosts(topo, c->host, c->hosts, text, sizeof text),
               c->given ? "" : "  (of hosts that the file puts in none)");
        clusters_text(topo, i, depth + 1);
    }
}

static void gateways_text(const madi_topo_t *topo)
{
    char text[FOLDED];
    puts(topo->gateways ? "gateways" : "no gateways");
    for (int i = 0; i < topo->gateways; i++) {
        const madi_topo_gateway_t *g = &topo->gateway[i];
        printf("  %s", madi_info_hosts(topo, g->host, g->hosts, text, sizeof text));
        if (g->networks) {
            printf(", between ");
            networks_print(topo, g->network, g->networks);
        }
        if (g->count > 1)
            printf(", %d on each", g->count);
        for (int k = 0; k < g->cores; k++)
            printf("%s%d", k ? "," : ", on cores ", g->core[k]);
        puts(g->given ? "" : "  (none is named: all hosts on two networks)");
    }
}

static void channels_text(const madi_topo_t *topo)
{
    if (topo->channels)
        puts("channels");
    for (int i = 0; i < topo->channels; i++)
        printf("  %-14s  on %s\n", topo->channel[i].name, topo->network[topo->channel[i].network].name);
    puts("virtual channels");
    for (int i = 0; i < topo->virtuals; i++) {
        const madi_topo_virtual_t *v = &topo->virtual[i];
        printf("  %-14s  over ", v->name);
        for (int k = 0; k < v->networks; k++)
            printf("%s%s", k ? ", " : "",
                   v->channel[k] < 0 ? topo->network[v->network[k]].name : topo->channel[v->channel[k]].name);
        puts(!v->given ? "  (none is named: over all networks)" : v->encrypts ? "  (encrypted from end to end)" : "");
    }
}

/* ---- The command ------------------------------------------------------------------------------------------------ */

static int topology_draw(const madi_info_options_t *options, const madi_topo_t *topo, const madi_live_t *live)
{
    char text[PATH_MAX + 200], why[PATH_MAX + 100];
    madi_output_t out;
    if (madi_output_open(&out, options->svg, 0666, true, why, sizeof why)) {
        bool good = madi_topo_svg(topo, live, out.file) == MAD_OK;
        snprintf(why, sizeof why, "%s", strerror(errno)); /* used if not good */
        if (madi_output_close(&out, good, why, sizeof why))
            return 0;
    }
    snprintf(text, sizeof text, "the picture '%s' cannot be written: %s", options->svg, why);
    return madi_info_failed(options, text);
}

static void topology_print(const madi_info_options_t *options, const madi_topo_t *topo, const madi_live_t *live)
{
    if (options->json) {
        json_t *object = topology_json(topo);
        if (live)
            json_object_set_new(object, "live", madi_info_live_json(live, topo));
        madi_info_print_json(object);
        json_decref(object);
        return;
    }
    printf("%s: %d hosts, %d networks, %d clusters\n", topo->file, topo->hosts, topo->networks, topo->clusters);
    networks_print_text(topo);
    puts("clusters");
    clusters_text(topo, -1, 0);
    gateways_text(topo);
    channels_text(topo);
    if (live)
        madi_info_live_print(live, topo);
}

int madi_info_topology(const madi_info_options_t *options)
{
    madi_topo_t *topo = madi_info_topology_load(options, options->argc ? options->argv[0] : NULL);
    madi_live_t *live = NULL;
    int code = 0;
    if (!topo)
        return 1;
    if (options->live > 0 && !(live = madi_info_live(options, topo))) {
        madi_topo_free(topo);
        return madi_info_failed(options, mad_status_text(MAD_ERR_NOMEM));
    }
    if (options->svg)
        code = topology_draw(options, topo, live);
    if (options->dot && madi_topo_dot(topo, live, stdout))
        code = madi_info_failed(options, mad_status_text(MAD_ERR_NOMEM));
    if (!options->dot && (options->json || !options->svg))
        topology_print(options, topo, live);
    if (live && live->none && (options->dot || options->svg))
        fprintf(stderr, "mad_info: %s\n", live->title);
    madi_info_live_free(live, topo);
    madi_topo_free(topo);
    return code;
}
