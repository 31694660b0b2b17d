/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end. */
#include "base/knob.h"
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/place.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>
#include <stdlib.h>

madi_marcel_t madi_marcel;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int knobs_read(void)
{
    size_t stack;
    if (madi_knob_load(MADI_KNOB_STACK_SIZE) || madi_knob_load(MADI_KNOB_STACK_GUARDS))
        return EINVAL;
    stack = (size_t)madi_knob_int(MADI_KNOB_STACK_SIZE);
    madi_marcel.slot_shift = MADI_SLOT_SHIFT_MIN;
    while (((size_t)1 << madi_marcel.slot_shift) < stack)
        madi_marcel.slot_shift++;
    madi_guard_init(MADI_GUARD_AUTO, madi_knob_int(MADI_KNOB_STACK_GUARDS));
    return 0;
}

static int workers_start(int n)
{
    madi_worker_t *workers = aligned_alloc(_Alignof(madi_worker_t), (size_t)n * sizeof *workers);
    int rc = workers ? madi_place_find(n) : ENOMEM, started = 0;
    madi_marcel.workers = workers;
    while (!rc && started < n)
        if (!(rc = madi_worker_start(&workers[started], started)))
            started++;
    if (rc) {
        while (started-- > 0)
            madi_worker_stop(&workers[started]);
        madi_place_forget();
        free(workers);
        madi_marcel.workers = NULL;
        return rc;
    }
    atomic_store_explicit(&madi_marcel.n_workers, n, memory_order_release);
    return 0;
}

int marcel_init(void)
{
    int rc = 0;
    if (marcel_workers())
        return 0;
    pthread_mutex_lock(&lock);
    if (!marcel_workers()) {
        rc = knobs_read();
        if (!rc)
            rc = madi_slot_init();
        if (!rc) {
            madi_fp_save(&madi_marcel.fp);
            madi_guard_watch();
            rc = workers_start(1);
            if (rc)
                madi_guard_unwatch();
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static bool all_ended(void)
{
    uint64_t created = atomic_load_explicit(&madi_marcel.from_outside, memory_order_relaxed), ended = 0;
    for (int i = 0; i < marcel_workers(); i++) {
        created += atomic_load_explicit(&madi_marcel.workers[i].created, memory_order_relaxed);
        ended += atomic_load_explicit(&madi_marcel.workers[i].ended, memory_order_acquire);
    }
    return created == ended;
}

int marcel_fini(void)
{
    int rc = 0;
    if (madi_ult_self())
        return EPERM;
    pthread_mutex_lock(&lock);
    if (marcel_workers() && !all_ended()) {
        rc = EBUSY;
    } else if (marcel_workers()) {
        for (int i = 0; i < marcel_workers(); i++)
            madi_worker_stop(&madi_marcel.workers[i]);
        atomic_store_explicit(&madi_marcel.n_workers, 0, memory_order_relaxed);
        atomic_store_explicit(&madi_marcel.from_outside, 0, memory_order_relaxed);
        free(madi_marcel.workers);
        madi_marcel.workers = NULL;
        madi_place_forget();
        madi_guard_unwatch();
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

int marcel_workers(void)
{
    return atomic_load_explicit(&madi_marcel.n_workers, memory_order_acquire);
}
