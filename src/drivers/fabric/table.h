/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: the links of an adapter by the index in a tag, and packets of a link that came before their turn. */
#ifndef FABRIC_TABLE_H
#define FABRIC_TABLE_H

#include "core/driver.h"
#include "drivers/fabric/tag.h"

typedef struct fabric_table {
    void **links; /* free entries are NULL */
    int n, room;
} fabric_table_t;

/* Give a link an index, and a random key; returns the index, or -1 with the reason. */
int fabric_table_add(fabric_table_t *table, void *link, uint32_t *key, char *reason);
/* Return the link at the index of a tag, whose key the caller compares; NULL if there is none. */
static inline void *fabric_table_at(const fabric_table_t *table, uint64_t tag)
{
    int index = fabric_tag_index(tag);
    return index < table->n ? table->links[index] : NULL;
}
void fabric_table_fini(fabric_table_t *table);

/* A packet that waits for its turn; in the driver's structure of a packet. */
typedef struct fabric_early {
    struct fabric_early *next;
    uint64_t tag;
} fabric_early_t;
#define FABRIC_EARLY_MAX 512 /* packets of a link that wait while the next one is missing */

typedef enum fabric_place { FABRIC_PLACE_ADDED, FABRIC_PLACE_DROP, FABRIC_PLACE_MANY } fabric_place_t;
/* Insert a packet into the list, in the order of numbers from `expected` on.  DROP: no peer sends it.  MANY: more wait than
 * the network holds; not inserted, and only where `missing` is true: the next packet is awaited. */
fabric_place_t fabric_early_add(fabric_early_t **list, fabric_early_t *packet, uint16_t expected, bool missing);

#endif
