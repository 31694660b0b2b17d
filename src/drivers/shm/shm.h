/* SPDX-License-Identifier: BSD-3-Clause */
/* shm: packets through memory that two processes share.
 *
 * One memfd per pair of processes holds two halves, one per direction:
 *
 *   control   counters, each side's on lines of its own
 *   cells     a ring of cache lines.  A cell: 8-byte head, 56 bytes of packet.  The head holds the cell's number, so
 *             the receiver knows a new cell from an old one by looking at nothing else; only heads are ever looked at,
 *             and payload never lies where a head is.  A packet takes one to CELLS_MAX cells; the head of its first is
 *             written last.
 *   blocks    bodies that do not fit into cells lie in runs of blocks, used in turn.  The cell then holds the header
 *             and the run's first block.  The area is larger than a core's private cache on purpose: blocks that were
 *             pushed out to the shared cache are cheaper to write again than lines that the reader still owns.
 */
#ifndef MADI_SHM_H
#define MADI_SHM_H

#include "core/driver.h"

#define SHM_MAGIC 0x6d6873u
#define SHM_LAYOUT 1

#define SHM_CELLS 64 /* a power of two */
#define SHM_CELL_DATA 56
#define SHM_CELLS_MAX 4 /* of one packet: 224 bytes */
#define SHM_BLOCKS 768
#define SHM_BLOCK 4096
#define SHM_CHUNK (32 * 1024) /* the longest body */
#define SHM_RUN (SHM_CHUNK / SHM_BLOCK)

typedef struct shm_cell {
    /* bits 0-31: number + 1; 32-47: bytes of the packet in cells; 48-63: block + 1 or 0 */
    _Atomic(uint64_t) head;
    unsigned char data[SHM_CELL_DATA];
} shm_cell_t;
static_assert(sizeof(shm_cell_t) == MADI_LINE, "a cell is a cache line");

typedef struct shm_half {
    /* written by the receiver */
    _Alignas(MADI_LINE) _Atomic(uint32_t) consumed; /* cells; told now and then */
    _Alignas(MADI_LINE) _Atomic(uint8_t) freed[SHM_BLOCKS]; /* how often each run that began here was given
                                                                  * back, modulo 256 */
    _Alignas(MADI_LINE) _Atomic(uint32_t) sleeping; /* the receiver sleeps: wake it through its eventfd */
    _Atomic(uint32_t) fence;                        /* the receiver cannot fence for us */
    _Alignas(MADI_LINE) shm_cell_t cells[SHM_CELLS];
    _Alignas(4096) unsigned char blocks[SHM_BLOCKS][SHM_BLOCK];
} shm_half_t;

/* What is shared. */
typedef struct shm_region {
    uint32_t magic, layout;
    unsigned char nonce[16]; /* proves that both have the same memory */
    shm_half_t half[2];      /* from the active side, from the passive side */
} shm_region_t;

typedef struct shm_link {
    madi_link_t base;
    /* sending */
    shm_half_t *out;
    uint32_t sent, sent_limit; /* cells */
    uint32_t next_block;
    uint8_t used[SHM_BLOCKS];   /* how often a run that begins here was filled */
    uint8_t length[SHM_BLOCKS]; /* of the run that begins here */
    uint8_t back[SHM_BLOCKS];   /* 1 + how many blocks before this one its run begins; 0: free */
    int peer_fd; /* the peer's eventfd */
    /* receiving */
    _Alignas(MADI_LINE) shm_half_t *in;
    uint32_t received, told;
    int index; /* in adapter->links */
    /* life */
    shm_region_t *region;
    int fd; /* the socket: how the death of the peer is seen */
    int memfd;
    bool active;
    unsigned char nonce[16];
    madi_watch_t watch;
} shm_link_t;

typedef struct shm_adapter {
    madi_adapter_t base;
    char path[108];
    int event_fd;
    madi_watch_t event_watch;
    bool fence; /* membarrier is not to be had */
    /* links that are up; pure_poll reads without a lock, so the array only grows and old ones are kept */
    _Atomic(shm_link_t **) links;
    _Atomic(int) n_links;
    int cap_links;
    void **old_arrays;
    int n_old;
} shm_adapter_t;

/* shm_link.c */
mad_status_t shm_start(madi_link_t *link, int fd, bool active, char *reason);
void shm_link_close(madi_link_t *link);
void shm_link_fini(madi_link_t *link);

/* shm_ring.c */
madi_sent_t shm_send(madi_link_t *link, const struct iovec *vec, int n, size_t total, madi_op_t *op);
void shm_slot_put(madi_link_t *link, void *loan);
int shm_poll(madi_adapter_t *adapter, int budget);
bool shm_pure_poll(madi_adapter_t *adapter);
bool shm_arm(madi_adapter_t *adapter);
void shm_disarm(madi_adapter_t *adapter);

#endif
