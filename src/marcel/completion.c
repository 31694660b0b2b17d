/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions: a queue whose value says whether the completion is complete.  Every check takes the lock.  So a thread
 * that has found the completion complete may free it immediately: the completing thread no longer holds the lock. */
#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <marcel.h>

_Static_assert(sizeof(madi_waitq_t) <= sizeof(marcel_completion_t), "a public completion holds a queue");

static madi_waitq_t *completion_queue(marcel_completion_t *completion)
{
    return (madi_waitq_t *)(void *)completion;
}

int marcel_completion_init(marcel_completion_t *completion)
{
    memset(completion, 0, sizeof *completion);
    return 0;
}

int marcel_completion_destroy(marcel_completion_t *completion)
{
    return madi_waitq_close(completion_queue(completion));
}

static int completion_wait_until(void *completion, void *none, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    madi_waitq_t *queue = completion_queue(completion);
    int rc;
    (void)none;
    if (!self)
        return ENOMEM;
    madi_cancel_point(self);
    madi_lock(&queue->lock);
    if (queue->value) {
        madi_unlock(&queue->lock);
        return 0;
    }
    madi_waitq_add(queue, self);
    rc = madi_block_point(self, queue, deadline);
    if (rc == ECANCELED)
        madi_cancel_act(self);
    return rc;
}

int marcel_completion_wait(marcel_completion_t *completion)
{
    return completion_wait_until(completion, NULL, MADI_NEVER);
}

int marcel_completion_trywait(marcel_completion_t *completion)
{
    madi_waitq_t *queue = completion_queue(completion);
    bool done;
    madi_lock(&queue->lock);
    done = queue->value;
    madi_unlock(&queue->lock);
    return done ? 0 : EAGAIN;
}

int marcel_completion_clockwait(marcel_completion_t *completion, int clock, const struct timespec *until)
{
    return madi_timed(completion_wait_until, completion, NULL, clock, until);
}

int marcel_completion_timedwait(marcel_completion_t *completion, const struct timespec *until)
{
    return marcel_completion_clockwait(completion, CLOCK_REALTIME, until);
}

int marcel_completion_complete(marcel_completion_t *completion)
{
    madi_waitq_t *queue = completion_queue(completion);
    madi_lock(&queue->lock);
    queue->value = 1;
    madi_wake_all(queue);
    return 0;
}

int marcel_completion_reset(marcel_completion_t *completion)
{
    madi_waitq_t *queue = completion_queue(completion);
    madi_lock(&queue->lock);
    queue->value = 0;
    madi_unlock(&queue->lock);
    return 0;
}
