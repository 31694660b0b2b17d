/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_plan.h"

#include "topology/value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#define BRIDGE_MAX 1000 /* maximum number of interfaces on a bridge; the kernel's limit is 1,024 */

/* --- addresses --- */

typedef struct address {
    int family; /* AF_UNSPEC: not declared */
    int prefix; /* -1: not declared */
    unsigned char byte[16];
} address_t;

static bool address_parse(const char *text, address_t *address)
{
    char name[64], *slash, *end;
    memset(address, 0, sizeof(*address));
    address->prefix = -1;
    if (!text)
        return true;
    if ((size_t)snprintf(name, sizeof(name), "%s", text) >= sizeof(name))
        return false;
    slash = strchr(name, '/');
    if (slash) {
        *slash = 0;
        address->prefix = (int)strtol(slash + 1, &end, 10);
        if (end == slash + 1 || *end || address->prefix < 1)
            return false;
    }
    address->family = strchr(name, ':') ? AF_INET6 : AF_INET;
    return inet_pton(address->family, name, address->byte) == 1 &&
           address->prefix <= (address->family == AF_INET ? 32 : 128);
}

/* Return the number of leading bits that two addresses have in common. */
static int address_common(const address_t *a, const address_t *b)
{
    int bits = 0;
    while (bits < 128 && ((a->byte[bits / 8] ^ b->byte[bits / 8]) & (0x80 >> bits % 8)) == 0)
        bits++;
    return bits;
}

/* Assign addresses to the ports of a network: the declared ones, and the next free ones to other ports.  If none is
 * declared, network number N uses 10.N+1.0.0/16. */
static bool addresses_make(madi_lab_plan_t *plan, int net, const address_t *declared)
{
    address_t base = {.family = AF_INET, .byte = {10, (unsigned char)(net % 255 + 1)}};
    int prefix = 16;
    bool any = false;
    unsigned next = 0;

    for (int i = 0; i < plan->ports; i++) {
        if (plan->port[i].net != net || declared[i].family == AF_UNSPEC)
            continue;
        if (!any) {
            base = declared[i];
            prefix = base.family == AF_INET ? 24 : 64;
        } else if (declared[i].family != base.family) {
            madi_lab_say("%s: network '%s' has addresses of IPv4 and IPv6: a lab can have one kind for each network",
                         plan->path, plan->net[net].name);
            return false;
        } else if (address_common(&base, &declared[i]) < prefix) {
            prefix = address_common(&base, &declared[i]);
        }
        any = true;
    }
    for (int i = 0; i < plan->ports; i++) {
        address_t own = declared[i];
        char name[INET6_ADDRSTRLEN];
        if (plan->port[i].net != net)
            continue;
        while (own.family == AF_UNSPEC) {
            const int last = base.family == AF_INET ? 3 : 15;
            own = base;
            own.prefix = -1;
            own.byte[last] = (unsigned char)(next % 254 + 1);
            own.byte[last - 1] = (unsigned char)(any && prefix > 16 && next < 254 ? base.byte[last - 1] : next / 254);
            next++;
            for (int j = 0; j < plan->ports; j++)
                if (plan->port[j].net == net && declared[j].family != AF_UNSPEC && address_common(&declared[j], &own) == 128)
                    own.family = AF_UNSPEC;
        }
        inet_ntop(own.family, own.byte, name, sizeof(name));
        snprintf(plan->port[i].address, sizeof(plan->port[i].address), "%s/%d", name, own.prefix > 0 ? own.prefix : prefix);
    }
    return true;
}

/* --- from a topology --- */

static char *cluster_path(const madi_topo_t *topo, int cluster)
{
    char *path = madi_lab_text("%s", cluster >= 0 && topo->cluster[cluster].given ? topo->cluster[cluster].name : "");
    for (int up = cluster >= 0 ? topo->cluster[cluster].parent : -1; up >= 0; up = topo->cluster[up].parent) {
        char *longer = madi_lab_text("%s/%s", topo->cluster[up].name, path);
        free(path);
        path = longer;
    }
    return path;
}

static bool name_fits(const char *name, size_t max)
{
    return name[0] && name[0] != '-' && name[0] != '.' && strlen(name) <= max &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == 0;
}

/* True for a driver that uses the memory of one host, and no network between hosts. */
static bool in_memory(const char *driver)
{
    return strcmp(driver, "shm") == 0 || strcmp(driver, "self") == 0;
}

static bool port_named(const madi_lab_plan_t *plan, int host, const char *interface)
{
    for (int i = 0; i < plan->ports; i++)
        if (plan->port[i].host == host && plan->port[i].interface && strcmp(plan->port[i].interface, interface) == 0)
            return true;
    return false;
}

static bool ports_make(madi_lab_plan_t *plan, const madi_topo_t *topo, address_t *declared)
{
    for (int h = 0; h < topo->hosts; h++) {
        for (int i = 0; i < topo->host[h].ons; i++) {
            const madi_topo_on_t *on = &topo->host[h].on[i];
            madi_lab_port_t *port = &plan->port[plan->ports];
            if (in_memory(plan->net[on->network].driver))
                continue;
            if (on->interface && (!name_fits(on->interface, IFNAMSIZ - 1) || port_named(plan, h, on->interface))) {
                madi_lab_say("%s:%d: interface '%s' of host '%s' cannot be made: %s", plan->path, topo->host[h].line,
                             on->interface, topo->host[h].name,
                             port_named(plan, h, on->interface)
                                 ? "it is on another network already"
                                 : "its name has other than letters, digits, '.', '_', '-', or more than 15");
                return false;
            }
            if (!address_parse(on->address, &declared[plan->ports])) {
                madi_lab_say("%s:%d: '%s' is no address that an interface of host '%s' can have: give one like 10.1.0.1/24",
                             plan->path, topo->host[h].line, on->address, topo->host[h].name);
                return false;
            }
            port->net = on->network;
            port->host = h;
            port->interface = on->interface ? madi_lab_text("%s", on->interface) : NULL;
            snprintf(port->peer, sizeof(port->peer), "p%d", plan->ports);
            plan->ports++;
        }
    }
    for (int i = 0; i < plan->ports; i++) {
        for (int n = 0; !plan->port[i].interface; n++) {
            char name[IFNAMSIZ];
            snprintf(name, sizeof(name), "eth%d", n);
            if (!port_named(plan, plan->port[i].host, name))
                plan->port[i].interface = madi_lab_text("%s", name);
        }
    }
    return true;
}

static bool plan_make(madi_lab_plan_t *plan, const madi_topo_t *topo)
{
    int ons = 0;
    address_t *declared;
    bool fine = true;

    plan->net = madi_lab_alloc((size_t)topo->networks, sizeof(*plan->net));
    plan->host = madi_lab_alloc((size_t)topo->hosts + 1, sizeof(*plan->host));
    for (int i = 0; i < topo->networks; i++) {
        const madi_topo_network_t *net = &topo->network[i];
        plan->net[plan->nets++] =
            (madi_lab_net_t){madi_lab_text("%s", net->name), madi_lab_text("%s", net->driver),
                             net->bandwidth_given ? net->bandwidth : 0, net->latency_given ? net->latency_ps : 0};
        if (net->hosts > BRIDGE_MAX && !in_memory(net->driver)) {
            madi_lab_say("%s:%d: network '%s' has %d hosts: a lab can have %d on one", plan->path, net->line, net->name,
                         net->hosts, BRIDGE_MAX);
            return false;
        }
    }
    for (int i = 0; i < topo->hosts; i++) {
        const madi_topo_host_t *host = &topo->host[i];
        if (!name_fits(host->name, 63)) {
            madi_lab_say("%s:%d: '%s' cannot be the name of a host", plan->path, host->line, host->name);
            return false;
        }
        plan->host[plan->hosts++] = (madi_lab_host_t){madi_lab_text("%s", host->name), cluster_path(topo, host->cluster)};
        ons += host->ons;
    }
    for (int i = 0; i < topo->clusters; i++)
        plan->clusters += topo->cluster[i].given;
    plan->port = madi_lab_alloc((size_t)ons, sizeof(*plan->port));
    declared = madi_lab_alloc((size_t)ons, sizeof(*declared));
    fine = ports_make(plan, topo, declared);
    for (int i = 0; fine && i < plan->nets; i++)
        fine = addresses_make(plan, i, declared);
    free(declared);
    if (madi_lab_plan_host(plan, MADI_LAB_LAUNCH) < 0)
        plan->host[plan->hosts++] = (madi_lab_host_t){madi_lab_text(MADI_LAB_LAUNCH), madi_lab_text("%s", "")};
    return fine;
}

int madi_lab_plan_read(madi_lab_plan_t *plan, const char *path)
{
    char *errors = NULL;
    mad_status_t status;

    memset(plan, 0, sizeof(*plan));
    plan->path = realpath(path, NULL);
    if (!plan->path) {
        madi_lab_say("the topology file '%s' cannot be read: %s", path, strerror(errno));
        return -1;
    }
    status = madi_topo_load(path, &plan->topology, &errors);
    if (status != MAD_OK) {
        fprintf(stderr, "%s%s", errors ? errors : "", errors && errors[0] && errors[strlen(errors) - 1] != '\n' ? "\n" : "");
        madi_lab_say("no lab is made: %s", errors ? "the topology file is not right" : mad_status_text(status));
        free(errors);
        return -1;
    }
    return plan_make(plan, plan->topology) ? 0 : -1;
}

int madi_lab_plan_net(const madi_lab_plan_t *plan, const char *name)
{
    for (int i = 0; i < plan->nets; i++)
        if (strcmp(plan->net[i].name, name) == 0)
            return i;
    return -1;
}

int madi_lab_plan_host(const madi_lab_plan_t *plan, const char *name)
{
    for (int i = 0; i < plan->hosts; i++)
        if (strcmp(plan->host[i].name, name) == 0)
            return i;
    return -1;
}

/* --- output --- */

void madi_lab_plan_print(const madi_lab_plan_t *plan, FILE *out)
{
    for (int i = 0; i < plan->nets; i++) {
        const madi_lab_net_t *net = &plan->net[i];
        const char *join = "hosts ";
        char text[MADI_VALUE_MAX];
        fprintf(out, "network %s: ", net->name);
        if (in_memory(net->driver)) {
            fprintf(out, "driver %s, the memory of each of its hosts\n", net->driver);
            continue;
        }
        fprintf(out, "bridge b%d", i);
        if (strcmp(net->driver, "tcp") != 0)
            fprintf(out, " (an Ethernet in place of %s)", net->driver);
        fprintf(out, ", %s", net->rate > 0 ? madi_value_bandwidth_text(net->rate, text) : "no limit");
        if (net->delay_ps > 0)
            fprintf(out, ", %s", madi_value_time_text(net->delay_ps, text));
        fprintf(out, "; ");
        for (int p = 0; p < plan->ports; p++)
            if (plan->port[p].net == i) {
                fprintf(out, "%s%s", join, plan->host[plan->port[p].host].name);
                join = ", ";
            }
        fprintf(out, "\n");
    }
    for (int h = 0; h < plan->hosts; h++) {
        const char *join = ": ";
        fprintf(out, "host %s", plan->host[h].name);
        if (plan->host[h].cluster[0])
            fprintf(out, " in %s", plan->host[h].cluster);
        for (int p = 0; p < plan->ports; p++)
            if (plan->port[p].host == h) {
                fprintf(out, "%s%s %s on %s", join, plan->port[p].interface, plan->port[p].address,
                        plan->net[plan->port[p].net].name);
                join = "; ";
            }
        fprintf(out, "%s\n", join[0] == ':' ? ": no network" : "");
    }
}
