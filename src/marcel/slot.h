/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots: the memory of a user-level thread, a power of two in size and aligned to it.
 *
 *   low                                                                  high
 *   | guard (a page) | stack, growing down <-                 | madi_ult_t |
 *
 * All slots lie in one region of addresses, reserved at the start and made usable in slabs of 16 MiB; a table says, by
 * slab, how big its slots are.  So the address of anything on a stack leads to the control block: that is how a fault
 * handler, or a debugger that has a stack pointer, finds the thread.  (The scheduler itself asks its worker, which is
 * quicker: see doc/threads.md.)
 *
 * Guards: see guard.h.  A slot is never given back to the system; each worker keeps the last ones it used (worker.h), and
 * what is more than that goes to a list of all. */
#ifndef MADI_SLOT_H
#define MADI_SLOT_H

#include "marcel/thread.h"

#include <stdatomic.h>

#define MADI_SLAB_SHIFT 24
#define MADI_SLOT_SHIFT_MIN 14 /* 16 KiB */
#define MADI_SLOT_SHIFT_MAX 30

#ifdef MADI_SANITIZER_TSAN
#define MADI_REGION_SHIFT 34 /* its shadow must fit */
#else
#define MADI_REGION_SHIFT 40
#endif

/* Bytes between a control block and the end of its slot. */
#define MADI_SLOT_TOP ((sizeof(madi_ult_t) + MADI_LINE - 1) & ~(size_t)(MADI_LINE - 1))

#pragma GCC visibility push(hidden)

typedef struct madi_region {
    uintptr_t base;
    uintptr_t size;                                            /* 0 before the first use: nothing is in it */
    uint8_t shift[1 << (MADI_REGION_SHIFT - MADI_SLAB_SHIFT)]; /* by slab: 1 << shift bytes a slot; 0: not in use */
} madi_region_t;
extern madi_region_t madi_region;

/* The control block whose slot holds this address; NULL: none. */
static inline madi_ult_t *madi_slot_of(uintptr_t address)
{
    uintptr_t offset = address - madi_region.base;
    if (MADI_UNLIKELY(offset >= madi_region.size))
        return NULL;
    uintptr_t size = (uintptr_t)1 << madi_region.shift[offset >> MADI_SLAB_SHIFT];
    return (madi_ult_t *)((address & ~(size - 1)) + size - MADI_SLOT_TOP);
}

/* Begin of the stack (above the guard), and its length in bytes. */
void *madi_slot_low(const madi_ult_t *ult);
size_t madi_slot_room(const madi_ult_t *ult);

/* Reserve the region.  0 or ENOMEM. */
int madi_slot_init(void);

/* A slot of at least that many bytes in all; NULL: no memory, or above MADI_SLOT_SHIFT_MAX.  Of the control block only
 * shift and the flag MADI_ULT_CANARY are set.  Any thread. */
madi_ult_t *madi_slot_get(unsigned shift);
void madi_slot_put(madi_ult_t *ult);

/* The shift for a stack of the length in bytes that the program asks for. */
unsigned madi_slot_shift(size_t stack);
/* The shift by the knob (init.c). */
unsigned madi_slot_shift_usual(void);

#pragma GCC visibility pop

#endif
