/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_topology.h"

#include "tools/madrun_loop.h"
#include "tools/madrun_same.h"
#include "topology/topology.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static madi_topo_t *topo;
static char *text;
static madi_run_gateway_t *list;
static int listed;
static bool look_up; /* names may be resolved */

/* ---- The file --------------------------------------------------------------------------------------------------- */

static char *topology_file_read(const char *path, size_t *len)
{
    madi_run_buffer_t all = {0};
    char part[65536];
    size_t n;
    FILE *file = fopen(path, "re");
    while (file && (n = fread(part, 1, sizeof(part), file)) > 0)
        madi_run_buffer_add(&all, part, n);
    if (!file || ferror(file)) {
        fprintf(stderr, "madrun: --topology: '%s' cannot be read: %s\n", path, strerror(errno));
        madi_run_buffer_free(&all);
        if (file)
            fclose(file);
        return NULL;
    }
    fclose(file);
    *len = all.len;
    madi_run_buffer_add(&all, "", 1);
    return all.data;
}

int madi_run_topology_open(const char *path)
{
    char *errors = NULL;
    mad_status_t status;
    size_t len;
    if (!(text = topology_file_read(path, &len)))
        return -1;
    status = madi_topo_parse(path, text, len, &topo, &errors);
    if (status != MAD_OK)
        fprintf(stderr, "madrun: --topology: %s%s", errors ? errors : mad_status_text(status), errors ? "" : "\n");
    free(errors);
    return status == MAD_OK ? 0 : -1;
}

void madi_run_topology_close(void)
{
    for (int i = 0; i < listed; i++)
        free((void *)(uintptr_t)list[i].cores);
    free(list);
    list = NULL;
    listed = 0;
    free(text);
    text = NULL;
    madi_topo_free(topo);
    topo = NULL;
}

const char *madi_run_topology_text(void)
{
    return text;
}

/* ---- Hosts ------------------------------------------------------------------------------------------------------ */

/* Return the file's host for a name.  "user@name" means the same host, reached as that user.  Any name of this host, or
 * of another host, is mapped to its name in the file. */
static int host_of(const char *reached)
{
    const char *at = strrchr(reached, '@'), *name = at ? at + 1 : reached;
    int host = madi_topo_host_find(topo, name);
    if (host < 0 && !at && madi_run_same_here(name, look_up))
        host = madi_topo_self(topo);
    for (int h = 0; host < 0 && look_up && madi_topo_cluster_find(topo, name) < 0 && h < topo->hosts; h++)
        if (madi_run_same_two(name, topo->host[h].name))
            host = h;
    return host;
}

const char *madi_run_topology_name(const char *host)
{
    return topo->host[host_of(host)].name;
}

/* Add a host with the requested slots. */
static int host_add(madi_run_hosts_t *hosts, const char *name, const madi_run_host_t *asked, char *why, size_t len)
{
    int result = 0;
    for (int i = 0; i < (asked->numbered ? 1 : asked->slots) && result == 0; i++)
        result = madi_run_hosts_put(hosts, name, asked->numbered ? asked->slots : 0, why, len);
    return result;
}

static int cluster_add(madi_run_hosts_t *hosts, int cluster, const madi_run_host_t *asked, char *why, size_t len)
{
    int result = 0;
    for (int i = 0; i < topo->cluster[cluster].hosts && result == 0; i++)
        result = host_add(hosts, topo->host[topo->cluster[cluster].host[i]].name, asked, why, len);
    for (int c = 0; c < topo->clusters && result == 0; c++)
        if (topo->cluster[c].parent == cluster)
            result = cluster_add(hosts, c, asked, why, len);
    return result;
}

static int hosts_named(const madi_run_hosts_t *asked, madi_run_hosts_t *hosts, char *why, size_t len)
{
    char hint[160];
    int result = 0;
    for (int i = 0; i < asked->count && result == 0; i++) {
        const char *name = asked->host[i].name;
        int cluster = madi_topo_cluster_find(topo, name);
        if (host_of(name) >= 0) {
            result = host_add(hosts, name, &asked->host[i], why, len);
        } else if (cluster >= 0) {
            result = cluster_add(hosts, cluster, &asked->host[i], why, len);
        } else {
            madi_topo_hint(topo, MADI_TOPO_HOST, name, hint, sizeof(hint));
            snprintf(why, len, "'%.80s' is neither a host nor a cluster of %.200s%s", name, topo->file, hint);
            result = -1;
        }
    }
    return result;
}

static int hosts_chosen(madi_run_hosts_t *hosts, char *why, size_t len)
{
    int result = 0, ends = 0;
    for (int h = 0; h < topo->hosts; h++)
        ends += topo->host[h].gateway < 0;
    for (int h = 0; h < topo->hosts && result == 0; h++)
        if (!ends || topo->host[h].gateway < 0)
            result = madi_run_hosts_put(hosts, topo->host[h].name, 0, why, len);
    return result;
}

/* Keep as many hosts as there are ranks, chosen evenly from the list, so that each cluster gets its share. */
static void hosts_spread(madi_run_hosts_t *hosts, int ranks)
{
    int count = hosts->count;
    for (int i = 0; i < count; i++)
        if (hosts->host[i].numbered || hosts->host[i].slots > 1)
            return;
    for (int i = 0, kept = 0; i < count && ranks < count; i++) {
        if (kept < ranks && i == (int)((int64_t)kept * count / ranks)) {
            hosts->host[kept++] = hosts->host[i];
            hosts->count = kept;
        } else {
            free(hosts->host[i].name);
        }
    }
}

int madi_run_topology_hosts(madi_run_hosts_t *hosts, int ranks, bool resolve, char *why, size_t len)
{
    madi_run_hosts_t found = {0};
    int result;
    look_up = resolve;
    result = hosts->count ? hosts_named(hosts, &found, why, len) : hosts_chosen(&found, why, len);
    madi_run_hosts_fini(hosts);
    *hosts = found;
    if (result == 0)
        madi_run_same_merge(hosts, resolve, host_of);
    if (result == 0)
        hosts_spread(hosts, ranks);
    return result;
}

/* ---- Gateways --------------------------------------------------------------------------------------------------- */

static bool kinds_meet(int a, int b)
{
    const madi_topo_host_t *from = &topo->host[topo->kind[a].host[0]];
    for (int i = 0; i < from->ons; i++)
        if (madi_topo_host_on(topo, topo->kind[b].host[0], from->on[i].network))
            return true;
    return false;
}

/* True if two of these kinds of hosts share no network. */
static bool kinds_apart(const bool *kinds)
{
    for (int a = 0; a < topo->kinds; a++)
        for (int b = 0; b < a && kinds[a]; b++)
            if (kinds[b] && !kinds_meet(a, b))
                return true;
    return false;
}

static const char *cores_text(const madi_topo_gateway_t *gateway)
{
    madi_run_buffer_t all = {0};
    char number[16];
    for (int i = 0; i < gateway->cores; i++)
        madi_run_buffer_add(&all, number, (size_t)snprintf(number, sizeof(number), "%s%d", i ? "," : "", gateway->core[i]));
    madi_run_buffer_add(&all, "", 1);
    return all.data;
}

int madi_run_topology_gateways(const madi_run_hosts_t *hosts, const madi_run_gateway_t **gateways)
{
    bool *used = madi_run_alloc((size_t)topo->hosts, sizeof(bool));
    bool *kinds = madi_run_alloc((size_t)topo->kinds, sizeof(bool));
    const char **reached = madi_run_alloc((size_t)topo->hosts, sizeof(char *));
    bool needed;
    int most = 0;
    for (int i = 0; i < hosts->count; i++) {
        int h = host_of(hosts->host[i].name);
        used[h] = true;
        reached[h] = hosts->host[i].name;
        kinds[topo->host[h].kind] = true;
    }
    for (int h = 0; h < topo->hosts; h++)
        most += topo->host[h].gateway >= 0 ? topo->gateway[topo->host[h].gateway].count : 0;
    list = madi_run_alloc((size_t)most, sizeof(*list));
    needed = hosts->count == 0 || kinds_apart(kinds);
    for (int h = 0; h < topo->hosts && needed; h++) {
        const madi_topo_gateway_t *g = topo->host[h].gateway >= 0 ? &topo->gateway[topo->host[h].gateway] : NULL;
        for (int i = 0; g && (g->given || !used[h]) && i < g->count; i++)
            list[listed++] = (madi_run_gateway_t){reached[h] ? reached[h] : topo->host[h].name, cores_text(g)};
    }
    free(used);
    free(kinds);
    free(reached);
    *gateways = list;
    return listed;
}
