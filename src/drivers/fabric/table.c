/* SPDX-License-Identifier: BSD-3-Clause */
#include "drivers/fabric/table.h"

#include "base/random.h"
#include <stdio.h>
#include <stdlib.h>

int fabric_table_add(fabric_table_t *t, void *link, uint32_t *key, char *reason)
{
    int i = 0;
    while (i < t->n && t->links[i])
        i++;
    if (i == t->room && i < FABRIC_LINKS_MAX) {
        int room = t->room ? t->room * 2 : 16;
        void **p = realloc(t->links, (size_t)room * sizeof *p);
        if (p) {
            t->links = p;
            t->room = room;
        }
    }
    if (i == t->room || !madi_random(key, sizeof *key)) {
        snprintf(reason, MADI_REASON_MAX, "no memory for a link, or it would be number %d of %d", i, FABRIC_LINKS_MAX);
        return -1;
    }
    *key &= FABRIC_KEY_MASK;
    t->links[i] = link;
    t->n = i < t->n ? t->n : i + 1;
    return i;
}

void fabric_table_fini(fabric_table_t *t)
{
    free(t->links);
    *t = (fabric_table_t){0};
}
