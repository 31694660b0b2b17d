/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: trees over the members of a group.  The functions are pure.
 *
 * The tree enters each island once, and each host once.  Between islands, between the hosts of an island, and between the
 * members of a host the tree is binomial (radix 2).  Between the members of a host it may have radix 4: half the rounds, in
 * each of which a member has up to three children.  That is good for short messages, where a round costs more than a message.
 * With root 0, 2 islands, 4 hosts and 8 members in this order:
 *
 *   0 ----------- 4          islands {0 1 2 3} {4 5 6 7}
 *   |\            |\
 *   | 2           | 6        hosts {0 1} {2 3} {4 5} {6 7}
 *   1  \          5  \
 *       3             7
 */
#ifndef MADI_COLL_TREE_H
#define MADI_COLL_TREE_H

#include <stdbool.h>

/* most children of a member: those on the three levels */
#define MADI_COLL_CHILDREN 128

/* Where the members are. */
typedef struct madi_coll_places {
    int n;
    int *host;                      /* number of each member's host, in the order of first members */
    int *island;                    /* likewise of its island */
    int hosts;                      /* number of hosts */
    int islands;                    /* number of islands */
    int *host_first, *island_first; /* first member of each host, and of each island */
    int cores;                      /* processors of the host, if there is one host; 0: not known */
    bool contiguous;                /* true if the members of each host, and of each island, have consecutive indices */
} madi_coll_places_t;

/* One member's place in a tree. */
typedef struct madi_coll_tree {
    int parent; /* -1: the root */
    int n_children;
    int child[MADI_COLL_CHILDREN]; /* first those on the level of islands, then of hosts, then of members; on a level those
                                    * with more descendants first */
} madi_coll_tree_t;

/* Compute the place of a member in the tree with this root, and this radix on each host. */
void madi_coll_tree_make(const madi_coll_places_t *places, int root, int radix, int member, madi_coll_tree_t *tree);
/* Tops: the leaders of the islands, or of the hosts if there is one island, with root 0.  Return their number; *members: the
 * tops in the order of their sets. */
int madi_coll_tops(const madi_coll_places_t *places, const int **members);
/* Return the set of a member: the index of its top. */
int madi_coll_top_of(const madi_coll_places_t *places, int member);
/* Like madi_coll_tree_make with root 0, but without the level of the tops, each of which is the root of a tree of its own. */
void madi_coll_tree_below(const madi_coll_places_t *places, int radix, int member, madi_coll_tree_t *tree);
/* Write the members of the subtree of a member in the tree of radix 2, itself first, in the order in which their blocks are
 * packed: after a member the subtrees of its children, in the order of `child`.  Return their number.  list: room for
 * places->n. */
int madi_coll_tree_list(const madi_coll_places_t *places, int root, int member, int *list);

#endif
