/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/slot.h"
#include "base/static_mutex.h"
#include "marcel/guard.h"

#include <errno.h>
#include <sys/mman.h>
#ifdef HAVE_VALGRIND_VALGRIND_H
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(low, high) ((void)(low), (void)(high))
#endif

madi_region_t madi_region;

/* Free slots by size, and for each size the slab from which new slots are cut. */
static struct {
    madi_ult_t *free;
    uintptr_t cut, end;
} classes[MADI_SLOT_SHIFT_MAX + 1];
static uintptr_t next_slab;
static madi_static_mutex_t lock = MADI_STATIC_MUTEX;

#define SLAB ((uintptr_t)1 << MADI_SLAB_SHIFT)

static int region_reserve(void)
{
    /* If address space is limited, try half the size. */
    for (unsigned shift = MADI_REGION_SHIFT; shift >= MADI_SLAB_SHIFT + 4; shift--) {
        uintptr_t align = (uintptr_t)1 << (shift < MADI_SLOT_SHIFT_MAX ? shift : MADI_SLOT_SHIFT_MAX);
        uintptr_t size = (uintptr_t)1 << shift;
        void *at = mmap(NULL, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        madi_region.base = ((uintptr_t)at + align - 1) & ~(align - 1);
        madi_region.size = size;
        madvise(at, size + align, MADV_DONTDUMP); /* a core file would otherwise contain the whole region */
        next_slab = madi_region.base;
        return 0;
    }
    return ENOMEM;
}

int madi_slot_init(void)
{
    int rc = 0;
    madi_static_mutex_lock(&lock);
    if (!madi_region.size)
        rc = region_reserve();
    madi_static_mutex_unlock(&lock);
    return rc;
}

unsigned madi_slot_shift(size_t stack)
{
    size_t all = stack + madi_guard_size() + MADI_SLOT_TOP;
    unsigned shift = MADI_SLOT_SHIFT_MIN;
    while (shift <= MADI_SLOT_SHIFT_MAX && ((size_t)1 << shift) < all)
        shift++;
    return shift;
}

void *madi_slot_low(const madi_ult_t *ult)
{
    return (char *)((uintptr_t)ult & ~(((uintptr_t)1 << ult->shift) - 1)) + madi_guard_size();
}

size_t madi_slot_room(const madi_ult_t *ult)
{
    return (size_t)((const char *)ult - (const char *)madi_slot_low(ult));
}

/* Open a slab, or as many as one slot needs, for slots of this size. */
static bool slab_open(unsigned shift)
{
    uintptr_t size = shift > MADI_SLAB_SHIFT ? (uintptr_t)1 << shift : SLAB;
    uintptr_t at = (next_slab + size - 1) & ~(size - 1);
    if (at + size > madi_region.base + madi_region.size)
        return false;
    if (mprotect((void *)at, size, PROT_READ | PROT_WRITE))
        return false;
    madvise((void *)at, size, MADV_DODUMP);
    madvise((void *)at, size, MADV_NOHUGEPAGE); /* most stacks use only one page */
    for (uintptr_t i = 0; i < size >> MADI_SLAB_SHIFT; i++)
        madi_region.shift[((at - madi_region.base) >> MADI_SLAB_SHIFT) + i] = (uint8_t)shift;
    next_slab = at + size;
    classes[shift].cut = at;
    classes[shift].end = at + size;
    return true;
}

static madi_ult_t *slot_cut(unsigned shift)
{
    uintptr_t low = classes[shift].cut, size = (uintptr_t)1 << shift;
    if (low == classes[shift].end) {
        if (!slab_open(shift))
            return NULL;
        low = classes[shift].cut;
    }
    classes[shift].cut = low + size;
    madi_ult_t *ult = (madi_ult_t *)(low + size - MADI_SLOT_TOP);
    ult->shift = (uint8_t)shift;
    ult->flags = madi_guard_set((void *)low) ? 0 : MADI_ULT_CANARY;
    VALGRIND_STACK_REGISTER(low, (uintptr_t)ult);
    return ult;
}

madi_ult_t *madi_slot_get(unsigned shift)
{
    madi_ult_t *ult = NULL;
    if (shift > MADI_SLOT_SHIFT_MAX)
        return NULL;
    madi_static_mutex_lock(&lock);
    ult = classes[shift].free;
    if (ult)
        classes[shift].free = ult->pooled;
    else if (madi_region.size)
        ult = slot_cut(shift);
    madi_static_mutex_unlock(&lock);
    return ult;
}

void madi_slot_put(madi_ult_t *ult)
{
    madi_static_mutex_lock(&lock);
    ult->pooled = classes[ult->shift].free;
    classes[ult->shift].free = ult;
    madi_static_mutex_unlock(&lock);
}
