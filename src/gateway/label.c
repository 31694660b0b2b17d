/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of a hop, by label.  Labels only ascend, and a peer may skip some.  So the streams are in a hash table,
 * whose size follows the number of open streams.  The hash has a secret key, so that a peer cannot choose labels that all
 * collide. */
#include "gateway/gateway.h"

#include <stdlib.h>
#include <sys/random.h>

#define FIRST 8      /* slots of a new table; always a power of two */
#define SKIPPED 4096 /* maximum number of labels that may be skipped, for streams given up before they were opened */

static uint32_t label_place(const gw_hop_t *hop, int mine, uint32_t label)
{
    return (uint32_t)((label * hop->gw->label_key) >> 32) & (hop->cap_sides[mine] - 1);
}

void gw_labels_key(gw_t *gw)
{
    if (getrandom(&gw->label_key, sizeof gw->label_key, GRND_NONBLOCK) != sizeof gw->label_key)
        gw->label_key = UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uintptr_t)gw;
    gw->label_key |= 1;
}

static bool labels_grow(gw_hop_t *hop, int mine)
{
    uint32_t was = hop->cap_sides[mine];
    gw_side_t **old = hop->sides[mine], **p = calloc(was ? 2 * was : FIRST, sizeof *p), *side;
    if (!p)
        return false;
    hop->sides[mine] = p;
    hop->cap_sides[mine] = was ? 2 * was : FIRST;
    for (uint32_t i = 0; i < was; i++)
        while ((side = old[i])) {
            old[i] = side->next_label;
            side->next_label = p[label_place(hop, mine, side->label)];
            p[label_place(hop, mine, side->label)] = side;
        }
    free(old);
    return true;
}

bool gw_label_new(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    uint32_t label = hdr->aux;
    if (!(hdr->flags & MADI_FORWARD_OPENER) || label < hop->n_labels[0] || label - hop->n_labels[0] >= SKIPPED ||
        label == UINT32_MAX)
        return false;
    hop->n_labels[0] = label + 1;
    return true;
}

bool gw_label_put(gw_hop_t *hop, gw_side_t *side)
{
    int mine = side->opener;
    uint32_t at;
    if (hop->n_sides[mine] == hop->cap_sides[mine] && !labels_grow(hop, mine))
        return false;
    if (mine)
        hop->n_labels[1] = side->label + 1;
    at = label_place(hop, mine, side->label);
    side->next_label = hop->sides[mine][at];
    hop->sides[mine][at] = side;
    hop->n_sides[mine]++;
    return true;
}

void gw_label_drop(gw_hop_t *hop, gw_side_t *side)
{
    int mine = side->opener;
    for (gw_side_t **p = &hop->sides[mine][label_place(hop, mine, side->label)]; *p; p = &(*p)->next_label)
        if (*p == side) {
            *p = side->next_label;
            hop->n_sides[mine]--;
            return;
        }
}

gw_side_t *gw_side_find(gw_hop_t *hop, const madi_wire_hdr_t *hdr)
{
    int mine = !(hdr->flags & MADI_FORWARD_OPENER);
    gw_side_t *side = hop->cap_sides[mine] ? hop->sides[mine][label_place(hop, mine, hdr->aux)] : NULL;
    while (side && side->label != hdr->aux)
        side = side->next_label;
    return side;
}

gw_side_t *gw_sides_next(gw_hop_t *hop)
{
    for (int mine = 0; mine < 2; mine++)
        for (; hop->visited[mine] < hop->cap_sides[mine]; hop->visited[mine]++)
            for (gw_side_t *side = hop->sides[mine][hop->visited[mine]]; side; side = side->next_label)
                if (!side->visited) {
                    side->visited = true;
                    return side;
                }
    return NULL;
}

void gw_labels_free(gw_hop_t *hop)
{
    for (int mine = 0; mine < 2; mine++) {
        for (uint32_t i = 0; i < hop->cap_sides[mine]; i++)
            while (hop->sides[mine][i])
                gw_side_close(hop->sides[mine][i]);
        free(hop->sides[mine]);
    }
}
