/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of the channel madeleine.memory (doc/wire.md), and keys.  Little-endian, fixed widths.
 *
 * A message is one block of mode EXPRESS, the envelope, and the bytes of a put or of the answer to a get, if there are any:
 * one block, EXPRESS up to MADI_MEMORY_SHORT bytes, and CHEAPER beyond.  A peer writes all of this: check it before use. */
#ifndef MADI_MEMORY_ENVELOPE_H
#define MADI_MEMORY_ENVELOPE_H

#include <assert.h>
#include <stdint.h>

#define MADI_MEMORY_CHANNEL "madeleine.memory"
#define MADI_MEMORY_SHORT 128 /* bytes that travel in the packet of the envelope */
#define MADI_MEMORY_SECRET 16 /* random bytes of a key */

enum madi_memory_kind {
    MADI_MEMORY_ANSWER = 1,       /* the answer to an operation; operand[0]: the value of the 8 bytes before their
                                   * change; len: number of bytes that follow */
    MADI_MEMORY_PUT = 2,          /* the bytes follow */
    MADI_MEMORY_PUT_NOTIFY = 3,   /* like MADI_MEMORY_PUT, and the owner counts a notification */
    MADI_MEMORY_GET = 4,          /* no bytes follow */
    MADI_MEMORY_FETCH_ADD = 5,    /* operand[0]: the number to add */
    MADI_MEMORY_COMPARE_SWAP = 6, /* operand[0]: expected; operand[1]: desired */
    MADI_MEMORY_KINDS             /* number of kinds, plus 1 */
};

typedef struct madi_memory_envelope {
    uint8_t kind;
    uint8_t pad;
    uint16_t status; /* of an answer: mad_status_t */
    uint32_t number; /* number of the operation in the process that began it; the answer has the same number */
    uint32_t block;  /* number of the block in the owner's process */
    uint32_t pad2;
    uint64_t offset; /* in the block, in bytes */
    uint64_t len;    /* bytes */
    uint64_t operand[2];
    uint8_t secret[MADI_MEMORY_SECRET];
} madi_memory_envelope_t;
static_assert(sizeof(madi_memory_envelope_t) == 64, "envelope");

/* The bytes of mad_memory_key_t. */
typedef struct madi_memory_key {
    uint8_t version; /* MADI_MEMORY_KEY_VERSION */
    uint8_t rights;  /* the block's rights, for information only, since the owner checks its own record */
    uint16_t pad;
    uint32_t block;
    uint64_t len;    /* bytes; likewise for information */
    uint8_t uid[16]; /* the owner's identity */
    uint8_t secret[MADI_MEMORY_SECRET];
    uint32_t process;   /* process id of the owner, if the block is in a file of memory; otherwise 0 */
    uint32_t file;      /* number of the owner's descriptor of the file of memory */
    uint8_t reserve[8]; /* zeros */
} madi_memory_key_t;
static_assert(sizeof(madi_memory_key_t) == 64, "key");
#define MADI_MEMORY_KEY_VERSION 1

#endif
