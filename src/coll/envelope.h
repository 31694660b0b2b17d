/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of the channel madeleine.coll (doc/wire.md).  Little-endian, fixed widths.
 *
 *   one block of mode EXPRESS:   | envelope | bytes |
 *   two blocks, for long bytes:  | envelope |          EXPRESS, with MADI_COLL_FOLLOWS
 *                                           | bytes |  CHEAPER
 *
 * A peer writes all of this: check it before use. */
#ifndef MADI_COLL_ENVELOPE_H
#define MADI_COLL_ENVELOPE_H

#include <assert.h>
#include <stdint.h>

#define MADI_COLL_CHANNEL "madeleine.coll"
#define MADI_COLL_FOLLOWS 0x80 /* flag in `form`: the bytes are the second block */
#define MADI_COLL_FORM 0x7f    /* mask of the form in `form` */

typedef struct madi_coll_envelope {
    uint64_t group;  /* number of the group */
    uint32_t seq;    /* number of the operation in the group, from 0 */
    uint16_t tag;    /* number of the message among those of the operation between two members */
    uint8_t kind;    /* madi_coll_kind_t; MADI_COLL_ABORT: the sender's operation has failed */
    uint8_t form;    /* madi_coll_form_t, and MADI_COLL_FOLLOWS */
    uint32_t check;  /* madi_coll_check of the operation; of MADI_COLL_ABORT: mad_status_t */
    uint32_t unused; /* 0 */
} madi_coll_envelope_t;
static_assert(sizeof(madi_coll_envelope_t) == 24, "envelope");

#endif
