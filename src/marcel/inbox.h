/* SPDX-License-Identifier: BSD-3-Clause */
/* Inbox of a worker: threads that others made ready, and seeds.  Any thread puts in, the worker takes all out.
 *
 * A stack of links; the lowest bit of a link says what holds it: 0 a control block (its `inbox`), 1 a record (its
 * `link`), both aligned. */
#ifndef MADI_INBOX_H
#define MADI_INBOX_H

#include "marcel/thread.h"

typedef struct madi_inbox {
    _Atomic(uintptr_t) last;
} madi_inbox_t;

static inline uintptr_t *madi_inbox_link(uintptr_t item)
{
    return item & 1 ? &((struct marcel_thread *)(item - 1))->link : &((madi_ult_t *)item)->inbox;
}

static inline void madi_inbox_put(madi_inbox_t *inbox, uintptr_t item)
{
    uintptr_t last = atomic_load_explicit(&inbox->last, memory_order_relaxed);
    /* seq_cst: before the look at whether the worker sleeps (worker.c), and releases the item */
    do
        *madi_inbox_link(item) = last;
    while (!atomic_compare_exchange_weak_explicit(&inbox->last, &last, item, memory_order_seq_cst, memory_order_relaxed));
}

static inline bool madi_inbox_empty(const madi_inbox_t *inbox)
{
    return !atomic_load_explicit(&inbox->last, memory_order_relaxed);
}

/* All, the oldest first, linked; 0: none. */
static inline uintptr_t madi_inbox_take(madi_inbox_t *inbox)
{
    uintptr_t item = atomic_exchange_explicit(&inbox->last, 0, memory_order_acquire), all = 0;
    while (item) {
        uintptr_t *link = madi_inbox_link(item), next = *link;
        *link = all;
        all = item;
        item = next;
    }
    return all;
}

#endif
