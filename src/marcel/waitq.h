/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of those who wait for one thing, first come first served: the inside of every lock, and its lock.
 *
 * The lock is held for a few dozen instructions, and is the innermost but one: under it only the lock of another waitq in
 * the order of doc/threads.md (condition before mutex).  A thread that blocks keeps it until it is off its stack
 * (madi_block). */
#ifndef MADI_WAITQ_H
#define MADI_WAITQ_H

#include "marcel/thread.h"

typedef struct madi_waitq {
    madi_lock_t lock;
    uint32_t value;      /* what the owner of the queue wants kept under the lock */
    madi_party_t *first; /* a ring; NULL: nobody waits */
} madi_waitq_t;

/* All with the lock held. */

static inline void madi_waitq_add(madi_waitq_t *queue, madi_party_t *party)
{
    madi_party_t *first = queue->first;
    if (!first) {
        party->next = party->prev = party;
        queue->first = party;
    } else {
        party->next = first;
        party->prev = first->prev;
        first->prev->next = party;
        first->prev = party;
    }
}

/* Before all others: it was passed over. */
static inline void madi_waitq_add_first(madi_waitq_t *queue, madi_party_t *party)
{
    madi_waitq_add(queue, party);
    queue->first = party;
}

static inline void madi_waitq_remove(madi_waitq_t *queue, madi_party_t *party)
{
    if (party->next == party) {
        queue->first = NULL;
        return;
    }
    party->next->prev = party->prev;
    party->prev->next = party->next;
    if (queue->first == party)
        queue->first = party->next;
}

/* Take out the first whose wait has not expired; NULL: none.  Whoever takes it out must wake it (madi_wake). */
static inline madi_party_t *madi_waitq_take(madi_waitq_t *queue)
{
    madi_party_t *party = queue->first, *next;
    if (!party)
        return NULL;
    __builtin_prefetch(&party->wait, 1); /* from another core at once as one's own: it is woken next */
    while (MADI_UNLIKELY(atomic_load_explicit(&party->wait, memory_order_relaxed) != MADI_WAIT_PLAIN)) {
        unsigned timed = MADI_WAIT_TIMED;
        if (atomic_compare_exchange_strong_explicit(&party->wait, &timed, MADI_WAIT_WOKEN, memory_order_relaxed,
                                                    memory_order_relaxed))
            break;
        next = party->next; /* expired: it goes by itself as soon as it gets the lock */
        if (next == queue->first)
            return NULL;
        party = next;
    }
    madi_waitq_remove(queue, party);
    return party;
}

#endif
