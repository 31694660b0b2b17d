/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of threads that wait for one object, first come first served.  Every lock, condition and semaphore has one.
 *
 * The queue's own lock is held for a few dozen instructions.  A thread that holds it may take only the lock of another
 * queue, in the order of doc/threads.md (condition before mutex).  A thread that blocks keeps the lock until it has left
 * its stack (madi_block). */
#ifndef MADI_WAITQ_H
#define MADI_WAITQ_H

#include "marcel/thread.h"

typedef struct madi_waitq {
    madi_lock_t lock;
    uint32_t value;      /* state of the lock, condition or semaphore; under the queue's lock */
    madi_party_t *first; /* the first party of a ring; NULL if no thread waits */
} madi_waitq_t;

/* ---- The lock ------------------------------------------------------------------------------------------------- */

/* Lock words of a queue that may be biased (bias.h). */
#define MADI_BIAS_LOCKED 1
#define MADI_BIAS_NONE 3u

/* Slow path of madi_waitq_lock.  word: the value found there instead of 0. */
__attribute__((visibility("hidden"))) void madi_waitq_lock_slow(madi_waitq_t *queue, int word);

/* Lock a queue that may be biased, and end its bias.  Unlock it by madi_unlock. */
static inline void madi_waitq_lock(madi_waitq_t *queue)
{
    int word = atomic_exchange_explicit(&queue->lock.held, MADI_BIAS_LOCKED, memory_order_acquire);
    if (MADI_UNLIKELY(word))
        madi_waitq_lock_slow(queue, word);
}

/* The functions below are called with the queue's lock held. */

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

/* Put a party at the front of the queue, since it has waited before and was not served. */
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

/* True if neither the clock nor a cancel has ended the wait. */
static inline bool madi_waitq_waits(const madi_party_t *party)
{
    return atomic_load_explicit(&((madi_party_t *)party)->wait, memory_order_relaxed) <= MADI_WAIT_OPEN;
}

/* Decide that the caller ends the wait of this party in the queue.  If true, the caller must take the party out and wake
 * it (madi_wake).  If false, the clock or a cancel was faster, and the party leaves as soon as the lock is free. */
static inline bool madi_waitq_win(madi_party_t *party)
{
    unsigned wait = atomic_load_explicit(&party->wait, memory_order_relaxed);
    return wait == MADI_WAIT_PLAIN ||
           (wait <= MADI_WAIT_OPEN && atomic_compare_exchange_strong_explicit(&party->wait, &wait, MADI_WAIT_WOKEN,
                                                                              memory_order_relaxed, memory_order_relaxed));
}

/* Take out the first party whose wait has not ended yet; NULL if none.  The caller must wake that party. */
static inline madi_party_t *madi_waitq_take(madi_waitq_t *queue)
{
    madi_party_t *party = queue->first;
    if (!party)
        return NULL;
    __builtin_prefetch(&party->wait, 1); /* prefetch for writing, since the party is woken next */
    while (MADI_UNLIKELY(!madi_waitq_win(party))) {
        party = party->next;
        if (party == queue->first)
            return NULL;
    }
    madi_waitq_remove(queue, party);
    return party;
}

#endif
