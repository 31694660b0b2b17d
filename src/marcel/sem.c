/* SPDX-License-Identifier: BSD-3-Clause */
/* Semaphores: a queue whose value is the count.  One atomic read-modify-write for each call, that of the lock. */
#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <errno.h>
#include <marcel.h>

_Static_assert(sizeof(madi_waitq_t) <= sizeof(marcel_sem_t), "a public semaphore holds a queue");

static inline madi_waitq_t *queue_of(marcel_sem_t *sem)
{
    return (madi_waitq_t *)(void *)sem;
}

int marcel_sem_init(marcel_sem_t *sem, int shared, unsigned value)
{
    if (shared || value > MARCEL_SEM_VALUE_MAX)
        return EINVAL;
    memset(sem, 0, sizeof *sem);
    queue_of(sem)->value = value;
    return 0;
}

int marcel_sem_destroy(marcel_sem_t *sem)
{
    return madi_waitq_close(queue_of(sem));
}

/* Read without the lock by spin. */
static inline void value_set(madi_waitq_t *queue, uint32_t value)
{
    __atomic_store_n(&queue->value, value, __ATOMIC_RELAXED);
}

/* Nobody else is ready on this worker: a look from outside now and then, so that who posts has the lock to itself. */
static MADI_COLD void spin(madi_worker_t *worker, const madi_waitq_t *queue)
{
    if (!madi_may_spin(worker))
        return;
    worker->tick--;
    for (int i = 0; i < MADI_SPINS && !__atomic_load_n(&queue->value, __ATOMIC_RELAXED) && madi_inbox_empty(&worker->inbox);
         i++)
        madi_relax();
}

/* Take one, or leave the lock to the caller.  True: taken, unlocked. */
static inline bool take(madi_waitq_t *queue)
{
    madi_lock(&queue->lock);
    if (!queue->value)
        return false;
    value_set(queue, queue->value - 1);
    madi_unlock(&queue->lock);
    return true;
}

static MADI_COLD int wait_until(void *sem, void *none, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    madi_waitq_t *queue = queue_of(sem);
    int rc;
    (void)none;
    if (!self)
        return ENOMEM;
    madi_cancel_point(self);
    if (take(queue))
        return 0;
    if (deadline <= 0) {
        madi_unlock(&queue->lock);
        return ETIMEDOUT;
    }
    madi_waitq_add(queue, self);
    rc = madi_block_point(self, queue, deadline);
    if (rc == ECANCELED)
        madi_cancel_act(self);
    return rc;
}

int marcel_sem_wait(marcel_sem_t *sem)
{
    madi_ult_t *self = madi_ult_self();
    madi_waitq_t *queue = queue_of(sem);
    if (MADI_UNLIKELY(!self))
        return wait_until(sem, NULL, MADI_NEVER);
    madi_cancel_point(&self->party);
    if (!__atomic_load_n(&queue->value, __ATOMIC_RELAXED) && !madi_queue_first(self->worker))
        spin(self->worker, queue);
    if (take(queue))
        return 0;
    madi_waitq_add(queue, &self->party);
    if (MADI_UNLIKELY(madi_block_point(&self->party, queue, MADI_NEVER)))
        madi_cancel_act(&self->party);
    return 0;
}

int marcel_sem_trywait(marcel_sem_t *sem)
{
    madi_waitq_t *queue = queue_of(sem);
    if (take(queue))
        return 0;
    madi_unlock(&queue->lock);
    return EAGAIN;
}

int marcel_sem_clockwait(marcel_sem_t *sem, int clock, const struct timespec *until)
{
    return madi_timed(wait_until, sem, NULL, clock, until);
}

int marcel_sem_timedwait(marcel_sem_t *sem, const struct timespec *until)
{
    return marcel_sem_clockwait(sem, CLOCK_REALTIME, until);
}

int marcel_sem_post(marcel_sem_t *sem)
{
    madi_waitq_t *queue = queue_of(sem);
    madi_party_t *party;
    int rc = 0;
    madi_lock(&queue->lock);
    party = madi_waitq_take(queue);
    if (!party) {
        if (MADI_LIKELY(queue->value < MARCEL_SEM_VALUE_MAX))
            value_set(queue, queue->value + 1);
        else
            rc = EOVERFLOW;
    }
    madi_unlock(&queue->lock);
    if (party)
        madi_wake(party);
    return rc;
}

int marcel_sem_getvalue(marcel_sem_t *sem, int *value)
{
    madi_waitq_t *queue = queue_of(sem);
    madi_lock(&queue->lock);
    *value = (int)queue->value;
    madi_unlock(&queue->lock);
    return 0;
}
