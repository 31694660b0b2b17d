/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion of libconfig's tree into the structure.  A table lists the settings that a group may have (tree.h checks
 * them); the functions here take the values. */
#include "topology/build.h"
#include "topology/lists.h"

#ifdef HAVE_LIBCONFIG
#include "topology/range.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GATEWAYS_EACH_MAX 64
#define CORES_MAX 1024

bool madi_topo_supported(void)
{
    return true;
}

/* ---- Clusters --------------------------------------------------------------------------------------------------- */

enum { CLUSTER_HOSTS, CLUSTER_CLUSTERS, CLUSTER_COUNT };
static const madi_tree_entry_t cluster_table[CLUSTER_COUNT] = {
    [CLUSTER_HOSTS] = {"hosts", MADI_TREE_TEXTS, "a text such as \"node[0-31]\", or an array of such texts", false},
    [CLUSTER_CLUSTERS] = {"clusters", MADI_TREE_TEXTS, "the names of the clusters inside, such as \"east, west\"", false},
};

static void into_cluster(madi_topo_list_t *list, int host, int line)
{
    madi_topo_t *topo = list->build->topo;
    int other = topo->host[host].cluster;
    if (other == list->index)
        madi_topo_wrong(list->build, line, "host '%s' is named twice: name it once", topo->host[host].name);
    else if (other >= 0)
        madi_topo_wrong(list->build, line, "host '%s' is in cluster '%s' already (line %d): put each host into one cluster",
                        topo->host[host].name, topo->cluster[other].name, topo->cluster[other].line);
    else
        topo->host[host].cluster = list->index;
}

static void into_parent(madi_topo_names_t *names, const char *name)
{
    madi_topo_t *topo = names->build->topo;
    int i = madi_topo_cluster_find(topo, name), up, depth = 0;
    if (i < 0) {
        madi_topo_name_wrong(names, MADI_TOPO_CLUSTER, "cluster", name);
        return;
    }
    for (up = names->index; up >= 0 && up != i && depth <= MADI_TOPO_NESTED_MAX; up = topo->cluster[up].parent)
        depth++;
    if (depth > MADI_TOPO_NESTED_MAX)
        madi_topo_wrong(names->build, names->line, "clusters are more than %d deep inside each other", MADI_TOPO_NESTED_MAX);
    else if (up == i)
        madi_topo_wrong(names->build, names->line, "cluster '%s' is inside '%s' already: clusters cannot hold each other",
                        topo->cluster[names->index].name, name);
    else if (topo->cluster[i].parent >= 0)
        madi_topo_wrong(names->build, names->line, "cluster '%s' is in cluster '%s' already: put it into one", name,
                        topo->cluster[topo->cluster[i].parent].name);
    else
        topo->cluster[i].parent = names->index;
}

static void cluster_make(madi_topo_build_t *b, const config_setting_t *s)
{
    madi_topo_t *topo = b->topo;
    madi_topo_cluster_t *cluster = madi_topo_grow(&b->whole->arena, topo->cluster, topo->clusters, sizeof *cluster);
    if (!cluster)
        return;
    topo->cluster = cluster;
    cluster[topo->clusters++] = (madi_topo_cluster_t){.name = madi_topo_copy(&b->whole->arena, config_setting_name(s)),
                                                      .parent = -1,
                                                      .given = true,
                                                      .line = madi_tree_line(b, s)};
}

static void cluster_read(madi_topo_build_t *b, const config_setting_t *s, int index)
{
    const config_setting_t *found[CLUSTER_COUNT];
    madi_topo_list_t list = {.build = b, .take = into_cluster, .index = index};
    madi_topo_names_t names = {.build = b, .take = into_parent, .index = index};
    if (!madi_tree_group(b, s, cluster_table, CLUSTER_COUNT, found))
        return;
    if (found[CLUSTER_HOSTS])
        madi_topo_each_host(&list, found[CLUSTER_HOSTS], NULL);
    if (found[CLUSTER_CLUSTERS])
        madi_topo_each_name(&names, found[CLUSTER_CLUSTERS]);
    if (!found[CLUSTER_HOSTS] && !found[CLUSTER_CLUSTERS])
        madi_topo_wrong(b, madi_tree_line(b, s), "it is empty: give hosts or clusters");
}

/* ---- Gateways --------------------------------------------------------------------------------------------------- */

enum { GATEWAY_HOSTS, GATEWAY_CLUSTERS, GATEWAY_COUNT_EACH, GATEWAY_CORES, GATEWAY_NETWORKS, GATEWAY_COUNT };
static const madi_tree_entry_t gateway_table[GATEWAY_COUNT] = {
    [GATEWAY_HOSTS] = {"hosts", MADI_TREE_TEXTS, "a text such as \"gate[0-1]\"", false},
    [GATEWAY_CLUSTERS] = {"clusters", MADI_TREE_TEXTS, "names of clusters such as \"east, west\"", false},
    [GATEWAY_COUNT_EACH] = {"count", MADI_TREE_INT, "a whole number such as 2", false},
    [GATEWAY_CORES] = {"cores", MADI_TREE_TEXT, "a text such as \"0,2-3\"", false},
    [GATEWAY_NETWORKS] = {"networks", MADI_TREE_TEXTS, "names of networks such as \"red, blue\"", false},
};

static int gateway_make(madi_topo_build_t *b, madi_topo_gateway_t gateway)
{
    madi_topo_t *topo = b->topo;
    madi_topo_gateway_t *grown = madi_topo_grow(&b->whole->arena, topo->gateway, topo->gateways, sizeof *grown);
    if (!grown)
        return -1;
    topo->gateway = grown;
    grown[topo->gateways] = gateway;
    return topo->gateways++;
}

static void into_gateway(madi_topo_list_t *list, int host, int line)
{
    madi_topo_t *topo = list->build->topo;
    if (list->index < 0)
        list->index = gateway_make(list->build, (madi_topo_gateway_t){.count = 1, .given = true, .line = abs(line)});
    if (list->index < 0)
        return;
    if (topo->host[host].gateway >= 0) {
        if (line > 0 || topo->host[host].gateway != list->index)
            madi_topo_wrong(list->build, abs(line), "host '%s' is named twice: name it once", topo->host[host].name);
    } else {
        topo->host[host].gateway = list->index;
    }
}

/* Take one core.  A list of cores like "0,2-3" was expanded before. */
static int take_core(void *arg, const char *core)
{
    madi_topo_names_t *names = arg;
    if (atoi(core) >= CORES_MAX) {
        madi_topo_wrong(names->build, names->line, "core %s is too large a number: there are at most %d", core, CORES_MAX);
        return 1;
    }
    madi_topo_name_add(names, atoi(core), core);
    return 0;
}

static void read_cores(madi_topo_build_t *b, const config_setting_t *s, madi_topo_gateway_t *gateway)
{
    char text[256], why[300];
    madi_topo_names_t names = {.build = b, .line = madi_tree_line(b, s)};
    const char *cores = config_setting_get_string(s);
    snprintf(text, sizeof text, "[%s]", cores);
    if (strlen(cores) > sizeof text - 3 || cores[strspn(cores, "0123456789,-")] ||
        madi_range_expand(text, take_core, &names, why, sizeof why) == -1)
        madi_topo_wrong(b, names.line, "cores '%.80s' are not valid: give numbers and ranges such as \"0,2-3\"", cores);
    gateway->core = names.list;
    gateway->cores = names.count;
}

static void gateway_group(madi_topo_list_t *all, const config_setting_t *s)
{
    const config_setting_t *found[GATEWAY_COUNT];
    madi_topo_build_t *b = all->build;
    madi_topo_gateway_t gateway = {.count = 1, .given = true, .line = madi_tree_line(b, s)};
    madi_topo_list_t list = {.build = b, .take = into_gateway};
    madi_topo_names_t names = {.build = b, .take = madi_topo_take_network};
    int wrong = b->wrong;
    if (!madi_tree_group(b, s, gateway_table, GATEWAY_COUNT, found))
        return;
    if (!found[GATEWAY_HOSTS] && !found[GATEWAY_CLUSTERS])
        madi_topo_wrong(b, gateway.line, "there are no hosts: give hosts, such as hosts = \"gate[0-1]\", or clusters");
    if (found[GATEWAY_COUNT_EACH])
        gateway.count = config_setting_get_int(found[GATEWAY_COUNT_EACH]);
    if (gateway.count < 1 || gateway.count > GATEWAYS_EACH_MAX)
        madi_topo_wrong(b, madi_tree_line(b, found[GATEWAY_COUNT_EACH]), "count %d is not valid: give 1 to %d",
                        gateway.count, GATEWAYS_EACH_MAX);
    if (found[GATEWAY_CORES])
        read_cores(b, found[GATEWAY_CORES], &gateway);
    if (found[GATEWAY_NETWORKS]) {
        madi_topo_each_name(&names, found[GATEWAY_NETWORKS]);
        gateway.network = names.list;
        gateway.networks = names.count;
        if (names.count == 1 && b->wrong == wrong)
            madi_topo_wrong(b, madi_tree_line(b, found[GATEWAY_NETWORKS]),
                            "one network alone joins nothing: give two or more");
    }
    list.index = gateway_make(b, gateway);
    if (list.index >= 0 && found[GATEWAY_HOSTS])
        madi_topo_each_host(&list, found[GATEWAY_HOSTS], NULL);
    if (list.index >= 0 && found[GATEWAY_CLUSTERS])
        madi_topo_each_cluster(&list, found[GATEWAY_CLUSTERS]);
}

/* ---- Channels --------------------------------------------------------------------------------------------------- */

enum { CHANNEL_NETWORK, CHANNEL_COUNT };
static const madi_tree_entry_t channel_table[CHANNEL_COUNT] = {
    [CHANNEL_NETWORK] = {"network", MADI_TREE_TEXT, "the name of a network, such as \"red\"", true},
};

/* True if the setting has several names where one is allowed. */
static bool is_list(const config_setting_t *s)
{
    const char *text = config_setting_get_string(s);
    return text && strchr(text, ',');
}

static void channel_read(madi_topo_build_t *b, const config_setting_t *s)
{
    const config_setting_t *found[CHANNEL_COUNT];
    madi_topo_t *topo = b->topo;
    madi_topo_names_t names = {.build = b, .take = madi_topo_take_network};
    madi_topo_channel_t *grown;
    if (madi_topo_network_find(topo, config_setting_name(s)) >= 0)
        madi_topo_wrong(b, madi_tree_line(b, s), "a network has this name too: give another name");
    if (!madi_tree_group(b, s, channel_table, CHANNEL_COUNT, found))
        return;
    names.line = madi_tree_line(b, found[CHANNEL_NETWORK]);
    if (is_list(found[CHANNEL_NETWORK])) {
        madi_topo_wrong(b, names.line, "a channel stays on one network: name one, or make it one of virtual_channels");
        return;
    }
    madi_topo_take_network(&names, config_setting_get_string(found[CHANNEL_NETWORK]));
    grown = madi_topo_grow(&b->whole->arena, topo->channel, topo->channels, sizeof *grown);
    if (!grown)
        return;
    topo->channel = grown;
    grown[topo->channels++] = (madi_topo_channel_t){.name = madi_topo_copy(&b->whole->arena, config_setting_name(s)),
                                                    .network = names.count ? names.list[0] : -1,
                                                    .line = madi_tree_line(b, s)};
}

/* Settings of a virtual channel. */
enum { VIRTUAL_OVER, VIRTUAL_ENCRYPT, VIRTUAL_COUNT };
static const madi_tree_entry_t virtual_table[VIRTUAL_COUNT] = {
    [VIRTUAL_OVER] = {"over", MADI_TREE_TEXTS, "names of networks and channels such as \"red, blue\"", true},
    [VIRTUAL_ENCRYPT] = {"encrypt", MADI_TREE_TEXT, "\"end-to-end\" or \"none\"", false},
};

/* State of a visit to the names in the setting `over`.  names.hosts is unused. */
typedef struct over {
    madi_topo_names_t names; /* must be first */
    int *channel, channels;
} over_t;

static void take_over(madi_topo_names_t *names, const char *name)
{
    over_t *over = (over_t *)names;
    const madi_topo_t *topo = names->build->topo;
    int channel = madi_topo_channel_find(topo, name), before = names->count;
    int network = channel >= 0 ? topo->channel[channel].network : madi_topo_network_find(topo, name);
    if (network < 0) {
        if (channel < 0) /* else the channel is wrong, and that was reported */
            madi_topo_name_wrong(names, MADI_TOPO_NETWORK, "network or channel", name);
        return;
    }
    madi_topo_name_add(names, network, topo->network[network].name);
    if (names->count == before)
        return;
    over->channel = madi_topo_grow(&names->build->whole->arena, over->channel, before, sizeof(int));
    if (over->channel)
        over->channel[before] = channel;
}

static bool read_encrypt(madi_topo_build_t *b, const config_setting_t *s)
{
    const char *text = s ? config_setting_get_string(s) : "none";
    if (!strcmp(text, "end-to-end"))
        return true;
    if (strcmp(text, "none"))
        madi_topo_wrong(b, madi_tree_line(b, s), "there is no encryption '%.40s': give \"end-to-end\" or \"none\"", text);
    return false;
}

static void virtual_read(madi_topo_build_t *b, const config_setting_t *s)
{
    const config_setting_t *found[VIRTUAL_COUNT];
    madi_topo_t *topo = b->topo;
    over_t over = {.names = {.build = b, .take = take_over}};
    madi_topo_virtual_t *grown;
    if (madi_topo_channel_find(topo, config_setting_name(s)) >= 0 ||
        madi_topo_network_find(topo, config_setting_name(s)) >= 0)
        madi_topo_wrong(b, madi_tree_line(b, s), "a channel or a network has this name too: give another name");
    if (!madi_tree_group(b, s, virtual_table, VIRTUAL_COUNT, found))
        return;
    madi_topo_each_name(&over.names, found[VIRTUAL_OVER]);
    grown = madi_topo_grow(&b->whole->arena, topo->virtual, topo->virtuals, sizeof *grown);
    if (!grown)
        return;
    topo->virtual = grown;
    grown[topo->virtuals++] = (madi_topo_virtual_t){.name = madi_topo_copy(&b->whole->arena, config_setting_name(s)),
                                                    .network = over.names.list,
                                                    .channel = over.channel,
                                                    .networks = over.names.count,
                                                    .given = true,
                                                    .encrypts = read_encrypt(b, found[VIRTUAL_ENCRYPT]),
                                                    .line = madi_tree_line(b, s)};
}

/* ---- The file --------------------------------------------------------------------------------------------------- */

enum { FILE_CLUSTERS, FILE_NETWORKS, FILE_GATEWAYS, FILE_CHANNELS, FILE_VIRTUALS, FILE_COUNT };
static const madi_tree_entry_t file_table[FILE_COUNT] = {
    [FILE_CLUSTERS] = {"clusters", MADI_TREE_GROUP, "a group such as { east = { hosts = \"node[0-31]\"; }; }", false},
    [FILE_NETWORKS] = {"networks", MADI_TREE_GROUP,
                       "a group such as { red = { driver = \"tcp\"; hosts = \"node[0-31]\"; }; }", true},
    [FILE_GATEWAYS] = {"gateways", MADI_TREE_TEXTS, "a text such as \"gate[0-1]\", or a list of texts and groups", false},
    [FILE_CHANNELS] = {"channels", MADI_TREE_GROUP, "a group such as { fast = { network = \"red\"; }; }", false},
    [FILE_VIRTUALS] = {"virtual_channels", MADI_TREE_GROUP, "a group such as { all = { over = \"red, blue\"; }; }", false},
};

/* Call `read` for each named group of a section. */
static void section_read(madi_topo_build_t *b, const config_setting_t *s, const char *what,
                         void (*read)(madi_topo_build_t *, const config_setting_t *))
{
    char where[100];
    for (int i = 0; s && i < config_setting_length(s); i++) {
        const config_setting_t *item = config_setting_get_elem(s, (unsigned)i);
        const char *name = config_setting_name(item);
        snprintf(where, sizeof where, "%s '%.63s'", what, name);
        b->where = where;
        if (strlen(name) > 63 || strchr(name, '*'))
            madi_topo_wrong(b, madi_tree_line(b, item), "this is no name: give up to 63 letters, digits, '-' and '_'");
        else if (config_setting_type(item) != CONFIG_TYPE_GROUP)
            madi_topo_wrong(b, madi_tree_line(b, item), "%s stands where a group should: give %s = { ... };",
                            madi_tree_type(item), name);
        else
            read(b, item);
        b->where = NULL;
    }
}

static void cluster_fill(madi_topo_build_t *b, const config_setting_t *s)
{
    int index = madi_topo_cluster_find(b->topo, config_setting_name(s));
    if (index >= 0)
        cluster_read(b, s, index);
}

void madi_topo_read(madi_topo_build_t *b, const char *text, size_t len)
{
    const config_setting_t *found[FILE_COUNT];
    madi_tree_t *tree = madi_tree_make(b, text, len);
    madi_topo_list_t gateways = {.build = b, .take = into_gateway, .index = -1};
    if (!tree)
        return;
    madi_tree_group(b, madi_tree_root(tree), file_table, FILE_COUNT, found);
    if (found[FILE_NETWORKS]) {
        b->networks_line = madi_tree_line(b, found[FILE_NETWORKS]);
        section_read(b, found[FILE_CLUSTERS], "cluster", cluster_make);
        if (!b->wrong)
            section_read(b, found[FILE_CLUSTERS], "cluster", cluster_fill);
        section_read(b, found[FILE_NETWORKS], "network", madi_topo_network_read);
        b->where = "gateways";
        if (found[FILE_GATEWAYS])
            madi_topo_each_host(&gateways, found[FILE_GATEWAYS], gateway_group);
        b->where = NULL;
        section_read(b, found[FILE_CHANNELS], "channel", channel_read);
        section_read(b, found[FILE_VIRTUALS], "virtual channel", virtual_read);
        if (!b->topo->networks && !b->wrong)
            madi_topo_wrong(b, b->networks_line,
                            "there is no network: name one, as in red = { driver = "
                            "\"tcp\"; hosts = \"node[0-31]\"; };");
    }
    madi_tree_free(tree);
}

#else

bool madi_topo_supported(void)
{
    return false;
}

void madi_topo_read(madi_topo_build_t *b, const char *text, size_t len)
{
    (void)b;
    (void)text;
    (void)len;
}

#endif
