/* SPDX-License-Identifier: BSD-3-Clause */
/* ofi: the tags of messages.  A tag is the 64 bits that libfabric delivers with a message (remote completion data).
 *
 *    63 62   60 59          32 31         16 15          0
 *   | 0 | kind | key of the    | index of the | number of  |
 *   |   |      | link          | link         | the packet |
 *
 * The index and the key are the receiver's, and the sender knows them from the description of the other end.  The key is
 * random, so that a message to an earlier link with this index is recognised and dropped.
 *
 * These tags are not libfabric's: the provider shm of libfabric 1.17 loses messages that come before a receive which
 * ignores bits of the tag. */
#ifndef OFI_TAG_H
#define OFI_TAG_H

#include <stdbool.h>
#include <stdint.h>

typedef enum ofi_kind {
    OFI_KIND_PACKET, /* a packet, or the header of a packet, and where its body is */
    OFI_KIND_FRAME,  /* a frame of the handshake; the other fields are 0 */
    OFI_KIND_CONTROL /* between the drivers: ofi_control.c */
} ofi_kind_t;

#define OFI_KEY_MASK ((UINT32_C(1) << 28) - 1)
#define OFI_LINKS_MAX 65536 /* maximum number of links of an adapter */

/* Return the tag of a message with number 0. */
static inline uint64_t ofi_tag(ofi_kind_t kind, uint32_t key, uint16_t index)
{
    return (uint64_t)kind << 60 | (uint64_t)(key & OFI_KEY_MASK) << 32 | (uint64_t)index << 16;
}
static inline ofi_kind_t ofi_tag_kind(uint64_t tag)
{
    return (ofi_kind_t)(tag >> 60 & 7);
}
static inline uint32_t ofi_tag_key(uint64_t tag)
{
    return (uint32_t)(tag >> 32) & OFI_KEY_MASK;
}
static inline uint16_t ofi_tag_index(uint64_t tag)
{
    return (uint16_t)(tag >> 16);
}
static inline uint16_t ofi_tag_number(uint64_t tag)
{
    return (uint16_t)tag;
}

#endif
