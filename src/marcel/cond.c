/* SPDX-License-Identifier: BSD-3-Clause */
/* Conditions: a queue.  Who waits is in it before the mutex is released, and cannot be taken out before it is off its
 * stack, since the queue's lock is kept until then. */
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>

_Static_assert(sizeof(madi_waitq_t) <= sizeof(marcel_cond_t), "a public condition holds a queue");

static madi_waitq_t *queue_of(marcel_cond_t *cond)
{
    return (madi_waitq_t *)(void *)cond;
}

int marcel_cond_init(marcel_cond_t *cond, const void *attr)
{
    if (attr)
        return EINVAL;
    memset(cond, 0, sizeof *cond);
    return 0;
}

int marcel_cond_destroy(marcel_cond_t *cond)
{
    madi_waitq_t *queue = queue_of(cond);
    int rc;
    madi_lock(&queue->lock); /* who signalled last has left it */
    rc = queue->first ? EBUSY : 0;
    madi_unlock(&queue->lock);
    return rc;
}

int marcel_cond_wait(marcel_cond_t *cond, marcel_mutex_t *mutex)
{
    madi_party_t *self = madi_party_self();
    madi_waitq_t *queue = queue_of(cond);
    int rc;
    if (!self)
        return ENOMEM;
    madi_lock(&queue->lock);
    rc = marcel_mutex_unlock(mutex);
    if (rc) {
        madi_unlock(&queue->lock);
        return rc;
    }
    madi_waitq_add(queue, self);
    madi_block(self, queue, MADI_NEVER);
    return marcel_mutex_lock(mutex);
}

int marcel_cond_signal(marcel_cond_t *cond)
{
    madi_waitq_t *queue = queue_of(cond);
    madi_party_t *party;
    madi_lock(&queue->lock);
    party = madi_waitq_take(queue);
    madi_unlock(&queue->lock);
    if (party)
        madi_wake(party);
    return 0;
}

int marcel_cond_broadcast(marcel_cond_t *cond)
{
    madi_waitq_t *queue = queue_of(cond);
    madi_party_t *all = NULL, **end = &all, *party;
    madi_lock(&queue->lock);
    while ((party = madi_waitq_take(queue))) {
        *end = party; /* its links are free: it is in no queue until it is woken */
        end = &party->next;
    }
    *end = NULL;
    madi_unlock(&queue->lock);
    while ((party = all)) {
        all = party->next;
        madi_wake(party);
    }
    return 0;
}
