/* SPDX-License-Identifier: BSD-3-Clause */
/* Networks of the topology file. */
#include "topology/lists.h"
#include "base/ascii.h"

#ifdef HAVE_LIBCONFIG
#include "topology/range.h"
#include "topology/value.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The known drivers, with the default latency and bandwidth of their networks. */
static const struct {
    const char *name;
    int64_t latency_ps, bandwidth;
    bool fabric; /* joins hosts, and has no seal */
} drivers[] = {{"self", 100000, INT64_C(10000000000), false}, {"shm", 300000, INT64_C(5000000000), false},
               {"tcp", 25000000, 125000000, false},           {"eth", 5000000, INT64_C(1250000000), true},
               {"mpi", 2000000, INT64_C(12500000000), true},  {"ofi", 2000000, INT64_C(12500000000), true},
               {"ucx", 2000000, INT64_C(12500000000), true},  {"verbs", 2000000, INT64_C(12500000000), true}};
#define DRIVERS (int)(sizeof drivers / sizeof *drivers)

enum {
    NETWORK_DRIVER,
    NETWORK_HOSTS,
    NETWORK_CLUSTERS,
    NETWORK_INTERFACE,
    NETWORK_LATENCY,
    NETWORK_BANDWIDTH,
    NETWORK_SECURITY,
    NETWORK_LEAVES_SITE,
    NETWORK_PARAMETERS,
    NETWORK_COUNT
};
static const madi_tree_entry_t network_table[NETWORK_COUNT] = {
    [NETWORK_DRIVER] = {"driver", MADI_TREE_TEXT, "a text such as \"tcp\"", true},
    [NETWORK_HOSTS] = {"hosts", MADI_TREE_TEXTS, "a text such as \"node[0-31], gate\", or a list of texts and groups",
                       false},
    [NETWORK_CLUSTERS] = {"clusters", MADI_TREE_TEXTS, "names of clusters such as \"east, west\"", false},
    [NETWORK_INTERFACE] = {"interface", MADI_TREE_TEXT, "a text such as \"eth0\"", false},
    [NETWORK_LATENCY] = {"latency", MADI_TREE_TEXT, "a text such as \"1.5us\"", false},
    [NETWORK_BANDWIDTH] = {"bandwidth", MADI_TREE_TEXT, "a text such as \"10Gbit/s\"", false},
    [NETWORK_SECURITY] = {"security", MADI_TREE_TEXT, "\"none\", \"auth\" or \"seal\"", false},
    [NETWORK_LEAVES_SITE] = {"leaves_site", MADI_TREE_BOOL, "true or false", false},
    [NETWORK_PARAMETERS] = {"parameters", MADI_TREE_GROUP, "a group such as { ports = \"7000-7099\"; }", false},
};

/* Settings of a group of hosts on a network. */
enum { ON_HOSTS, ON_INTERFACE, ON_ADDRESS, ON_COUNT };
static const madi_tree_entry_t on_table[ON_COUNT] = {
    [ON_HOSTS] = {"hosts", MADI_TREE_TEXTS, "a text such as \"node[0-31]\"", true},
    [ON_INTERFACE] = {"interface", MADI_TREE_TEXT, "a text such as \"eth0\"", false},
    [ON_ADDRESS] = {"address", MADI_TREE_TEXTS, "a text such as \"10.1.0.[1-32]\"", false},
};

static void onto_network(madi_topo_list_t *list, int host, int line)
{
    madi_topo_build_t *b = list->build;
    const char *address = list->address && list->taken < list->addresses ? list->address[list->taken] : NULL;
    list->taken++;
    if (b->topo->host[host].kind == list->index) { /* the host is named directly and by its cluster: the first counts */
        if (line > 0)
            madi_topo_wrong(b, line, "host '%s' is named twice: name it once", b->topo->host[host].name);
        return;
    }
    if (b->pairs == MADI_TOPO_ON_MAX) {
        if (b->wrong == 0)
            madi_topo_wrong(b, abs(line), "hosts are on networks more than %d times in all", MADI_TOPO_ON_MAX);
        return;
    }
    b->pair = madi_topo_grow(&b->scratch, b->pair, b->pairs, sizeof *b->pair);
    if (!b->pair)
        return;
    /* until kinds are assigned, `kind` is the last network that the host was put on */
    b->topo->host[host].kind = list->index;
    b->pair[b->pairs++] = (madi_topo_pair_t){host, {list->index, list->interface, address}};
}

static const char *read_interface(madi_topo_build_t *b, const config_setting_t *s)
{
    const char *text = s ? config_setting_get_string(s) : NULL;
    if (!text)
        return NULL;
    if (!text[0] || strlen(text) > 63 || text[strspn(text, MADI_TREE_LETTERS "-_.:@")])
        madi_topo_wrong(b, madi_tree_line(b, s), "'%s' is no name of an interface: give one such as \"eth0\"", text);
    return madi_topo_copy(&b->whole->arena, text);
}

/* True if the text is a valid IPv4 address, or if it does not look like one. */
static bool is_ipv4(const char *text)
{
    struct in_addr address;
    char plain[32];
    snprintf(plain, sizeof plain, "%.*s", (int)strcspn(text, "/"), text);
    return plain[strspn(plain, "0123456789.")] || inet_pton(AF_INET, plain, &address) == 1;
}

static int take_address(void *arg, const char *text)
{
    madi_topo_list_t *list = arg;
    if (!text[0] || text[strspn(text, MADI_TREE_LETTERS ".:%-_/")] || !is_ipv4(text)) {
        madi_topo_wrong(list->build, list->line, "'%s' is no address: give one such as \"10.1.0.7\"", text);
        return 1;
    }
    list->address = madi_topo_grow(&list->build->scratch, list->address, list->addresses, sizeof *list->address);
    if (!list->address)
        return 1;
    list->address[list->addresses++] = madi_topo_copy(&list->build->whole->arena, text);
    return 0;
}

static void read_addresses(madi_topo_list_t *list, const config_setting_t *s)
{
    char why[300];
    int n = config_setting_type(s) == CONFIG_TYPE_STRING ? 1 : config_setting_length(s);
    for (int i = 0; i < n; i++) {
        const config_setting_t *text =
            config_setting_type(s) == CONFIG_TYPE_STRING ? s : config_setting_get_elem(s, (unsigned)i);
        list->line = madi_tree_line(list->build, text);
        if (config_setting_type(text) != CONFIG_TYPE_STRING)
            madi_topo_wrong(list->build, list->line, "%s is no address: give a text such as \"10.1.0.7\"",
                            madi_tree_type(text));
        else if (madi_range_expand(config_setting_get_string(text), take_address, list, why, sizeof why) == -1)
            madi_topo_wrong(list->build, list->line, "%s", why);
    }
}

static void on_group(madi_topo_list_t *network, const config_setting_t *s)
{
    const config_setting_t *found[ON_COUNT];
    madi_topo_build_t *b = network->build;
    madi_topo_list_t list = {.build = b, .take = onto_network, .index = network->index, .interface = network->interface};
    int wrong = b->wrong;
    if (!madi_tree_group(b, s, on_table, ON_COUNT, found))
        return;
    if (found[ON_INTERFACE])
        list.interface = read_interface(b, found[ON_INTERFACE]);
    if (found[ON_ADDRESS])
        read_addresses(&list, found[ON_ADDRESS]);
    madi_topo_each_host(&list, found[ON_HOSTS], NULL);
    if (found[ON_ADDRESS] && list.addresses != list.taken && b->wrong == wrong)
        madi_topo_wrong(b, madi_tree_line(b, found[ON_ADDRESS]), "addresses: %d, hosts: %d: give one address for each host",
                        list.addresses, list.taken);
}

static void read_driver(madi_topo_build_t *b, const config_setting_t *s, madi_topo_network_t *network)
{
    const char *name = config_setting_get_string(s);
    char list[100] = "";
    for (int i = 0; i < DRIVERS; i++) {
        if (!strcmp(drivers[i].name, name)) {
            network->driver = drivers[i].name;
            network->latency_ps = drivers[i].latency_ps;
            network->bandwidth = drivers[i].bandwidth;
            return;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", drivers[i].name);
    }
    for (int i = 0; i < DRIVERS; i++)
        if (madi_same_word(drivers[i].name, name)) {
            madi_topo_wrong(b, madi_tree_line(b, s), "there is no driver '%s'; did you mean '%s'?", name, drivers[i].name);
            return;
        }
    madi_topo_wrong(b, madi_tree_line(b, s), "there is no driver '%s'; there are: %s", name, list);
}

static void read_costs(madi_topo_build_t *b, const config_setting_t *latency, const config_setting_t *bandwidth,
                       madi_topo_network_t *network)
{
    if (latency) {
        network->latency_given = true;
        if (!madi_value_time(config_setting_get_string(latency), &network->latency_ps))
            madi_topo_wrong(b, madi_tree_line(b, latency),
                            "latency '%s' is not valid: give a number and ns, us, ms or s, such as \"1.5us\"",
                            config_setting_get_string(latency));
    }
    if (bandwidth) {
        network->bandwidth_given = true;
        if (!madi_value_bandwidth(config_setting_get_string(bandwidth), &network->bandwidth))
            madi_topo_wrong(
                b, madi_tree_line(b, bandwidth),
                "bandwidth '%s' is not valid: give a number and bit/s or B/s with k, M, G or T, such as \"10Gbit/s\"",
                config_setting_get_string(bandwidth));
    }
}

/* Check the security of a network that is the memory of one host, which no other host can read. */
static void security_of_memory(madi_topo_build_t *b, const config_setting_t *s, const config_setting_t *leaves,
                               const madi_topo_network_t *network)
{
    if (network->leaves_site)
        madi_topo_wrong(b, madi_tree_line(b, leaves), "a network of driver %s is the memory of one host, and leaves no site",
                        network->driver);
    else if (s && network->security == MADI_TOPO_SEAL)
        madi_topo_wrong(b, madi_tree_line(b, s),
                        "driver %s needs no seal, and has none: its data stays in the memory of one host", network->driver);
}

static bool is_fabric(const char *driver)
{
    for (int i = 0; i < DRIVERS; i++)
        if (!strcmp(drivers[i].name, driver))
            return drivers[i].fabric;
    return false;
}

/* Check the security of a network whose driver has no seal. */
static void security_of_fabric(madi_topo_build_t *b, const config_setting_t *s, const config_setting_t *leaves,
                               const madi_topo_network_t *network)
{
    if (network->security == MADI_TOPO_SEAL)
        madi_topo_wrong(b, madi_tree_line(b, s ? s : leaves),
                        "a network of driver %s cannot be sealed: give security \"auth\" if only trusted hosts are on it",
                        network->driver);
}

static void read_security(madi_topo_build_t *b, const config_setting_t *s, const config_setting_t *leaves,
                          madi_topo_network_t *network)
{
    static const char *const names[] = {"none", "auth", "seal"};
    const char *text = s ? config_setting_get_string(s) : NULL;
    int found = -1;
    network->leaves_site = leaves && config_setting_get_bool(leaves);
    network->security = network->leaves_site ? MADI_TOPO_SEAL : MADI_TOPO_AUTH;
    network->security_given = text != NULL;
    for (int i = 0; text && i < 3; i++)
        if (!strcmp(text, names[i]))
            found = i;
    if (found >= 0)
        network->security = (madi_topo_security_t)found;
    else if (text && !strcmp(text, "key")) /* "key" is the former name of "auth" */
        network->security = MADI_TOPO_AUTH;
    else if (text)
        madi_topo_wrong(
            b, madi_tree_line(b, s),
            "there is no security '%s': give \"none\", \"auth\" (connections prove the job's key) or \"seal\" (TLS)", text);
    if (text && network->leaves_site && network->security == MADI_TOPO_NONE)
        madi_topo_wrong(b, madi_tree_line(b, s),
                        "a network that leaves the site cannot have security \"none\": give \"seal\", or \"auth\" if others "
                        "may read its traffic");
    if (network->driver && is_fabric(network->driver))
        security_of_fabric(b, s, leaves, network);
    else if (network->driver && strcmp(network->driver, "tcp") != 0)
        security_of_memory(b, s, leaves, network);
}

static void read_parameters(madi_topo_build_t *b, const config_setting_t *s, madi_topo_network_t *network)
{
    char number[32];
    for (int i = 0; i < config_setting_length(s); i++) {
        const config_setting_t *p = config_setting_get_elem(s, (unsigned)i);
        const char *value = number;
        switch (config_setting_type(p)) {
        case CONFIG_TYPE_STRING: value = config_setting_get_string(p); break;
        case CONFIG_TYPE_BOOL: value = config_setting_get_bool(p) ? "yes" : "no"; break;
        case CONFIG_TYPE_INT:
        case CONFIG_TYPE_INT64: snprintf(number, sizeof number, "%lld", config_setting_get_int64(p)); break;
        default:
            madi_topo_wrong(b, madi_tree_line(b, p), "parameter '%s' is %s: give a text, a whole number, or yes or no",
                            config_setting_name(p), madi_tree_type(p));
            continue;
        }
        network->parameter =
            madi_topo_grow(&b->whole->arena, network->parameter, network->parameters, sizeof *network->parameter);
        if (network->parameter)
            network->parameter[network->parameters++] = (madi_topo_parameter_t){
                madi_topo_copy(&b->whole->arena, config_setting_name(p)), madi_topo_copy(&b->whole->arena, value)};
    }
}

void madi_topo_network_read(madi_topo_build_t *b, const config_setting_t *s)
{
    const config_setting_t *found[NETWORK_COUNT];
    madi_topo_t *topo = b->topo;
    madi_topo_network_t network = {.name = madi_topo_copy(&b->whole->arena, config_setting_name(s)),
                                   .line = madi_tree_line(b, s)},
                        *grown;
    madi_topo_list_t list = {.build = b, .take = onto_network, .index = topo->networks};
    int before = b->pairs;
    if (topo->networks == MADI_TOPO_NETWORKS_MAX) {
        if (config_setting_index(s) == MADI_TOPO_NETWORKS_MAX)
            madi_topo_wrong(b, network.line, "there are more than %d networks", MADI_TOPO_NETWORKS_MAX);
        return;
    }
    grown = madi_topo_grow(&b->whole->arena, topo->network, topo->networks, sizeof *grown);
    if (!grown)
        return;
    topo->network = grown;
    grown[topo->networks++] = network; /* counted now: so its name is known even if the rest is wrong */
    if (!madi_tree_group(b, s, network_table, NETWORK_COUNT, found))
        return;
    read_driver(b, found[NETWORK_DRIVER], &network);
    read_costs(b, found[NETWORK_LATENCY], found[NETWORK_BANDWIDTH], &network);
    read_security(b, found[NETWORK_SECURITY], found[NETWORK_LEAVES_SITE], &network);
    if (found[NETWORK_PARAMETERS])
        read_parameters(b, found[NETWORK_PARAMETERS], &network);
    list.interface = read_interface(b, found[NETWORK_INTERFACE]);
    if (found[NETWORK_HOSTS])
        madi_topo_each_host(&list, found[NETWORK_HOSTS], on_group);
    if (found[NETWORK_CLUSTERS])
        madi_topo_each_cluster(&list, found[NETWORK_CLUSTERS]);
    if (b->pairs == before && !b->wrong)
        madi_topo_wrong(b, network.line, "no host is on it: give hosts or clusters");
    topo->network[list.index] = network;
}

#endif
