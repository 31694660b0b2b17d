/* SPDX-License-Identifier: BSD-3-Clause */
/* Barriers: a queue of the threads that have arrived.
 *
 * `value` is an upper bound of the number of waiting threads, since a thread whose deadline passes does not decrease
 * it.  So a thread that seems to be the last counts the queue.  A thread that is still in the queue then has arrived in
 * time, even if its deadline has passed. */
#include "marcel/sched.h"
#include "marcel/sleep.h"

#include <limits.h>
#include <marcel.h>

typedef struct madi_barrier {
    madi_waitq_t queue; /* `noted` of a party: the barrier has let the thread pass, which only has to leave the queue */
    unsigned count;
} madi_barrier_t;

_Static_assert(sizeof(madi_barrier_t) <= sizeof(marcel_barrier_t), "a public barrier holds one");

static madi_barrier_t *barrier_of(marcel_barrier_t *barrier)
{
    return (madi_barrier_t *)(void *)barrier;
}

int marcel_barrier_init(marcel_barrier_t *barrier, const void *attr, unsigned count)
{
    if (attr || count == 0 || count > INT_MAX)
        return EINVAL;
    memset(barrier, 0, sizeof *barrier);
    barrier_of(barrier)->count = count;
    return 0;
}

int marcel_barrier_destroy(marcel_barrier_t *barrier)
{
    return madi_waitq_close(&barrier_of(barrier)->queue);
}

/* Count the waiting threads of the queue.  pass: let them pass, so that they no longer count as waiting. */
static unsigned barrier_count_arrived(madi_waitq_t *queue, bool pass)
{
    madi_party_t *party = queue->first;
    unsigned n = 0;
    for (bool more = party; more; party = party->next) {
        n += !party->noted;
        party->noted = party->noted || pass;
        more = party->next != queue->first;
    }
    return n;
}

static int barrier_wait_until(void *barrier, void *none, int64_t deadline)
{
    madi_party_t *self = madi_party_self();
    madi_barrier_t *b = barrier_of(barrier);
    int rc;
    (void)none;
    if (!self)
        return ENOMEM;
    madi_lock(&b->queue.lock);
    if (b->queue.value + 1 >= b->count)
        b->queue.value = barrier_count_arrived(&b->queue, false);
    if (b->queue.value + 1 >= b->count) {
        barrier_count_arrived(&b->queue, true);
        b->queue.value = 0;
        madi_wake_all(&b->queue); /* this call also releases the lock; from now on the barrier may be destroyed */
        return MARCEL_BARRIER_SERIAL_THREAD;
    }
    b->queue.value++;
    self->noted = false;
    madi_waitq_add(&b->queue, self);
    rc = madi_block(self, &b->queue, deadline);
    return self->noted ? 0 : rc;
}

int marcel_barrier_wait(marcel_barrier_t *barrier)
{
    return barrier_wait_until(barrier, NULL, MADI_NEVER);
}

int marcel_barrier_clockwait(marcel_barrier_t *barrier, int clock, const struct timespec *until)
{
    return madi_timed(barrier_wait_until, barrier, NULL, clock, until);
}

int marcel_barrier_timedwait(marcel_barrier_t *barrier, const struct timespec *until)
{
    return marcel_barrier_clockwait(barrier, CLOCK_REALTIME, until);
}
