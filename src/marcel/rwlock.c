/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks for many readers or one writer.  All state is under the lock of one queue.  The rwlock is given in the order of
 * arrival: a reader does not overtake a waiting writer, so no thread starves; consecutive readers get the rwlock
 * together.  A thread that unlocks gives the rwlock to the next thread, so the rwlock is never free while a thread
 * waits.
 *
 * A reader that already holds any rwlock for reading overtakes waiting writers, because these may be waiting for that
 * reader to unlock. */
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <limits.h>
#include <marcel.h>

#define WRITER UINT_MAX

typedef struct madi_rwlock {
    madi_waitq_t queue;   /* `value`: number of readers, or WRITER; `noted` of a party: the thread wants to read */
    madi_party_t *writer; /* under the queue's lock */
} madi_rwlock_t;

_Static_assert(sizeof(madi_rwlock_t) <= sizeof(marcel_rwlock_t), "a public rwlock holds one");

static madi_rwlock_t *rwlock_of(marcel_rwlock_t *rwlock)
{
    return (madi_rwlock_t *)(void *)rwlock;
}

int marcel_rwlock_init(marcel_rwlock_t *rwlock, const void *attr)
{
    if (attr)
        return EINVAL;
    memset(rwlock, 0, sizeof *rwlock);
    return 0;
}

int marcel_rwlock_destroy(marcel_rwlock_t *rwlock)
{
    madi_waitq_t *queue = &rwlock_of(rwlock)->queue;
    bool held;
    madi_lock(&queue->lock);
    held = queue->value != 0;
    madi_unlock(&queue->lock);
    return held ? EBUSY : madi_waitq_close(queue);
}

/* ---- The next thread ------------------------------------------------------------------------------------------- */

static bool rwlock_try_give(madi_rwlock_t *l, madi_party_t *party)
{
    if (!madi_waitq_win(party))
        return false;
    madi_waitq_remove(&l->queue, party);
    if (party->noted) {
        l->queue.value++;
    } else {
        l->queue.value = WRITER;
        l->writer = party;
    }
    return true;
}

/* Give the rwlock to the waiting threads whose turn it is.  Called with the queue's lock held, which is released. */
static void rwlock_give(madi_rwlock_t *l)
{
    madi_party_t *party = l->queue.first, *last = party ? party->prev : NULL, *all = NULL, **end = &all, *next;
    for (bool more = party; more && l->queue.value != WRITER; party = next) {
        next = party->next;
        more = party != last;
        if (!madi_waitq_waits(party))
            continue;
        if (!party->noted && l->queue.value)
            break;
        if (rwlock_try_give(l, party)) {
            *end = party;
            end = &party->next;
        }
    }
    *end = NULL;
    madi_unlock(&l->queue.lock);
    while ((party = all)) {
        all = party->next;
        madi_wake(party);
    }
}

static bool queue_has_waiter(const madi_waitq_t *queue)
{
    const madi_party_t *party = queue->first;
    while (party && !madi_waitq_waits(party))
        party = party->next == queue->first ? NULL : party->next;
    return party != NULL;
}

/* ---- Lock and unlock ------------------------------------------------------------------------------------------ */

static bool rwlock_take(madi_rwlock_t *l, madi_party_t *self, bool reads)
{
    if (reads) {
        if (l->queue.value >= WRITER - 1 || (!self->n_read && queue_has_waiter(&l->queue)))
            return false;
        l->queue.value++;
    } else {
        if (l->queue.value || queue_has_waiter(&l->queue))
            return false;
        l->queue.value = WRITER;
        l->writer = self;
    }
    return true;
}

/* deadline 0: do not wait. */
static int rwlock_lock(marcel_rwlock_t *rwlock, bool reads, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    madi_rwlock_t *l = rwlock_of(rwlock);
    int rc = 0;
    if (!self)
        return ENOMEM;
    madi_lock(&l->queue.lock);
    if (rwlock_take(l, self, reads)) {
        madi_unlock(&l->queue.lock);
    } else if (deadline == 0 || (l->queue.value == WRITER && l->writer == self)) {
        rc = deadline == 0 ? EBUSY : EDEADLK;
        madi_unlock(&l->queue.lock);
    } else {
        self->noted = reads;
        madi_waitq_add(&l->queue, self);
        rc = madi_block(self, &l->queue, deadline);
        if (rc) { /* the threads queued behind this one may have waited only for it */
            madi_lock(&l->queue.lock);
            rwlock_give(l);
        }
    }
    if (!rc && reads)
        self->n_read++;
    return rc;
}

static int rwlock_lock_until(void *rwlock, void *reads, int64_t deadline)
{
    return rwlock_lock(rwlock, reads != NULL, deadline ? deadline : 1);
}

static int rwlock_lock_timed(marcel_rwlock_t *rwlock, bool reads, int clock, const struct timespec *until)
{
    int rc = madi_clock_known(clock) ? rwlock_lock(rwlock, reads, 0) : EINVAL;
    return rc != EBUSY ? rc : madi_timed(rwlock_lock_until, rwlock, reads ? rwlock : NULL, clock, until);
}

int marcel_rwlock_rdlock(marcel_rwlock_t *rwlock)
{
    return rwlock_lock(rwlock, true, MADI_NEVER);
}

int marcel_rwlock_tryrdlock(marcel_rwlock_t *rwlock)
{
    return rwlock_lock(rwlock, true, 0);
}

int marcel_rwlock_clockrdlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until)
{
    return rwlock_lock_timed(rwlock, true, clock, until);
}

int marcel_rwlock_timedrdlock(marcel_rwlock_t *rwlock, const struct timespec *until)
{
    return rwlock_lock_timed(rwlock, true, CLOCK_REALTIME, until);
}

int marcel_rwlock_wrlock(marcel_rwlock_t *rwlock)
{
    return rwlock_lock(rwlock, false, MADI_NEVER);
}

int marcel_rwlock_trywrlock(marcel_rwlock_t *rwlock)
{
    return rwlock_lock(rwlock, false, 0);
}

int marcel_rwlock_clockwrlock(marcel_rwlock_t *rwlock, int clock, const struct timespec *until)
{
    return rwlock_lock_timed(rwlock, false, clock, until);
}

int marcel_rwlock_timedwrlock(marcel_rwlock_t *rwlock, const struct timespec *until)
{
    return rwlock_lock_timed(rwlock, false, CLOCK_REALTIME, until);
}

int marcel_rwlock_unlock(marcel_rwlock_t *rwlock)
{
    madi_party_t *self = madi_party_self();
    madi_rwlock_t *l = rwlock_of(rwlock);
    madi_lock(&l->queue.lock);
    if (!self || l->queue.value == 0 || (l->queue.value == WRITER && l->writer != self)) {
        madi_unlock(&l->queue.lock);
        return EPERM;
    }
    if (l->queue.value == WRITER) {
        l->queue.value = 0;
        l->writer = NULL;
    } else {
        l->queue.value--;
        if (self->n_read)
            self->n_read--;
    }
    if (l->queue.value)
        madi_unlock(&l->queue.lock);
    else
        rwlock_give(l);
    return 0;
}
