/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: the links of an adapter by the index in a tag. */
#ifndef FABRIC_TABLE_H
#define FABRIC_TABLE_H

#include "core/driver.h"
#include "drivers/fabric/tag.h"

typedef struct fabric_table {
    void **links; /* free entries are NULL */
    int n, room;
} fabric_table_t;

/* Give a link an index, and a random key; return the index, or -1 with the reason. */
int fabric_table_add(fabric_table_t *table, void *link, uint32_t *key, char *reason);
/* Return the link at the index of a tag, whose key the caller compares; NULL if there is none. */
static inline void *fabric_table_at(const fabric_table_t *table, uint64_t tag)
{
    int index = fabric_tag_index(tag);
    return index < table->n ? table->links[index] : NULL;
}
void fabric_table_fini(fabric_table_t *table);

#endif
