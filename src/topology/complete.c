/* SPDX-License-Identifier: BSD-3-Clause */
/* Complete the structure that was read: order it by hosts, networks, clusters and kinds, and fill in defaults. */
#include "topology/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hosts and networks ----------------------------------------------------------------------------------------- */

/* Distribute the host-network pairs to the hosts.  The pairs are ordered by network, so each host gets its networks in
 * order too. */
static bool pairs_deal(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    madi_topo_on_t *on = madi_topo_alloc(&b->whole->arena, (size_t)b->pairs, sizeof *on);
    int *host = madi_topo_alloc(&b->whole->arena, (size_t)b->pairs, sizeof *host);
    if (!on || !host)
        return false;
    for (int i = 0; i < b->pairs; i++) {
        madi_topo_network_t *network = &topo->network[b->pair[i].on.network];
        if (!network->hosts++)
            network->host = host + i;
        host[i] = b->pair[i].host;
        topo->host[host[i]].ons++;
    }
    for (int h = 0; h < topo->hosts; h++) {
        topo->host[h].on = on;
        on += topo->host[h].ons;
        topo->host[h].ons = 0;
    }
    for (int i = 0; i < b->pairs; i++) {
        madi_topo_host_t *h = &topo->host[b->pair[i].host];
        h->on[h->ons++] = b->pair[i].on;
    }
    return true;
}

/* Group hosts by class into slices of one array; hosts of class -1 are left out. */
static bool hosts_deal(madi_topo_build_t *b, int (*class_of)(const madi_topo_host_t *), int classes,
                       void (*slice)(madi_topo_t *, int class, int *host, int n))
{
    madi_topo_t *topo = b->topo;
    int *start = madi_topo_alloc(&b->scratch, (size_t)classes + 1, sizeof *start);
    int *host = madi_topo_alloc(&b->whole->arena, (size_t)topo->hosts, sizeof *host), sum = 0;
    if (!start || !host)
        return false;
    for (int h = 0; h < topo->hosts; h++)
        if (class_of(&topo->host[h]) >= 0)
            start[class_of(&topo->host[h])]++;
    for (int c = 0; c < classes; c++) {
        int n = start[c];
        slice(topo, c, host + sum, n);
        start[c] = sum;
        sum += n;
    }
    for (int h = 0; h < topo->hosts; h++)
        if (class_of(&topo->host[h]) >= 0)
            host[start[class_of(&topo->host[h])]++] = h;
    return true;
}

/* ---- Equivalent hosts ------------------------------------------------------------------------------------------- */

static bool hosts_same(const madi_topo_host_t *a, const madi_topo_host_t *b, bool gateways)
{
    if (a->ons != b->ons || (gateways && a->gateway != b->gateway))
        return false;
    for (int i = 0; i < a->ons; i++)
        if (a->on[i].network != b->on[i].network)
            return false;
    return true;
}

static unsigned host_hash(const madi_topo_host_t *h, bool gateways)
{
    unsigned x = gateways ? (unsigned)h->gateway + 2 : 1;
    for (int i = 0; i < h->ons; i++)
        x = (x ^ (unsigned)h->on[i].network) * 2654435761u + 12345;
    return x ^ x >> 15;
}

/* Return, for each host, the first host that is equivalent to it. */
static int *hosts_classify(madi_topo_build_t *b, bool gateways)
{
    madi_topo_t *topo = b->topo;
    unsigned slots = 64;
    int *slot, *first = madi_topo_alloc(&b->scratch, (size_t)topo->hosts, sizeof *first);
    while (slots < 2 * (unsigned)topo->hosts)
        slots *= 2;
    slot = madi_topo_alloc(&b->scratch, slots, sizeof *slot);
    if (!slot || !first)
        return NULL;
    for (int h = 0; h < topo->hosts; h++) {
        unsigned i = host_hash(&topo->host[h], gateways) & (slots - 1);
        while (slot[i] && !hosts_same(&topo->host[slot[i] - 1], &topo->host[h], gateways))
            i = (i + 1) & (slots - 1);
        if (!slot[i])
            slot[i] = h + 1;
        first[h] = slot[i] - 1;
    }
    return first;
}

static int host_kind(const madi_topo_host_t *host)
{
    return host->kind;
}

static void kind_slice(madi_topo_t *topo, int kind, int *host, int n)
{
    topo->kind[kind].host = host;
    topo->kind[kind].hosts = n;
}

static bool kinds_make(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    int *first = hosts_classify(b, true);
    if (!first)
        return false;
    for (int h = 0; h < topo->hosts; h++)
        if (first[h] == h)
            topo->host[h].kind = topo->kinds++;
        else
            topo->host[h].kind = topo->host[first[h]].kind;
    topo->kind = madi_topo_alloc(&b->whole->arena, (size_t)topo->kinds, sizeof *topo->kind);
    if (!topo->kind)
        return false;
    for (int h = 0; h < topo->hosts; h++)
        topo->kind[topo->host[h].kind].gateway = topo->host[h].gateway;
    return hosts_deal(b, host_kind, topo->kinds, kind_slice);
}

/* ---- Clusters for hosts without one ----------------------------------------------------------------------------- */

/* Name a cluster after its networks, "red" or "red+blue", with more '+' appended while the name is taken. */
static const char *cluster_name(madi_topo_build_t *b, const madi_topo_host_t *host)
{
    char name[80];
    size_t used = 0;
    for (int i = 0; i < host->ons && used < 60; i++)
        used += (size_t)snprintf(name + used, sizeof name - used, "%s%.60s", i ? "+" : "",
                                 b->topo->network[host->on[i].network].name);
    if (used > 60)
        snprintf(name + 57, sizeof name - 57, "...");
    while (madi_topo_cluster_find(b->topo, name) >= 0 && strlen(name) + 1 < sizeof name)
        strcat(name, "+");
    return madi_topo_copy(&b->whole->arena, name);
}

static int cluster_of(const madi_topo_host_t *host)
{
    return host->cluster;
}

static void cluster_slice(madi_topo_t *topo, int cluster, int *host, int n)
{
    topo->cluster[cluster].host = host;
    topo->cluster[cluster].hosts = n;
}

static bool clusters_make(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    int *first = hosts_classify(b, false),
        *made = first ? madi_topo_alloc(&b->scratch, (size_t)topo->hosts, sizeof *made) : NULL;
    if (!made)
        return false;
    for (int h = 0; h < topo->hosts; h++) {
        madi_topo_cluster_t *grown;
        if (topo->host[h].cluster >= 0)
            continue;
        if (!made[first[h]]) {
            grown = madi_topo_grow(&b->whole->arena, topo->cluster, topo->clusters, sizeof *grown);
            if (!grown)
                return false;
            topo->cluster = grown;
            grown[topo->clusters] =
                (madi_topo_cluster_t){.name = cluster_name(b, &topo->host[h]), .parent = -1, .line = topo->host[h].line};
            made[first[h]] = ++topo->clusters;
        }
        topo->host[h].cluster = made[first[h]] - 1;
    }
    return hosts_deal(b, cluster_of, topo->clusters, cluster_slice);
}

/* ---- Default gateways and default virtual channel --------------------------------------------------------------- */

static int host_gateway(const madi_topo_host_t *host)
{
    return host->gateway;
}

static void gateway_slice(madi_topo_t *topo, int gateway, int *host, int n)
{
    topo->gateway[gateway].host = host;
    topo->gateway[gateway].hosts = n;
}

static bool gateways_make(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    if (!topo->gateways) {
        topo->gateway = madi_topo_alloc(&b->whole->arena, 1, sizeof *topo->gateway);
        if (!topo->gateway)
            return false;
        *topo->gateway = (madi_topo_gateway_t){.count = 1};
        for (int h = 0; h < topo->hosts; h++)
            if (topo->host[h].ons > 1) {
                topo->host[h].gateway = 0;
                topo->gateways = 1;
            }
    }
    return hosts_deal(b, host_gateway, topo->gateways, gateway_slice);
}

static bool virtuals_make(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    madi_topo_virtual_t *v;
    if (topo->virtuals)
        return true;
    v = madi_topo_alloc(&b->whole->arena, 1, sizeof *v);
    if (!v)
        return false;
    *v = (madi_topo_virtual_t){.name = "default", .networks = topo->networks, .line = b->networks_line};
    v->network = madi_topo_alloc(&b->whole->arena, (size_t)topo->networks, sizeof(int));
    v->channel = madi_topo_alloc(&b->whole->arena, (size_t)topo->networks, sizeof(int));
    if (!v->network || !v->channel)
        return false;
    for (int i = 0; i < topo->networks; i++) {
        v->network[i] = i;
        v->channel[i] = -1;
    }
    topo->virtual = v;
    topo->virtuals = 1;
    return true;
}

static void nested_check(madi_topo_build_t *b)
{
    const madi_topo_t *topo = b->topo;
    for (int c = 0; c < topo->clusters; c++) {
        int depth = 0;
        for (int up = c; up >= 0 && depth <= MADI_TOPO_NESTED_MAX; up = topo->cluster[up].parent)
            depth++;
        if (depth > MADI_TOPO_NESTED_MAX) {
            madi_topo_wrong(b, topo->cluster[c].line, "clusters are more than %d deep inside each other",
                            MADI_TOPO_NESTED_MAX);
            return;
        }
    }
}

void madi_topo_complete(madi_topo_build_t *b)
{
    madi_topo_t *topo = b->topo;
    nested_check(b);
    if (!pairs_deal(b))
        return;
    for (int h = 0; h < topo->hosts; h++)
        if (!topo->host[h].ons)
            madi_topo_wrong(b, topo->host[h].line, "host '%s' is on no network: name it among the hosts of one",
                            topo->host[h].name);
    if (!b->wrong && gateways_make(b) && kinds_make(b) && clusters_make(b))
        virtuals_make(b);
}
