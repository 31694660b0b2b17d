/* SPDX-License-Identifier: BSD-3-Clause */
/* The seeds of one worker: the last in is the first that the owner takes out, thieves take the oldest.
 *
 * The entries are hints.  A seed belongs to the thread that changes its state from SEED to TAKEN, by compare-and-swap,
 * wherever its entry is; marcel_join takes seeds out of the middle that way.  An entry whose seed is taken is stale,
 * and is dropped when somebody comes across it.  A stale entry may point to a record that has become another seed
 * since: then it is a hint of that one, no less true.  So the owner pays one atomic read-modify-write for a seed, the
 * claim, and thieves write nothing that it depends on: they never move its end.
 *
 * Owner: the calling worker.  Thief: any worker (several at a time).  `first` is where thieves begin to look, and may
 * be behind what is true; a thief that finds nothing from there looks at everything. */
#ifndef MADI_DEQUE_H
#define MADI_DEQUE_H

#include "marcel/thread.h"

typedef struct madi_hints {
    size_t room;
    struct madi_hints *before; /* the smaller one that it replaced: a thief may be reading it */
    _Atomic(struct marcel_thread *) hint[];
} madi_hints_t;

typedef struct madi_deque {
    _Atomic(madi_hints_t *) hints;
    _Atomic(size_t) end; /* one behind the last entry; written by the owner */
    _Atomic(size_t) first;
} madi_deque_t;

#pragma GCC visibility push(hidden)

int madi_deque_init(madi_deque_t *deque);
void madi_deque_fini(madi_deque_t *deque);

/* Make room by dropping stale entries or by growing.  Return 0 or ENOMEM. */
int madi_deque_grow(madi_deque_t *deque);

/* Take the oldest seed; NULL if none.  Any worker may call, the owner too.  likely: begin at `first`, and
 * so maybe miss one. */
struct marcel_thread *madi_deque_steal(madi_deque_t *deque);
struct marcel_thread *madi_deque_steal_likely(madi_deque_t *deque);

#pragma GCC visibility pop

static inline bool madi_seed_take(struct marcel_thread *thread)
{
    unsigned seed = MADI_SEED;
    /* acquire: pairs with the release in madi_deque_push; what the creator wrote is there */
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

/* Owner: push a seed, whose record is complete but for its state.  Return 0 or ENOMEM. */
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

/* Owner: drop the entry of a seed that was taken by its name, if it is the youngest. */
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
