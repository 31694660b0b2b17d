/* SPDX-License-Identifier: BSD-3-Clause */
/* eth: frames that the kernel puts into memory of this process as soon as the card's driver has them (AF_XDP).
 *
 *   card -> program (XDP) --- DATA, ACK, BYE to this adapter -----> queue `received` -> the process
 *               |                                                         ^                  |
 *               `--- all other frames -> the kernel's stack            chunks <- queue `free`
 *
 * The memory is cut into chunks of one frame each.  The process puts numbers of free chunks into one queue, and the kernel
 * puts frames into these chunks and their places into the other.  The program is attached by a descriptor, so the
 * interface loses the program when the process ends, however that happens.
 *
 * Only one program can be attached to an interface, and only one socket to queue 0 of the card.  A second process, other
 * queues of the card, and a program that an administrator detaches cost no frames: these come through the ring of
 * AF_PACKET (eth_ring.c), which exists in any case.  Frames are sent through AF_PACKET, too: AF_XDP would need a copy of
 * each in the chunks, and would bypass the interface's queueing discipline. */
#ifndef ETH_XDP_H
#define ETH_XDP_H

#include "base/own.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETH_XDP_CHUNK 4096    /* bytes: a page at most */
#define ETH_XDP_HEADROOM 256  /* bytes of a chunk that the kernel keeps free before the frame */
#define ETH_XDP_CHUNKS_MIN 64 /* a power of two */

/* One of the two queues, in memory that is shared with the kernel. */
typedef struct eth_xdp_queue {
    void *map; /* NULL: none */
    size_t len;
    _Atomic(uint32_t) *written, *read; /* numbers of entries, which wrap */
    void *entries;
    madi_shared_t shared;
} eth_xdp_queue_t;

/* The whole is zero if AF_XDP is not in use. */
typedef struct eth_xdp {
    int fd;      /* of the socket */
    int map;     /* of the program's table of sockets */
    int program; /* the program */
    int link;    /* its attachment to the interface */
    char *chunks;
    unsigned n; /* chunks, and entries of each queue: a power of two */
    eth_xdp_queue_t received, free;
    _Atomic(uint32_t) at; /* number of the entry of `received` that is handled next */
    uint32_t freed;       /* entries that were written to `free` */
    madi_shared_t shared;
} eth_xdp_t;

/* The frames that are wanted. */
typedef struct eth_xdp_want {
    int ifindex;
    uint32_t port;
    const uint8_t *mac; /* of this adapter: 6 bytes */
    size_t memory;      /* bytes for chunks */
} eth_xdp_want_t;

/* Open the socket, and attach the program.  Return false if this host or this interface does not permit it, with the
 * cause in `reason` (MADI_REASON_MAX bytes); eth_xdp_fini follows in any case.  May take some milliseconds after
 * another process has closed its socket. */
bool eth_xdp_open(eth_xdp_t *x, const eth_xdp_want_t *want, char *reason);
void eth_xdp_fini(eth_xdp_t *x);
/* True if the card's driver writes the frames to the chunks itself. */
bool eth_xdp_is_zero_copy(const eth_xdp_t *x);
/* Return the frame that has arrived, and its length; NULL if there is none, or if AF_XDP is not in use.  Any thread. */
const void *eth_xdp_frame(const eth_xdp_t *x, size_t *len);
/* True if that frame is one of eth_xdp_frame. */
static inline bool eth_xdp_has(const eth_xdp_t *x, const void *frame)
{
    return x->chunks && (uintptr_t)frame - (uintptr_t)x->chunks < (size_t)x->n * ETH_XDP_CHUNK;
}
/* Step to the next frame.  Returns the chunk of this one, for eth_xdp_release.  Precondition: eth_xdp_frame has returned a
 * frame. */
unsigned eth_xdp_step(eth_xdp_t *x);
void eth_xdp_release(eth_xdp_t *x, unsigned chunk);

#endif
