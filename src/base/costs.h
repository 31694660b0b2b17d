/* SPDX-License-Identifier: BSD-3-Clause */
/* What moving bytes costs on this host: measured by mad_info, kept in a file of the user's cache folder, read by every session.
 * The file's name has the identity of processor and kernel, so hosts that share a home directory have one each. */
#ifndef MADI_COSTS_H
#define MADI_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a link of this host takes (core/send/policy.h makes limits of it). */
typedef struct madi_costs {
    uint32_t copy_ps;   /* picoseconds a byte: one copy between buffers that lie in a cache */
    uint32_t turn_ns;   /* a short packet, one way */
    uint32_t direct_ns; /* one read of the peer's memory, however short; 0: cannot be done */
    uint32_t direct_ps; /* and each byte of it */
    uint8_t copies;     /* that a block in a packet takes beyond what a granted one does: 0 where the two sides copy at the
                         * same time */
} madi_costs_t;

#define MADI_COSTS_PATH_MAX 512
#define MADI_COSTS_TEXT_MAX 512

/* The file; false: no folder is known, or its name is too long. */
bool madi_costs_path(char path[MADI_COSTS_PATH_MAX]);
/* All that stands in it. */
void madi_costs_text(const madi_costs_t *costs, char text[MADI_COSTS_TEXT_MAX]);
/* Read such a text.  False, and costs as it was: it is not one, of another host, or its figures are out of bounds. */
bool madi_costs_parse(const char *text, madi_costs_t *costs);
/* Read the file, if it is this user's or root's and nobody else can have written it.  False: costs as it was. */
bool madi_costs_load(madi_costs_t *costs);

#endif
