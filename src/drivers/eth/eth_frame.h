/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: frames on the wire.
 *
 *      0      6      12        14                       46
 *     | to   | from | 0x88B5  | eth_head_t             | body, `len` bytes | padding of short frames
 *
 * Numbers are little-endian, as in all packets of the library.  Strangers on the segment can write every byte of a frame:
 * eth_frame_read checks it. */
#ifndef ETH_FRAME_H
#define ETH_FRAME_H

#include "drivers/eth/eth_flow.h"
#include <assert.h>
#include <stddef.h>
#include <sys/uio.h>

#define ETH_TYPE 0x88B5 /* EtherType "local experimental 1" of IEEE 802 */
#define ETH_VERSION 1
#define ETH_MAC 6    /* bytes of a card's address */
#define ETH_OUTER 14 /* bytes before the head */
#define ETH_INDEX_MAX 65536

typedef enum eth_kind {
    ETH_HANDSHAKE = 1, /* frame of the core's handshake, in the body; key and index are 0; `number`: the sender's port */
    ETH_DATA = 2,      /* frame with a segment as its body; `number`: the segment's number */
    ETH_ACK = 3,       /* body: none, or ETH_BITS words */
    ETH_BYE = 4        /* the link is closed; `number`: the first segment that will not be sent */
} eth_kind_t;

typedef enum eth_flag {
    ETH_FIRST = 1,   /* DATA: the packet begins here */
    ETH_LAST = 2,    /* DATA: the packet ends here */
    ETH_NOW = 4,     /* acknowledge at once */
    ETH_REPEATED = 8 /* a segment came twice */
} eth_flag_t;

typedef struct eth_head {
    uint8_t version;
    uint8_t kind;  /* eth_kind_t */
    uint8_t flags; /* eth_flag_t */
    uint8_t reserved;
    uint32_t port;   /* of the receiver's adapter */
    uint64_t key;    /* key of the receiver's end of the link: a random number from that end's description */
    uint32_t number; /* of a segment */
    uint32_t ack;    /* number of the segment that the sender of this frame waits for */
    uint16_t len;    /* bytes of the body */
    uint16_t index;  /* index of the receiver's end of the link */
    uint32_t check;  /* CRC-32C of head (check 0) and body; 0: not computed */
} eth_head_t;
static_assert(sizeof(eth_head_t) == 32 && offsetof(eth_head_t, check) == 28, "head");
#define ETH_OVERHEAD (ETH_OUTER + sizeof(eth_head_t))

/* Copy the head of a frame of `len` bytes, and set *body.  Return false if no correct peer sends this frame. */
bool eth_frame_read(const void *frame, size_t len, eth_head_t *head, const void **body);
/* Return the check sum of a frame; never 0. */
uint32_t eth_frame_sum(const eth_head_t *head, const struct iovec *body, int n);
/* True if a frame's check sum is right.  demanded: true if a frame must have a check sum. */
bool eth_frame_is_intact(const eth_head_t *head, const void *body, bool demanded);
/* Copy the words of an acknowledgement. */
void eth_frame_bits(const void *body, uint64_t bits[ETH_BITS]);

#endif
