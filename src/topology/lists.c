/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/lists.h"
#include "base/ascii.h"

#ifdef HAVE_LIBCONFIG
#include "topology/range.h"
#include <string.h>

/* ---- Lists of hosts --------------------------------------------------------------------------------------------- */

static int take_name(void *arg, const char *name)
{
    madi_topo_list_t *list = arg;
    int host;
    if (!madi_is_alnum(name[0]) || name[strspn(name, MADI_TREE_LETTERS "-_.")]) {
        madi_topo_wrong(list->build, list->line,
                        "'%s' is no name of a host: names are of letters, digits, '.', '-' and '_', as in \"a, node[0-31]\"",
                        name);
        return 1;
    }
    host = madi_topo_host_make(list->build, name, list->line);
    if (host < 0)
        return 1;
    list->take(list, host, list->line);
    return 0;
}

static void text_hosts(madi_topo_list_t *list, const config_setting_t *text)
{
    char why[300];
    list->line = madi_tree_line(list->build, text);
    if (madi_range_expand(config_setting_get_string(text), take_name, list, why, sizeof why) == -1)
        madi_topo_wrong(list->build, list->line, "%s", why);
}

/* Visit the hosts of a host list: a text, or a list of texts and groups. */
void madi_topo_each_host(madi_topo_list_t *list, const config_setting_t *hosts,
                         void (*group)(madi_topo_list_t *, const config_setting_t *))
{
    if (config_setting_type(hosts) == CONFIG_TYPE_STRING) {
        text_hosts(list, hosts);
        return;
    }
    for (int i = 0; i < config_setting_length(hosts); i++) {
        const config_setting_t *item = config_setting_get_elem(hosts, (unsigned)i);
        if (config_setting_type(item) == CONFIG_TYPE_STRING)
            text_hosts(list, item);
        else if (group && config_setting_type(item) == CONFIG_TYPE_GROUP)
            group(list, item);
        else
            madi_topo_wrong(list->build, madi_tree_line(list->build, item),
                            "%s names no hosts: give a text such as \"node[0-31]\"%s", madi_tree_type(item),
                            group ? ", or a group { hosts = \"gate\"; ... }" : "");
    }
}

/* ---- Lists of other names --------------------------------------------------------------------------------------- */

static int lists_take_other(void *arg, const char *name)
{
    madi_topo_names_t *names = arg;
    names->take(names, name);
    return 0;
}

/* Visit the names in a text, or in an array of texts. */
void madi_topo_each_name(madi_topo_names_t *names, const config_setting_t *s)
{
    char why[300];
    int n = config_setting_type(s) == CONFIG_TYPE_STRING ? 1 : config_setting_length(s);
    for (int i = 0; i < n; i++) {
        const config_setting_t *text =
            config_setting_type(s) == CONFIG_TYPE_STRING ? s : config_setting_get_elem(s, (unsigned)i);
        names->line = madi_tree_line(names->build, text);
        if (config_setting_type(text) != CONFIG_TYPE_STRING)
            madi_topo_wrong(names->build, names->line, "%s is no name: give a text such as \"red\"", madi_tree_type(text));
        else if (madi_range_expand(config_setting_get_string(text), lists_take_other, names, why, sizeof why) == -1)
            madi_topo_wrong(names->build, names->line, "%s", why);
    }
}

void madi_topo_name_wrong(madi_topo_names_t *names, madi_topo_what_t what, const char *kind, const char *name)
{
    char hint[400];
    madi_topo_hint(names->build->topo, what, name, hint, sizeof hint);
    madi_topo_wrong(names->build, names->line, "there is no %s '%s'%s", kind, name, hint);
}

void madi_topo_name_add(madi_topo_names_t *names, int index, const char *name)
{
    for (int i = 0; i < names->count; i++)
        if (names->list[i] == index) {
            madi_topo_wrong(names->build, names->line, "'%s' is named twice: name it once", name);
            return;
        }
    names->list = madi_topo_grow(&names->build->whole->arena, names->list, names->count, sizeof(int));
    if (names->list)
        names->list[names->count++] = index;
}

void madi_topo_take_network(madi_topo_names_t *names, const char *name)
{
    int i = madi_topo_network_find(names->build->topo, name);
    if (i < 0)
        madi_topo_name_wrong(names, MADI_TOPO_NETWORK, "network", name);
    else
        madi_topo_name_add(names, i, name);
}

/* ---- Hosts of clusters ------------------------------------------------------------------------------------------ */

static bool cluster_inside(const madi_topo_t *topo, int cluster, int outer)
{
    while (cluster >= 0 && cluster != outer)
        cluster = topo->cluster[cluster].parent;
    return cluster >= 0;
}

static void take_cluster(madi_topo_names_t *names, const char *name)
{
    madi_topo_t *topo = names->build->topo;
    int cluster = madi_topo_cluster_find(topo, name);
    if (cluster < 0) {
        madi_topo_name_wrong(names, MADI_TOPO_CLUSTER, "cluster", name);
        return;
    }
    for (int host = 0; host < topo->hosts; host++)
        if (topo->host[host].cluster >= 0 && cluster_inside(topo, topo->host[host].cluster, cluster))
            names->hosts->take(names->hosts, host,
                               /* the line is negative for a host that is named through its cluster: naming the host
                                * itself takes precedence */
                               -names->line);
}

void madi_topo_each_cluster(madi_topo_list_t *list, const config_setting_t *clusters)
{
    madi_topo_names_t names = {.build = list->build, .take = take_cluster, .hosts = list};
    madi_topo_each_name(&names, clusters);
}

#endif
