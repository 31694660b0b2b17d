/* SPDX-License-Identifier: BSD-3-Clause */
/* Inbox of a worker: threads that other threads made ready, and seeds.  Any thread puts items in; the worker
 * takes all items out.
 *
 * A stack of links.  The lowest bit of a link is 0 if the next link lies in a control block (field `inbox`), and
 * 1 if it lies in a record (field `link`); both are aligned. */
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
    /* seq_cst: the item is stored before the caller checks whether the worker sleeps (worker.c); the exchange also
     * releases the item */
    do
        *madi_inbox_link(item) = last;
    while (!atomic_compare_exchange_weak_explicit(&inbox->last, &last, item, memory_order_seq_cst, memory_order_relaxed));
}

static inline bool madi_inbox_empty(const madi_inbox_t *inbox)
{
    return !atomic_load_explicit(&inbox->last, memory_order_relaxed);
}

/* Take all items, linked, the oldest first; return 0 if none. */
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
