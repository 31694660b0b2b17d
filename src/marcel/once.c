/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>

enum { NOT_YET, RUNNING, DONE };

/* Those who wait for any once: few at a time; each looks again when one is done. */
static madi_waitq_t waiting;

static atomic_uint *state_of(marcel_once_t *once)
{
    return (atomic_uint *)(void *)&once->marcel_inside;
}

static int wait_done(atomic_uint *state)
{
    madi_party_t *self = madi_party_self();
    if (!self)
        return ENOMEM;
    madi_lock(&waiting.lock);
    while (atomic_load_explicit(state, memory_order_acquire) != DONE) {
        madi_waitq_add(&waiting, self);
        madi_block(self, &waiting, MADI_NEVER);
        madi_lock(&waiting.lock);
    }
    madi_unlock(&waiting.lock);
    return 0;
}

static void wake_all(void)
{
    madi_party_t *all = NULL, *party;
    madi_lock(&waiting.lock);
    while ((party = madi_waitq_take(&waiting))) {
        party->next = all;
        all = party;
    }
    madi_unlock(&waiting.lock);
    while ((party = all)) {
        all = party->next;
        madi_wake(party);
    }
}

int marcel_once(marcel_once_t *once, void (*run)(void))
{
    atomic_uint *state = state_of(once);
    unsigned not_yet = NOT_YET;
    if (MADI_LIKELY(atomic_load_explicit(state, memory_order_acquire) == DONE)) /* pairs with the release below */
        return 0;
    if (!atomic_compare_exchange_strong_explicit(state, &not_yet, RUNNING, memory_order_relaxed, memory_order_relaxed))
        return wait_done(state);
    run();
    madi_lock(&waiting.lock); /* so that nobody is between its look and its wait */
    atomic_store_explicit(state, DONE, memory_order_release);
    madi_unlock(&waiting.lock);
    wake_all();
    return 0;
}
