/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots: the memory of a user-level thread, a power of two in size and aligned to it.
 *
 *   low                                                                  high
 *   | guard (a page) | stack, growing down <-                 | madi_ult_t |
 *
 * All slots lie in one region of addresses, reserved at the start and made usable in slabs of 16 MiB.  A table has the
 * size of the slots of each slab.  So the control block can be found from any address on a stack.  A fault handler, or a
 * debugger that has a stack pointer, finds the thread in this way.  (The scheduler itself reads its worker, which is
 * faster: see doc/threads.md.)
 *
 * Guards: see guard.h.  A slot is never returned to the system.  Each worker keeps the slots that it used last
 * (worker.h); further slots go to a common list. */
#ifndef MADI_SLOT_H
#define MADI_SLOT_H

#include "marcel/thread.h"

#include <stdatomic.h>

#define MADI_SLAB_SHIFT 24
#define MADI_SLOT_SHIFT_MIN 14 /* 16 KiB */
#define MADI_SLOT_SHIFT_MAX 30

#ifdef MADI_SANITIZER_TSAN
#define MADI_REGION_SHIFT 34 /* log2 of the region's size, for whose shadow a sanitizer needs room */
#else
#define MADI_REGION_SHIFT 40
#endif

/* Bytes between a control block and the end of its slot. */
#define MADI_SLOT_TOP ((sizeof(madi_ult_t) + MADI_LINE - 1) & ~(size_t)(MADI_LINE - 1))

#pragma GCC visibility push(hidden)

typedef struct madi_region {
    uintptr_t base;
    uintptr_t size; /* bytes; 0 before the first use, when the region is empty */
    /* indexed by slab: its slots have 1 << shift bytes; 0 if not in use */
    uint8_t shift[1 << (MADI_REGION_SHIFT - MADI_SLAB_SHIFT)];
} madi_region_t;
extern madi_region_t madi_region;

/* Return the control block whose slot contains this address; NULL if none. */
static inline madi_ult_t *madi_slot_of(uintptr_t address)
{
    uintptr_t offset = address - madi_region.base;
    if (MADI_UNLIKELY(offset >= madi_region.size))
        return NULL;
    uintptr_t size = (uintptr_t)1 << madi_region.shift[offset >> MADI_SLAB_SHIFT];
    return (madi_ult_t *)((address & ~(size - 1)) + size - MADI_SLOT_TOP);
}

/* Start of the stack (above the guard), and its length in bytes. */
void *madi_slot_low(const madi_ult_t *ult);
size_t madi_slot_room(const madi_ult_t *ult);

/* Reserve the region.  Return 0 or ENOMEM. */
int madi_slot_init(void);

/* Get a slot of at least 1 << shift bytes; NULL if there is no memory, or if shift is above MADI_SLOT_SHIFT_MAX.  In the
 * control block only shift and the flag MADI_ULT_CANARY are set.  Any thread. */
madi_ult_t *madi_slot_get(unsigned shift);
void madi_slot_put(madi_ult_t *ult);

/* Return the shift for a usable stack of this many bytes. */
unsigned madi_slot_shift(size_t stack);
/* Return the shift of the default size, from the knob (init.c). */
unsigned madi_slot_shift_usual(void);

#pragma GCC visibility pop

#endif
