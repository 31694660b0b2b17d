/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/deque.h"

#include <errno.h>
#include <stdlib.h>

#define ROOM_FIRST 256

static madi_hints_t *hints_new(size_t room, madi_hints_t *before)
{
    madi_hints_t *hints = malloc(sizeof *hints + room * sizeof hints->hint[0]);
    if (!hints)
        return NULL;
    hints->room = room;
    hints->before = before;
    for (size_t i = 0; i < room; i++)
        atomic_init(&hints->hint[i], NULL);
    return hints;
}

int madi_deque_init(madi_deque_t *deque)
{
    madi_hints_t *hints = hints_new(ROOM_FIRST, NULL);
    if (!hints)
        return ENOMEM;
    atomic_init(&deque->hints, hints);
    atomic_init(&deque->end, 0);
    atomic_init(&deque->first, 0);
    return 0;
}

void madi_deque_fini(madi_deque_t *deque)
{
    madi_hints_t *hints = atomic_load_explicit(&deque->hints, memory_order_relaxed);
    while (hints) {
        madi_hints_t *before = hints->before;
        free(hints);
        hints = before;
    }
    atomic_store_explicit(&deque->hints, NULL, memory_order_relaxed);
}

/* Drop stale entries; return the number left.  Thieves may meanwhile miss an entry or see it twice, which does no harm,
 * because entries are hints. */
static size_t hints_compact(madi_hints_t *hints, size_t end)
{
    size_t kept = 0;
    for (size_t i = 0; i < end; i++) {
        struct marcel_thread *thread = atomic_load_explicit(&hints->hint[i], memory_order_relaxed);
        if (atomic_load_explicit(&thread->state, memory_order_relaxed) == MADI_SEED)
            atomic_store_explicit(&hints->hint[kept++], thread, memory_order_relaxed);
    }
    return kept;
}

int madi_deque_grow(madi_deque_t *deque)
{
    madi_hints_t *old = atomic_load_explicit(&deque->hints, memory_order_relaxed), *big;
    size_t end = atomic_load_explicit(&deque->end, memory_order_relaxed), kept = hints_compact(old, end);
    atomic_store_explicit(&deque->end, kept, memory_order_release);
    atomic_store_explicit(&deque->first, 0, memory_order_relaxed);
    if (kept <= old->room / 2)
        return 0;
    big = hints_new(2 * old->room, old);
    if (!big)
        return kept < old->room ? 0 : ENOMEM;
    for (size_t i = 0; i < kept; i++)
        atomic_init(&big->hint[i], atomic_load_explicit(&old->hint[i], memory_order_relaxed));
    atomic_store_explicit(&deque->hints, big, memory_order_release); /* pairs with the thief's load */
    return 0;
}

/* Take the first seed from index `from` on.  *next: the index behind it, or behind the last entry seen. */
static struct marcel_thread *deque_scan(madi_deque_t *deque, size_t from, size_t *next)
{
    size_t end = atomic_load_explicit(&deque->end, memory_order_acquire);
    madi_hints_t *hints = atomic_load_explicit(&deque->hints, memory_order_acquire);
    if (end > hints->room)
        end = hints->room; /* the array was read before a larger one replaced it */
    for (*next = from; *next < end; (*next)++) {
        struct marcel_thread *thread = atomic_load_explicit(&hints->hint[*next], memory_order_relaxed);
        if (thread && madi_seed_take(thread)) {
            (*next)++;
            return thread;
        }
    }
    return NULL;
}

/* Advance `first`, unless the owner has reset it meanwhile. */
static void deque_move_first(madi_deque_t *deque, size_t from, size_t to)
{
    if (to != from)
        atomic_compare_exchange_strong_explicit(&deque->first, &from, to, memory_order_relaxed, memory_order_relaxed);
}

struct marcel_thread *madi_deque_steal_likely(madi_deque_t *deque)
{
    size_t first, next;
    struct marcel_thread *thread;
    if (madi_deque_empty(deque))
        return NULL;
    first = atomic_load_explicit(&deque->first, memory_order_relaxed);
    thread = deque_scan(deque, first, &next);
    deque_move_first(deque, first, next);
    return thread;
}

struct marcel_thread *madi_deque_steal(madi_deque_t *deque)
{
    struct marcel_thread *thread = madi_deque_steal_likely(deque);
    size_t next;
    return thread || madi_deque_empty(deque) ? thread : deque_scan(deque, 0, &next);
}
