/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two ends of a stream prove to each other: layouts that protect.c makes, verify.c checks, and nobody sends. */
#ifndef MADI_PROTECT_H
#define MADI_PROTECT_H

#include "gateway/gateway.h"

#include <stddef.h>

/* What a proof covers.  Members that a kind of fragment does not have are 0. */
typedef struct gw_said {
    uint32_t kind, turn;
    uint64_t stream;
    uint32_t number; /* READY: of the fragment; ACK: of those by this way */
    uint32_t ack, ask;
    uint32_t status; /* CLOSE */
    char text[GW_TEXT]; /* CLOSE: as long as it is; READY: the key */
} gw_said_t;
#define GW_SAID offsetof(gw_said_t, text)
static_assert(GW_SAID == 32, "said has no holes");

/* What the tag of a packet covers besides: of its fragment what gateways pass on as it is. */
typedef struct gw_covered {
    uint32_t kind, length, ack, ask;
} gw_covered_t;
static_assert(sizeof(gw_covered_t) == GW_COVERED, "covered has no holes");

size_t gw_said_close(gw_said_t *said, const gw_side_t *side, const madi_wire_close_t *c, const char *text); /* its length */
gw_said_t gw_said_forward(const gw_side_t *side, const madi_wire_hdr_t *hdr, const void *body); /* READY, ACK */
size_t gw_said_len(const gw_said_t *said); /* of one of these */
gw_said_t gw_said_open(unsigned kind, const madi_wire_open_t *open);
gw_covered_t gw_covered(const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

#endif
