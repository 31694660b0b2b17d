/* SPDX-License-Identifier: BSD-3-Clause */
/* Conditions: each is a queue, which a waiter enters before the mutex is released.  No thread can take the waiter out
 * before it has left its stack, since the queue's lock is kept until then. */
#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <errno.h>
#include <marcel.h>

_Static_assert(sizeof(madi_waitq_t) <= sizeof(marcel_cond_t), "a public condition holds a queue");

static madi_waitq_t *cond_queue(marcel_cond_t *cond)
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
    return madi_waitq_close(cond_queue(cond));
}

static int cond_wait_until(void *cond, void *mutex, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    madi_waitq_t *queue = cond_queue(cond);
    int rc, locked;
    if (!self)
        return ENOMEM;
    madi_cancel_point(self);
    madi_lock(&queue->lock);
    rc = marcel_mutex_unlock(mutex);
    if (rc) {
        madi_unlock(&queue->lock);
        return rc;
    }
    madi_waitq_add(queue, self);
    rc = madi_block_point(self, queue, deadline);
    locked = marcel_mutex_lock(mutex);
    if (MADI_UNLIKELY(rc == ECANCELED))
        madi_cancel_act(self); /* the thread's cleanup handlers run with the mutex locked */
    return MADI_UNLIKELY(locked) ? locked : rc;
}

int marcel_cond_wait(marcel_cond_t *cond, marcel_mutex_t *mutex)
{
    return cond_wait_until(cond, mutex, MADI_NEVER);
}

int marcel_cond_clockwait(marcel_cond_t *cond, marcel_mutex_t *mutex, int clock, const struct timespec *until)
{
    return madi_timed(cond_wait_until, cond, mutex, clock, until);
}

int marcel_cond_timedwait(marcel_cond_t *cond, marcel_mutex_t *mutex, const struct timespec *until)
{
    return marcel_cond_clockwait(cond, mutex, CLOCK_REALTIME, until);
}

int marcel_cond_signal(marcel_cond_t *cond)
{
    madi_waitq_t *queue = cond_queue(cond);
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
    madi_waitq_t *queue = cond_queue(cond);
    madi_lock(&queue->lock);
    madi_wake_all(queue);
    return 0;
}
