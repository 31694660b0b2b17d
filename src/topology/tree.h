/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal interface of the topology parser: a text as libconfig's tree, and the check of a group's settings against a
 * table. */
#ifndef MADI_TOPOLOGY_TREE_H
#define MADI_TOPOLOGY_TREE_H

#ifdef HAVE_LIBCONFIG
#include "topology/build.h"
#include <libconfig.h>

#define MADI_TREE_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* Bit masks of setting types. */
enum {
    MADI_TREE_GROUP = 1 << CONFIG_TYPE_GROUP,
    MADI_TREE_INT = 1 << CONFIG_TYPE_INT,
    MADI_TREE_BOOL = 1 << CONFIG_TYPE_BOOL,
    MADI_TREE_TEXT = 1 << CONFIG_TYPE_STRING,
    MADI_TREE_TEXTS = 1 << CONFIG_TYPE_STRING | 1 << CONFIG_TYPE_ARRAY | 1 << CONFIG_TYPE_LIST
};

typedef struct madi_tree_entry {
    const char *name;
    int types;
    const char *form; /* form of a valid value, for messages: "a text such as ..." */
    bool needed;
} madi_tree_entry_t;

typedef struct madi_tree madi_tree_t;

/* Parse a text.  Return NULL if memory is lacking, or if the text is not in libconfig's syntax, which adds an error.
 * Texts that would make libconfig exit the process (such as those that include a directory) are refused first. */
madi_tree_t *madi_tree_make(madi_topo_build_t *build, const char *text, size_t len);
const config_setting_t *madi_tree_root(const madi_tree_t *tree);
void madi_tree_free(madi_tree_t *tree); /* NULL is legal */

/* Check a group against a table.  Unknown, missing or wrongly typed settings are errors. found[i]: the setting of entry
 * i, or NULL.  Return false if there was an error. */
bool madi_tree_group(madi_topo_build_t *build, const config_setting_t *group, const madi_tree_entry_t *table, int n,
                     const config_setting_t **found);

int madi_tree_line(const madi_topo_build_t *build, const config_setting_t *setting);
const char *madi_tree_type(const config_setting_t *setting); /* "a whole number" */
#endif

#endif
