/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric: the tags of messages.  A tag is 64 bits that a network delivers with a message: remote completion data of libfabric,
 * the header of an active message of UCX.
 *
 *    63 62   60 59          32 31         16 15          0
 *   | 0 | kind | key of the    | index of the | number of  |
 *   |   |      | link          | link         | the packet |
 *
 * The index and the key are the receiver's, and the sender knows them from the description of the other end.  The key is
 * random, so that a message to an earlier link with this index is recognised and dropped.
 *
 * These tags are not used in libfabric's or UCX's own matching: the provider shm of libfabric 1.17 loses messages that come before
 * a receive which ignores bits of the tag. */
#ifndef FABRIC_TAG_H
#define FABRIC_TAG_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fabric_kind {
    FABRIC_KIND_PACKET, /* a packet, or the header of a packet, and where its body is */
    FABRIC_KIND_FRAME,  /* a frame of the handshake; the other fields are 0 */
    FABRIC_KIND_CONTROL /* between the drivers: end.h */
} fabric_kind_t;

#define FABRIC_KEY_MASK ((UINT32_C(1) << 28) - 1)
#define FABRIC_LINKS_MAX 65536 /* maximum number of links of an adapter */

/* Return the tag of number 0. */
static inline uint64_t fabric_tag(fabric_kind_t kind, uint32_t key, uint16_t index)
{
    return (uint64_t)kind << 60 | (uint64_t)(key & FABRIC_KEY_MASK) << 32 | (uint64_t)index << 16;
}
static inline fabric_kind_t fabric_tag_kind(uint64_t tag)
{
    return (fabric_kind_t)(tag >> 60 & 7);
}
static inline uint32_t fabric_tag_key(uint64_t tag)
{
    return (uint32_t)(tag >> 32) & FABRIC_KEY_MASK;
}
static inline uint16_t fabric_tag_index(uint64_t tag)
{
    return (uint16_t)(tag >> 16);
}
static inline uint16_t fabric_tag_number(uint64_t tag)
{
    return (uint16_t)tag;
}

#endif
