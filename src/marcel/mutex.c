/* SPDX-License-Identifier: BSD-3-Clause */
#define MARCEL_NO_INLINE
#include "marcel/mutex.h"
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <errno.h>
#include <limits.h>

/* ---- Attributes ----------------------------------------------------------------------------------------------- */

int marcel_mutexattr_init(marcel_mutexattr_t *attr)
{
    attr->marcel_type = MARCEL_MUTEX_DEFAULT;
    return 0;
}

int marcel_mutexattr_destroy(marcel_mutexattr_t *attr)
{
    (void)attr;
    return 0;
}

int marcel_mutexattr_settype(marcel_mutexattr_t *attr, int type)
{
    if (type != MARCEL_MUTEX_NORMAL && type != MARCEL_MUTEX_RECURSIVE && type != MARCEL_MUTEX_ERRORCHECK)
        return EINVAL;
    attr->marcel_type = type;
    return 0;
}

int marcel_mutexattr_gettype(const marcel_mutexattr_t *attr, int *type)
{
    *type = attr->marcel_type;
    return 0;
}

int marcel_mutex_init(marcel_mutex_t *mutex, const marcel_mutexattr_t *attr)
{
    madi_mutex_t *m = madi_mutex_of(mutex);
    memset(mutex, 0, sizeof *mutex);
    m->type = (unsigned)(attr ? attr->marcel_type : MARCEL_MUTEX_DEFAULT);
    atomic_store_explicit(&m->word, m->type == MARCEL_MUTEX_NORMAL ? 0 : MADI_MUTEX_TYPED, memory_order_relaxed);
    return 0;
}

int marcel_mutex_destroy(marcel_mutex_t *mutex)
{
    madi_mutex_t *m = madi_mutex_of(mutex);
    return atomic_load_explicit(&m->word, memory_order_relaxed) & ~(unsigned)MADI_MUTEX_TYPED ? EBUSY : 0;
}

/* ---- Lock ----------------------------------------------------------------------------------------------------- */

static bool mutex_word_change(madi_mutex_t *m, unsigned from, unsigned to)
{
    /* the acquire pairs with the release of the last holder, the release with the acquire of the next holder */
    return atomic_compare_exchange_strong_explicit(&m->word, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

/* Take the mutex if it is free, otherwise set WAITERS.  Called under the queue's lock.  Return true if taken. */
static bool mutex_take_or_announce(madi_mutex_t *m, bool again)
{
    for (;;) {
        unsigned word = atomic_load_explicit(&m->word, memory_order_relaxed), typed = word & MADI_MUTEX_TYPED, want;
        if (!(word & MADI_MUTEX_LOCKED)) {
            want = typed | MADI_MUTEX_LOCKED | (m->queue.first ? MADI_MUTEX_WAITERS : 0);
            if (mutex_word_change(m, word, want))
                return true;
        } else {
            want = word | MADI_MUTEX_WAITERS | (again ? MADI_MUTEX_HANDOFF : 0);
            if (want == word || mutex_word_change(m, word, want))
                return false;
        }
    }
}

static MADI_COLD int mutex_lock_wait(madi_mutex_t *m, madi_party_t *self, int64_t deadline)
{
    bool again = false;
    int rc = 0;
    madi_lock(&m->queue.lock);
    while (!mutex_take_or_announce(m, again)) {
        if (again)
            madi_waitq_add_first(&m->queue, self);
        else
            madi_waitq_add(&m->queue, self);
        rc = madi_block(self, &m->queue, deadline); /* releases the lock */
        if (rc)
            return rc;
        if (atomic_load_explicit(&m->owner, memory_order_relaxed) == self) { /* the mutex was handed over */
            if (m->type == MARCEL_MUTEX_NORMAL)
                atomic_store_explicit(&m->owner, NULL, memory_order_relaxed);
            return 0;
        }
        again = true;
        madi_lock(&m->queue.lock);
    }
    madi_unlock(&m->queue.lock);
    return 0;
}

/* Lock a typed mutex that the caller already holds. */
static int mutex_lock_again(madi_mutex_t *m, int otherwise)
{
    if (m->type == MARCEL_MUTEX_ERRORCHECK)
        return otherwise;
    if (m->depth == ULONG_MAX)
        return EAGAIN;
    m->depth++;
    return 0;
}

static int mutex_lock_slow(madi_mutex_t *m, bool wait, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    unsigned typed = m->type == MARCEL_MUTEX_NORMAL ? 0 : MADI_MUTEX_TYPED;
    int rc;
    if (!self)
        return ENOMEM;
    if (typed && atomic_load_explicit(&m->owner, memory_order_relaxed) == self)
        return mutex_lock_again(m, wait ? EDEADLK : EBUSY);
    if (!mutex_word_change(m, typed, typed | MADI_MUTEX_LOCKED)) {
        if (!wait)
            return EBUSY;
        rc = mutex_lock_wait(m, self, deadline);
        if (rc)
            return rc;
    }
    if (typed) {
        atomic_store_explicit(&m->owner, self, memory_order_relaxed);
        m->depth = 0;
    }
    return 0;
}

/* True for an errorcheck mutex that the caller holds.  A caller that was just given the mutex by HANDOFF has taken it by
 * now. */
static bool mutex_is_mine(madi_mutex_t *m)
{
    return m->type == MARCEL_MUTEX_ERRORCHECK && atomic_load_explicit(&m->owner, memory_order_relaxed) == madi_party_self();
}

static int mutex_lock_until(void *mutex, void *none, int64_t deadline)
{
    (void)none;
    return mutex_lock_slow(madi_mutex_of(mutex), true, deadline);
}

int marcel_mutex_clocklock(marcel_mutex_t *mutex, int clock, const struct timespec *until)
{
    int rc = madi_clock_known(clock) ? marcel_mutex_trylock(mutex) : EINVAL;
    if (rc != EBUSY)
        return rc;
    if (mutex_is_mine(madi_mutex_of(mutex)))
        return EDEADLK;
    return madi_timed(mutex_lock_until, mutex, NULL, clock, until);
}

int marcel_mutex_timedlock(marcel_mutex_t *mutex, const struct timespec *until)
{
    return marcel_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

int marcel_mutex_lock_slow(marcel_mutex_t *mutex)
{
    return mutex_lock_slow(madi_mutex_of(mutex), true, MADI_NEVER);
}

int marcel_mutex_lock(marcel_mutex_t *mutex)
{
    if (MADI_LIKELY(mutex_word_change(madi_mutex_of(mutex), 0, MADI_MUTEX_LOCKED)))
        return 0;
    return marcel_mutex_lock_slow(mutex);
}

int marcel_mutex_trylock(marcel_mutex_t *mutex)
{
    return mutex_lock_slow(madi_mutex_of(mutex), false, MADI_NEVER);
}

/* ---- Unlock --------------------------------------------------------------------------------------------------- */

static MADI_COLD void mutex_unlock_wake(madi_mutex_t *m, unsigned typed)
{
    for (;;) {
        madi_party_t *party;
        unsigned word;
        madi_lock(&m->queue.lock);
        word = atomic_load_explicit(&m->word, memory_order_relaxed);
        party = madi_waitq_take(&m->queue);
        if (!party) {
            /* There is no waiter: the threads that set WAITERS have left after a time-out.  The bits are cleared under
             * the lock, so a waiter that comes now sets them again, and the loop finds it.  The word is changed last,
             * because the thread that locks the mutex next may destroy it. */
            word = typed | MADI_MUTEX_LOCKED;
            atomic_store_explicit(&m->word, word, memory_order_relaxed);
            madi_unlock(&m->queue.lock);
            if (mutex_word_change(m, word, typed))
                return;
            continue;
        }
        if (word & MADI_MUTEX_HANDOFF) {
            atomic_store_explicit(&m->owner, party, memory_order_relaxed);
            atomic_store_explicit(&m->word, typed | MADI_MUTEX_LOCKED | (m->queue.first ? MADI_MUTEX_WAITERS : 0),
                                  /* a relaxed store suffices: other threads change the word only under the queue's lock */
                                  memory_order_relaxed);
            madi_unlock(&m->queue.lock);
        } else {
            /* The woken thread sets WAITERS again if there are more waiters. */
            atomic_store_explicit(&m->word, typed, memory_order_release);
            madi_unlock(&m->queue.lock); /* the mutex cannot be destroyed yet, because the woken thread still wants it */
        }
        madi_wake(party);
        return;
    }
}

int marcel_mutex_unlock_slow(marcel_mutex_t *mutex)
{
    madi_mutex_t *m = madi_mutex_of(mutex);
    unsigned typed = m->type == MARCEL_MUTEX_NORMAL ? 0 : MADI_MUTEX_TYPED;
    if (typed) {
        madi_party_t *self = madi_party_self();
        if (!self || atomic_load_explicit(&m->owner, memory_order_relaxed) != self)
            return EPERM;
        if (m->depth) {
            m->depth--;
            return 0;
        }
        atomic_store_explicit(&m->owner, NULL, memory_order_relaxed);
    }
    if (!mutex_word_change(m, typed | MADI_MUTEX_LOCKED, typed))
        mutex_unlock_wake(m, typed);
    return 0;
}

int marcel_mutex_unlock(marcel_mutex_t *mutex)
{
    if (MADI_LIKELY(mutex_word_change(madi_mutex_of(mutex), MADI_MUTEX_LOCKED, 0)))
        return 0;
    return marcel_mutex_unlock_slow(mutex);
}
