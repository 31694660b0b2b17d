/* SPDX-License-Identifier: BSD-3-Clause */
/* Cells of the ring: the common part of sender (shm_send.c) and receiver (shm_ring.c). */
#ifndef SHM_CELL_H
#define SHM_CELL_H

#include "drivers/shm/shm.h"

#define SHM_HEAD(number, unit) ((uint64_t)(uint32_t)((number) + 1) | (uint64_t)(unit) << 32)
static_assert(SHM_CELL_DATA == MADI_PACKET_SHORT, "a short packet fills one cell");
#define SHM_MASK (SHM_CELLS - 1)
#define SHM_BEGUN (UINT32_C(1) << 16) /* bit in the upper half of a cell's head: the body is incomplete */
/* Distance in cells at which a stream of short messages prefetches: ahead of the cell that is read (SHM_AHEAD) or
 * written (SHM_AHEAD_OUT).  Lines to be written are prefetched because the next locked instruction would wait for them.
 * Where messages and answers alternate, prefetches delay the lines that are needed.  So after an arrival the sender
 * prefetches only the current line, and the receiver prefetches only when it polls for several packets. */
#define SHM_AHEAD 10
#define SHM_AHEAD_OUT 2

static inline uint32_t shm_cells_of(size_t total)
{
    return (uint32_t)((total + SHM_CELL_DATA - 1) / SHM_CELL_DATA);
}

/* Note whether the last message has arrived here (came) or was sent.  Control packets do not count. */
static inline void shm_note_turn(shm_link_t *l, unsigned type, bool came)
{
    if (type == MADI_WIRE_MSG)
        atomic_store_explicit(&l->ahead, came ? 0 : SHM_AHEAD_OUT * sizeof(shm_cell_t), memory_order_relaxed);
}

static inline uint32_t shm_unit_of(const shm_half_t *half, const volatile void *body)
{
    return (uint32_t)((size_t)((const volatile madi_foreign_byte_t *)body - half->units[0]) / SHM_UNIT);
}

#endif
