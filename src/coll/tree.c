/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: the tree of islands, hosts and members. */
#include "coll/tree.h"

#define WANTED_MAX 48 /* most children on a level: 3 for each digit of radix 4 */

/* The leader of a set is the root if the set has it, else the member of the lowest index.  A level is a list of members:
 * the leaders of all islands, of the hosts of an island, or the members of a host.  The list begins with the leader of the
 * whole set, and the others follow in the order of their indices. */
typedef struct level_list {
    const madi_coll_places_t *places;
    int root;
    int island, host; /* the set; -1: all */
    int radix;
} level_list_t;

static bool is_in_set(const level_list_t *l, int member)
{
    return (l->island < 0 || l->places->island[member] == l->island) && (l->host < 0 || l->places->host[member] == l->host);
}

/* True if the member is the leader of its island (of_island), or else of its host. */
static bool leads_set(const madi_coll_places_t *p, int root, int member, bool of_island)
{
    const int *set = of_island ? p->island : p->host, *first = of_island ? p->island_first : p->host_first;
    return member == (set[member] == set[root] ? root : first[set[member]]);
}

/* True if the member is in the list of this level. */
static bool is_listed(const level_list_t *l, int member)
{
    if (!is_in_set(l, member))
        return false;
    if (l->host >= 0)
        return true;
    return leads_set(l->places, l->root, member, l->island < 0);
}

/* Return the leader of the list: the root if it is in the set, else the set's first member. */
static int list_leader(const level_list_t *l)
{
    if (is_in_set(l, l->root))
        return l->root;
    return l->host >= 0 ? l->places->host_first[l->host] : l->places->island_first[l->island];
}

/* Append the children of a listed member to the tree, and set the parent if the member is not the leader. */
static void level_add(const level_list_t *l, int member, madi_coll_tree_t *tree)
{
    int leader = list_leader(l), at = 0, n = 1, position, wanted_parent, wanted[WANTED_MAX], n_wanted = 0;
    int radix = l->radix, low = 1;
    for (int i = 0; i < l->places->n; i++) {
        if (i == leader || !is_listed(l, i))
            continue;
        if (i == member)
            at = n;
        n++;
    }
    /* low: the weight of the lowest digit of `at` that is not 0, or the first weight above all members */
    while (at ? at % (low * radix) == 0 : low < n)
        low *= radix;
    for (int step = low / radix; step; step /= radix)
        for (int digit = radix - 1; digit; digit--)
            if (digit * step < n - at)
                wanted[n_wanted++] = at + digit * step;
    wanted_parent = at ? at - at % (low * radix) : -1;
    if (wanted_parent == 0)
        tree->parent = leader;
    position = 1;
    for (int i = 0; i < l->places->n; i++) {
        if (i == leader || !is_listed(l, i))
            continue;
        if (position == wanted_parent)
            tree->parent = i;
        for (int k = 0; k < n_wanted; k++)
            if (position == wanted[k])
                tree->child[tree->n_children + k] = i;
        position++;
    }
    tree->n_children += n_wanted;
}

void madi_coll_tree_make(const madi_coll_places_t *places, int root, int radix, int member, madi_coll_tree_t *tree)
{
    level_list_t all = {places, root, -1, -1, 2}, island = {places, root, places->island[member], -1, 2},
                 host = {places, root, places->island[member], places->host[member], radix};
    tree->parent = -1;
    tree->n_children = 0;
    if (leads_set(places, root, member, true))
        level_add(&all, member, tree);
    if (leads_set(places, root, member, false))
        level_add(&island, member, tree);
    level_add(&host, member, tree);
}

int madi_coll_tops(const madi_coll_places_t *places, const int **members)
{
    bool islands = places->islands > 1;
    *members = islands ? places->island_first : places->host_first;
    return islands ? places->islands : places->hosts;
}

int madi_coll_top_of(const madi_coll_places_t *places, int member)
{
    return places->islands > 1 ? places->island[member] : places->host[member];
}

void madi_coll_tree_below(const madi_coll_places_t *places, int radix, int member, madi_coll_tree_t *tree)
{
    int top = madi_coll_top_of(places, member), n = 0;
    madi_coll_tree_make(places, 0, radix, member, tree);
    if (tree->parent >= 0 && madi_coll_top_of(places, tree->parent) != top)
        tree->parent = -1;
    for (int i = 0; i < tree->n_children; i++)
        if (madi_coll_top_of(places, tree->child[i]) == top)
            tree->child[n++] = tree->child[i];
    tree->n_children = n;
}

int madi_coll_tree_list(const madi_coll_places_t *places, int root, int member, int *list)
{
    madi_coll_tree_t tree;
    int n = 1;
    list[0] = member;
    madi_coll_tree_make(places, root, 2, member, &tree);
    for (int i = 0; i < tree.n_children; i++)
        n += madi_coll_tree_list(places, root, tree.child[i], list + n);
    return n;
}
