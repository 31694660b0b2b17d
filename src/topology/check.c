/* SPDX-License-Identifier: BSD-3-Clause */
/* Consistency checks of a complete topology. */
#include "topology/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write the names of the marked networks of a host: "red, blue". */
static void marked_networks_text(const madi_topo_t *topo, const madi_topo_host_t *host, const int *marked, char *text,
                                 size_t len)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < host->ons && used < len; i++)
        if (marked[host->on[i].network] >= 0)
            used +=
                (size_t)snprintf(text + used, len - used, "%s%s", used ? ", " : "", topo->network[host->on[i].network].name);
}

/* ---- Gateways --------------------------------------------------------------------------------------------------- */

static void gateways_check(madi_topo_build_t *b)
{
    const madi_topo_t *topo = b->topo;
    for (int g = 0; g < topo->gateways; g++)
        for (int i = 0; i < topo->gateway[g].hosts && topo->gateway[g].given; i++) {
            int host = topo->gateway[g].host[i], n = 0;
            const madi_topo_host_t *h = &topo->host[host];
            for (int k = 0; k < h->ons; k++)
                n += madi_topo_forwards(topo, host, h->on[k].network);
            if (n < 2 && topo->gateway[g].networks)
                madi_topo_wrong(b, topo->gateway[g].line,
                                "gateway '%s' is on %s of the networks that it is to join: it needs two of "
                                "them",
                                h->name, n ? "only one" : "none");
            else if (n < 2)
                madi_topo_wrong(b, topo->gateway[g].line, "gateway '%s' is on one network only ('%s'): a gateway needs two",
                                h->name, topo->network[h->on[0].network].name);
        }
}

/* ---- Reachability over virtual channels ------------------------------------------------------------------------- */

static int part_root(int *part, int n)
{
    while (part[n] != n)
        n = part[n] = part[part[n]];
    return n;
}

/* Number the parts of a channel: set part[network] to a common value for networks that gateways connect, and to -1 for
 * networks that the channel does not use. */
static void parts_join(const madi_topo_t *topo, const madi_topo_virtual_t *v, int *part)
{
    for (int n = 0; n < topo->networks; n++)
        part[n] = -1;
    for (int i = 0; i < v->networks; i++)
        part[v->network[i]] = v->network[i];
    for (int k = 0; k < topo->kinds; k++) {
        int host = topo->kind[k].host[0], last = -1;
        const madi_topo_host_t *h = &topo->host[host];
        for (int i = 0; i < h->ons && topo->kind[k].gateway >= 0; i++) {
            int n = h->on[i].network;
            if (part[n] < 0 || !madi_topo_forwards(topo, host, n))
                continue;
            if (last >= 0)
                part[part_root(part, n)] = part_root(part, last);
            last = n;
        }
    }
    for (int n = 0; n < topo->networks; n++)
        if (part[n] >= 0)
            part[n] = part_root(part, n);
}

static bool in_part(const madi_topo_host_t *h, const int *part, int p)
{
    for (int i = 0; i < h->ons; i++)
        if (part[h->on[i].network] == p)
            return true;
    return false;
}

static bool hosts_reach(const madi_topo_host_t *a, const madi_topo_host_t *b, const int *part, bool *a_on)
{
    *a_on = false;
    for (int i = 0; i < a->ons; i++) {
        int p = part[a->on[i].network];
        *a_on |= p >= 0;
        if (p >= 0 && in_part(b, part, p))
            return true;
    }
    return false;
}

static void virtual_wrong(madi_topo_build_t *b, const madi_topo_virtual_t *v, const madi_topo_host_t *x,
                          const madi_topo_host_t *y, const int *part)
{
    char on_x[120], on_y[120];
    marked_networks_text(b->topo, x, part, on_x, sizeof on_x);
    marked_networks_text(b->topo, y, part, on_y, sizeof on_y);
    madi_topo_wrong(b, v->line,
                    "%s '%s': host '%s' (on %s) cannot reach host '%s' (on %s): no gateway joins these networks; "
                    "put a host on both%s",
                    v->given ? "virtual channel" : "virtual channel (over all networks, as none is named)", v->name, x->name,
                    on_x, y->name, on_y, b->topo->gateways && b->topo->gateway[0].given ? " and name it in gateways" : "");
}

/* True if all networks of the channel are in one part, or if one part has all hosts.  Pairs of hosts then need no check. */
static bool in_one_part(const madi_topo_t *topo, const madi_topo_virtual_t *v, const int *part)
{
    for (int p = 0; p < topo->networks; p++) {
        bool all = part[p] == p;
        for (int i = 0; i < v->networks && all; i++)
            all = part[v->network[i]] == p;
        if (all)
            return true;
    }
    return false;
}

static void virtual_check(madi_topo_build_t *b, const madi_topo_virtual_t *v, int *part)
{
    const madi_topo_t *topo = b->topo;
    bool x_on, y_on;
    parts_join(topo, v, part);
    if (in_one_part(topo, v, part))
        return;
    for (int j = 0; j < topo->kinds; j++) {
        const madi_topo_host_t *x = &topo->host[topo->kind[j].host[0]];
        for (int k = j + 1; k < topo->kinds; k++) {
            const madi_topo_host_t *y = &topo->host[topo->kind[k].host[0]];
            if (hosts_reach(x, y, part, &x_on))
                continue;
            hosts_reach(y, x, part, &y_on);
            if (x_on && y_on) {
                virtual_wrong(b, v, x, y, part);
                return;
            }
        }
    }
}

typedef struct check_named {
    const char *address, *host;
} check_named_t;

static int by_address(const void *a, const void *b)
{
    return strcmp(((const check_named_t *)a)->address, ((const check_named_t *)b)->address);
}

/* Report two hosts of a network that have the same address. */
static void addresses_check(madi_topo_build_t *b, const madi_topo_network_t *n, int index)
{
    const madi_topo_t *topo = b->topo;
    check_named_t *named = madi_topo_alloc(&b->scratch, (size_t)n->hosts, sizeof *named);
    int count = 0;
    for (int i = 0; i < n->hosts && named; i++) {
        const char *address = madi_topo_host_on(topo, n->host[i], index)->address;
        if (address)
            named[count++] = (check_named_t){address, topo->host[n->host[i]].name};
    }
    if (count)
        qsort(named, (size_t)count, sizeof *named, by_address);
    for (int i = 1; i < count; i++)
        if (!strcmp(named[i].address, named[i - 1].address)) {
            madi_topo_wrong(b, n->line, "network '%s': hosts '%s' and '%s' have the same address '%s': give each its own",
                            n->name, named[i - 1].host, named[i].host, named[i].address);
            return;
        }
}

void madi_topo_check(madi_topo_build_t *b)
{
    const madi_topo_t *topo = b->topo;
    int *part = madi_topo_alloc(&b->scratch, (size_t)topo->networks, sizeof *part);
    gateways_check(b);
    for (int i = 0; i < topo->networks; i++)
        addresses_check(b, &topo->network[i], i);
    for (int i = 0; i < topo->virtuals && part && !b->wrong; i++)
        virtual_check(b, &topo->virtual[i], part);
}
