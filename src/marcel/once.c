/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>

enum { NOT_YET, RUNNING, DONE };

/* Threads that wait for any once object.  There are few at a time; each checks again when an object is done. */
static madi_waitq_t waiting;

static atomic_uint *once_state(marcel_once_t *once)
{
    return (atomic_uint *)(void *)&once->marcel_inside;
}

static int once_wait(atomic_uint *state)
{
    madi_party_t *self = madi_party_self();
    if (!self)
        return ENOMEM;
    madi_lock(&waiting.lock);
    while (atomic_load_explicit(state, memory_order_acquire) == RUNNING) {
        madi_waitq_add(&waiting, self);
        madi_block(self, &waiting, MADI_NEVER);
        madi_lock(&waiting.lock);
    }
    madi_unlock(&waiting.lock);
    return 0;
}

static void once_end(atomic_uint *state, unsigned how)
{
    madi_lock(&waiting.lock); /* waiting threads are woken under the lock, so that none is between its check and its wait */
    atomic_store_explicit(state, how, memory_order_release);
    madi_wake_all(&waiting);
}

/* Handle the end of a thread inside `run`, by a cancel or by marcel_exit: the once counts as not run. */
static void once_abandoned(void *state)
{
    once_end(state, NOT_YET);
}

int marcel_once(marcel_once_t *once, void (*run)(void))
{
    atomic_uint *state = once_state(once);
    while (MADI_UNLIKELY(atomic_load_explicit(state, memory_order_acquire) != DONE)) { /* pairs with the release above */
        unsigned not_yet = NOT_YET;
        if (atomic_compare_exchange_strong_explicit(state, &not_yet, RUNNING, memory_order_relaxed, memory_order_relaxed)) {
            marcel_cleanup_push(once_abandoned, state);
            run();
            marcel_cleanup_pop(0);
            once_end(state, DONE);
        } else {
            int rc = once_wait(state);
            if (rc)
                return rc;
        }
    }
    return 0;
}
