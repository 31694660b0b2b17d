/* SPDX-License-Identifier: BSD-3-Clause */
/* The seeds of one worker: the owner takes the youngest seed, thieves take the oldest.
 *
 * The entries are hints.  A seed belongs to the thread that changes its state from SEED to TAKEN, by compare-and-swap,
 * wherever its entry is; marcel_join takes seeds out of the middle in this way.  An entry whose seed is taken is
 * stale; the next thread that finds a stale entry drops it.  The record of a stale entry may have become another seed:
 * then the entry is a valid hint of that seed.  So the owner needs one atomic read-modify-write per seed, the claim.
 * Thieves never move `end`, on which the owner depends.
 *
 * Owner: the calling worker.  Thief: any worker (several at a time).  `first` is where thieves begin to search, and
 * may point too far; a thief that finds nothing from there searches all entries. */
#ifndef MADI_DEQUE_H
#define MADI_DEQUE_H

#include "marcel/thread.h"

typedef struct madi_hints {
    size_t room;
    struct madi_hints *before; /* the smaller array that this one replaced, which a thief may still be reading */
    _Atomic(struct marcel_thread *) hint[];
} madi_hints_t;

typedef struct madi_deque {
    _Atomic(madi_hints_t *) hints;
    _Atomic(size_t) end; /* index after the last entry; written by the owner */
    _Atomic(size_t) first;
} madi_deque_t;

#pragma GCC visibility push(hidden)

int madi_deque_init(madi_deque_t *deque);
void madi_deque_fini(madi_deque_t *deque);

/* Make room by dropping stale entries or by growing.  Return 0 or ENOMEM. */
int madi_deque_grow(madi_deque_t *deque);

/* Take the oldest seed; return NULL if none.  Any worker may call, the owner too.  The variant `likely` searches from
 * `first` only, and so may miss a seed. */
struct marcel_thread *madi_deque_steal(madi_deque_t *deque);
struct marcel_thread *madi_deque_steal_likely(madi_deque_t *deque);

#pragma GCC visibility pop

static inline bool madi_seed_take(struct marcel_thread *thread)
{
    unsigned seed = MADI_SEED;
    /* this acquire pairs with the release in madi_deque_push, so that the creator's writes are visible */
    return atomic_load_explicit(&thread->state, memory_order_relaxed) == MADI_SEED &&
           atomic_compare_exchange_strong_explicit(&thread->state, &seed, MADI_TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Owner: ensure that the next push succeeds.  Return 0 or ENOMEM. */
static inline int madi_deque_room(madi_deque_t *deque)
{
    const madi_hints_t *hints = atomic_load_explicit(&deque->hints, memory_order_relaxed);
    return MADI_LIKELY(atomic_load_explicit(&deque->end, memory_order_relaxed) < hints->room) ? 0 : madi_deque_grow(deque);
}

/* Owner: push a seed, whose record is complete except for its state.  Return 0 or ENOMEM. */
static inline int madi_deque_push(madi_deque_t *deque, struct marcel_thread *thread)
{
    size_t end;
    madi_hints_t *hints;
    int rc = madi_deque_room(deque);
    if (MADI_UNLIKELY(rc))
        return rc;
    end = atomic_load_explicit(&deque->end, memory_order_relaxed);
    hints = atomic_load_explicit(&deque->hints, memory_order_relaxed);
    if (MADI_UNLIKELY(end < atomic_load_explicit(&deque->first, memory_order_relaxed)))
        atomic_store_explicit(&deque->first, end, memory_order_relaxed);
    atomic_store_explicit(&thread->state, MADI_SEED, memory_order_release); /* pairs with the claim */
    atomic_store_explicit(&hints->hint[end], thread, memory_order_relaxed);
    atomic_store_explicit(&deque->end, end + 1, memory_order_release); /* pairs with the thief's load */
    return 0;
}

/* Owner: take the youngest seed; NULL: none. */
static inline struct marcel_thread *madi_deque_pop(madi_deque_t *deque)
{
    size_t end = atomic_load_explicit(&deque->end, memory_order_relaxed);
    madi_hints_t *hints = atomic_load_explicit(&deque->hints, memory_order_relaxed);
    while (end > 0) {
        struct marcel_thread *thread = atomic_load_explicit(&hints->hint[--end], memory_order_relaxed);
        atomic_store_explicit(&deque->end, end, memory_order_relaxed);
        if (madi_seed_take(thread))
            return thread;
    }
    return NULL;
}

/* Owner: drop the entry of a seed that marcel_join took, if it is the youngest. */
static inline void madi_deque_forget(madi_deque_t *deque, const struct marcel_thread *thread)
{
    size_t end = atomic_load_explicit(&deque->end, memory_order_relaxed);
    madi_hints_t *hints = atomic_load_explicit(&deque->hints, memory_order_relaxed);
    if (end > 0 && atomic_load_explicit(&hints->hint[end - 1], memory_order_relaxed) == thread)
        atomic_store_explicit(&deque->end, end - 1, memory_order_relaxed);
}

static inline bool madi_deque_empty(const madi_deque_t *deque)
{
    return atomic_load_explicit(&deque->end, memory_order_relaxed) == 0;
}

#endif
