/* SPDX-License-Identifier: BSD-3-Clause */
/* Statements that the two endpoints of a stream prove to each other: layouts that protect.c makes and verify.c checks.
 * These statements are never sent. */
#ifndef MADI_PROTECT_H
#define MADI_PROTECT_H

#include "gateway/gateway.h"

#include <stddef.h>

/* The bytes that a proof covers.  Fields that a kind of fragment does not have are 0. */
typedef struct gw_statement {
    uint32_t kind, turn;
    uint64_t stream;
    uint32_t number; /* READY: number of the fragment; ACK: number of ACKs on this path */
    uint32_t ack, ask;
    uint32_t status;    /* CLOSE: the status */
    char text[GW_TEXT]; /* CLOSE: the text, without padding; READY: the key */
} gw_statement_t;
#define GW_STATEMENT offsetof(gw_statement_t, text)
static_assert(GW_STATEMENT == 32, "said has no holes");

/* Additional data of a sealed packet: the fields of its fragment that gateways pass on unchanged. */
typedef struct gw_covered {
    uint32_t kind, length, ack, ask;
} gw_covered_t;
static_assert(sizeof(gw_covered_t) == GW_COVERED, "covered has no holes");

/* Fill *statement with the statement that a CLOSE proves, and return its length. */
size_t gw_statement_close(gw_statement_t *statement, const gw_side_t *side, const madi_wire_close_t *c, const char *text);
gw_statement_t gw_statement_forward(const gw_side_t *side, const madi_wire_hdr_t *hdr,
                                    const void *body);    /* Like gw_statement_close, but for READY and ACK */
size_t gw_statement_len(const gw_statement_t *statement); /* length of the statement of a READY, ACK, OPEN or TRY */
gw_statement_t gw_statement_open(unsigned kind, const madi_wire_open_t *open);
gw_covered_t gw_covered(const madi_wire_hdr_t *hdr, const madi_wire_forward_t *forward);

#endif
