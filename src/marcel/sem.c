/* SPDX-License-Identifier: BSD-3-Clause */
/* Semaphores: a queue whose value is the count.  Each call costs one atomic read-modify-write, that of the lock, or none
 * while only one worker uses the semaphore (bias.h). */
#include "marcel/bias.h"
#include "marcel/cancel.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <errno.h>
#include <marcel.h>

/* Number of consecutive uses of a semaphore by one worker before it is biased to that worker.  Each time the number
 * grows by a factor of 32, so that the cost of revoking a bias (a membarrier: microseconds) is spread over many
 * uses. */
#define BIAS_AFTER 1024u
#define BIAS_SLOWER 32u

typedef struct semaphore {
    madi_waitq_t queue;
    /* The thread that used the semaphore last: the `bias` of its worker, or 0 for a plain pthread.  The lock protects
     * this field and the next two. */
    uint32_t last;
    uint32_t left;  /* number of further uses by that worker until it gets the bias */
    uint32_t after; /* first value of `left` for a new worker */
} semaphore_t;

_Static_assert(sizeof(semaphore_t) <= sizeof(marcel_sem_t), "a public semaphore holds one");

static inline semaphore_t *sem_of(marcel_sem_t *sem)
{
    return (semaphore_t *)(void *)sem;
}

int marcel_sem_init(marcel_sem_t *sem, int shared, unsigned value)
{
    if (shared || value > MARCEL_SEM_VALUE_MAX)
        return EINVAL;
    memset(sem, 0, sizeof *sem);
    sem_of(sem)->queue.value = value;
    sem_of(sem)->after = sem_of(sem)->left = BIAS_AFTER;
    return 0;
}

int marcel_sem_destroy(marcel_sem_t *sem)
{
    return madi_waitq_close(&sem_of(sem)->queue);
}

/* ---- The lock ------------------------------------------------------------------------------------------------- */

/* Enter the section or take the lock.  worker: the caller's; NULL for a plain pthread.  Return true if biased. */
static inline bool sem_enter(semaphore_t *s, madi_worker_t *worker)
{
    uint32_t user = 0;
    if (MADI_LIKELY(worker != NULL)) {
        if (madi_bias_enter(worker, &s->queue))
            return true;
        user = worker->bias;
    }
    madi_waitq_lock(&s->queue);
    if (s->last != user) {
        s->last = user;
        s->left = s->after;
    } else if (s->left) {
        s->left--;
    }
    return false;
}

static inline void sem_leave(semaphore_t *s, madi_worker_t *worker, bool biased)
{
    if (MADI_LIKELY(biased))
        madi_bias_leave(worker);
    else
        madi_unlock(&s->queue.lock);
}

/* Like sem_leave, but after a post: bias the semaphore if only the caller's worker has used it for long. */
static MADI_COLD void sem_leave_biased(semaphore_t *s, madi_worker_t *worker)
{
    uint32_t word = worker && !s->queue.first && worker->bias != MADI_BIAS_NONE ? worker->bias : 0;
    if (word)
        s->after = s->left = s->after > UINT32_MAX / BIAS_SLOWER ? UINT32_MAX : s->after * BIAS_SLOWER;
    atomic_store_explicit(&s->queue.lock.held, (int)word, memory_order_release); /* pairs with the next exchange */
}

/* ---- Wait and post -------------------------------------------------------------------------------------------- */

/* Set the value atomically, because sem_spin reads it without the lock. */
static inline void sem_value_set(madi_waitq_t *queue, uint32_t value)
{
    __atomic_store_n(&queue->value, value, __ATOMIC_RELAXED);
}

/* Spin on the value without the lock, which is left to a posting thread.  Called only if no other thread is ready on
 * this worker. */
static MADI_COLD void sem_spin(madi_worker_t *worker, const madi_waitq_t *queue)
{
    if (!madi_may_spin(worker))
        return;
    worker->tick--;
    for (int i = 0; i < MADI_SPINS && !__atomic_load_n(&queue->value, __ATOMIC_RELAXED) && madi_inbox_empty(&worker->inbox);
         i++)
        madi_relax();
}

/* Take one, or keep the lock for the caller.  Return true if one was taken; the lock is then released. */
static inline bool sem_take(semaphore_t *s, madi_worker_t *worker)
{
    bool biased = sem_enter(s, worker);
    if (!s->queue.value)
        return false;
    sem_value_set(&s->queue, s->queue.value - 1);
    sem_leave(s, worker, biased);
    return true;
}

/* Leave the semaphore after a sem_take that did not release it. */
static inline void sem_leave_untaken(semaphore_t *s, madi_worker_t *worker)
{
    sem_leave(s, worker, worker && atomic_load_explicit(&worker->holds, memory_order_relaxed));
}

static MADI_COLD int sem_wait_until(void *sem, void *none, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    semaphore_t *s = sem_of(sem);
    madi_worker_t *worker;
    int rc;
    (void)none;
    if (!self)
        return ENOMEM;
    madi_cancel_point(self);
    worker = self->plain ? NULL : madi_worker_self();
    if (sem_take(s, worker))
        return 0;
    if (deadline <= 0) {
        sem_leave_untaken(s, worker);
        return ETIMEDOUT;
    }
    madi_waitq_add(&s->queue, self);
    rc = madi_block_point(self, &s->queue, deadline);
    if (rc == ECANCELED)
        madi_cancel_act(self);
    return rc;
}

int marcel_sem_wait(marcel_sem_t *sem)
{
    madi_ult_t *self = madi_ult_self();
    semaphore_t *s = sem_of(sem);
    if (MADI_UNLIKELY(!self))
        return sem_wait_until(sem, NULL, MADI_NEVER);
    madi_cancel_point(&self->party);
    if (!__atomic_load_n(&s->queue.value, __ATOMIC_RELAXED) && !madi_queue_first(self->worker))
        sem_spin(self->worker, &s->queue);
    if (sem_take(s, self->worker))
        return 0;
    madi_waitq_add(&s->queue, &self->party);
    if (MADI_UNLIKELY(madi_block_point(&self->party, &s->queue, MADI_NEVER)))
        madi_cancel_act(&self->party);
    return 0;
}

int marcel_sem_trywait(marcel_sem_t *sem)
{
    madi_worker_t *worker = madi_worker_self();
    if (sem_take(sem_of(sem), worker))
        return 0;
    sem_leave_untaken(sem_of(sem), worker);
    return EAGAIN;
}

int marcel_sem_clockwait(marcel_sem_t *sem, int clock, const struct timespec *until)
{
    return madi_timed(sem_wait_until, sem, NULL, clock, until);
}

int marcel_sem_timedwait(marcel_sem_t *sem, const struct timespec *until)
{
    return marcel_sem_clockwait(sem, CLOCK_REALTIME, until);
}

int marcel_sem_post(marcel_sem_t *sem)
{
    semaphore_t *s = sem_of(sem);
    madi_worker_t *worker = madi_worker_self();
    madi_party_t *party;
    bool biased;
    int rc = 0;
    madi_fetch_to_write(s); /* fetch the semaphore's line for writing in one step, because another core may have the line */
    biased = sem_enter(s, worker);
    party = biased ? madi_bias_take(&s->queue) : madi_waitq_take(&s->queue);
    if (!party) {
        if (MADI_LIKELY(s->queue.value < MARCEL_SEM_VALUE_MAX))
            sem_value_set(&s->queue, s->queue.value + 1);
        else
            rc = EOVERFLOW;
    }
    if (MADI_LIKELY(biased || s->left))
        sem_leave(s, worker, biased);
    else
        sem_leave_biased(s, worker);
    if (party)
        madi_wake(party);
    return rc;
}

int marcel_sem_getvalue(marcel_sem_t *sem, int *value)
{
    *value = (int)__atomic_load_n(&sem_of(sem)->queue.value, __ATOMIC_RELAXED);
    return 0;
}
