/* SPDX-License-Identifier: BSD-3-Clause */
/* Costs of moving bytes on this host: measured by mad_info, kept in a file of the user's cache folder, read by every session.
 * The file's name has the identity of processor and kernel, so hosts that share a home directory have one each. */
#ifndef MADI_COSTS_H
#define MADI_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Costs of a link of this host; core/send/policy.h derives limits from them. */
typedef struct madi_costs {
    uint32_t copy_ps;   /* picoseconds a byte: one copy between buffers that lie in a cache */
    uint32_t turn_ns;   /* a short packet, one way */
    uint32_t direct_ns; /* one read of the peer's memory, however short; 0: cannot be done */
    uint32_t direct_ps; /* and each byte of it */
    uint32_t both_ps;   /* each byte of a block of which each side moves a half directly; 0: cannot be done */
    uint32_t pipe_ps;   /* each byte of a block that one side copies into shared memory while the other copies it out */
} madi_costs_t;

#define MADI_COSTS_PATH_MAX 512
#define MADI_COSTS_TEXT_MAX 512

/* The file's path; given: the value of MAD_COSTS, NULL or empty if it has none.  False: no folder is known, its name is too long,
 * or given is "none". */
bool madi_costs_path(const char *given, char path[MADI_COSTS_PATH_MAX]);
/* Its whole text. */
void madi_costs_text(const madi_costs_t *costs, char text[MADI_COSTS_TEXT_MAX]);
/* Read such a text.  False, and costs as it was: it is not one, of another host, or its figures are out of bounds. */
bool madi_costs_parse(const char *text, madi_costs_t *costs);
/* Read the file, if it is this user's or root's and nobody else can have written it.  False: costs as it was. */
bool madi_costs_load(const char *given, madi_costs_t *costs);

#endif
