/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end. */
#include "base/knob.h"
#include "base/static_mutex.h"
#include "engine/leader.h"
#include "marcel/carrier.h"
#include "marcel/first_thread.h"
#include "marcel/guard.h"
#include "marcel/marcel.h"
#include "marcel/placement.h"
#include "marcel/sched.h"

#include <errno.h>
#include <marcel.h>
#include <stdlib.h>

madi_marcel_t madi_marcel;

static madi_static_mutex_t lock = MADI_STATIC_MUTEX;

unsigned madi_slot_shift_usual(void)
{
    size_t stack = madi_knob_load(MADI_KNOB_STACK_SIZE) ? 0 : (size_t)madi_knob_int(MADI_KNOB_STACK_SIZE);
    unsigned shift = MADI_SLOT_SHIFT_MIN;
    while (((size_t)1 << shift) < stack)
        shift++;
    return shift;
}

static int knobs_read(int *n)
{
    int64_t bind;
    if (madi_knob_load(MADI_KNOB_STACK_SIZE) || madi_knob_load(MADI_KNOB_STACK_GUARDS) ||
        madi_knob_load(MADI_KNOB_MONITOR) || madi_knob_load(MADI_KNOB_WORKERS) || madi_knob_load(MADI_KNOB_WORKERS_BIND) ||
        madi_server_probe())
        return EINVAL;
    madi_marcel.slot_shift = madi_slot_shift_usual();
    madi_guard_init(MADI_GUARD_AUTO, madi_knob_int(MADI_KNOB_STACK_GUARDS));
    bind = madi_knob_int(MADI_KNOB_WORKERS_BIND);
    madi_marcel.binds = bind < 0 ? madi_placement_exclusive() : bind;
    *n = (int)madi_knob_int(MADI_KNOB_WORKERS);
    if (*n == 0)
        *n = madi_placement_cores();
    return 0;
}

/* Allocate memory for n workers, which is kept until the process ends.  A plain pthread that has made a thread ready
 * accesses the worker once more, at a time when the thread and the library may have ended. */
static madi_worker_t *workers_alloc(int n)
{
    static struct room {
        struct room *before;
        madi_worker_t *workers;
    } * rooms;
    static int room;
    struct room *more;
    if (n <= room)
        return rooms->workers;
    more = malloc(sizeof *more);
    if (!more || !(more->workers = aligned_alloc(_Alignof(madi_worker_t), (size_t)n * sizeof *more->workers)))
        return free(more), NULL;
    more->before = rooms;
    rooms = more;
    room = n;
    return more->workers;
}

static void workers_end(int inited, int started)
{
    madi_monitor_stop();
    for (int i = 0; i < started; i++)
        madi_worker_close(&madi_marcel.workers[i]);
    madi_carriers_stop();
    for (int i = 0; i < inited; i++)
        madi_worker_fini(&madi_marcel.workers[i]);
    madi_placement_forget();
}

static int workers_start(int n)
{
    int rc = madi_placement_find(n), inited = 0, started = 0;
    madi_marcel.workers = workers_alloc(n);
    madi_monitor_prepare();
    if (!madi_marcel.workers)
        rc = ENOMEM;
    while (!rc && inited < n)
        rc = madi_worker_init(&madi_marcel.workers[inited], inited, n), inited++;
    while (!rc && started < n)
        if (!(rc = madi_carrier_start(&madi_marcel.workers[started])))
            started++;
    if (!rc)
        rc = madi_monitor_start();
    if (rc)
        workers_end(inited, started);
    else
        atomic_store_explicit(&madi_marcel.n_workers, n, memory_order_release);
    return rc;
}

int marcel_init(void)
{
    madi_worker_t *worker = madi_worker_self();
    int rc = 0, n;
    madi_cxx_look();
    if (worker)
        madi_cxx_update(&worker->cxx);
    if (marcel_worker_count())
        return madi_carriers_left_behind() ? ENOTSUP : 0;
    madi_first_thread_watch();
    madi_static_mutex_lock(&lock);
    if (!marcel_worker_count()) {
        rc = knobs_read(&n);
        if (!rc)
            rc = madi_slot_init();
        if (!rc) {
            madi_fp_save(&madi_marcel.fp);
            madi_guard_watch();
            madi_marcel.fences = !madi_server.asymmetric;
            rc = workers_start(n);
            if (rc)
                madi_guard_unwatch();
        }
    }
    madi_static_mutex_unlock(&lock);
    return rc;
}

/* Counts ends before beginnings: if the sums are equal, no thread existed at the moment between the two counts. */
bool madi_marcel_all_ended(void)
{
    uint64_t created, ended = 0;
    for (int i = 0; i < marcel_worker_count(); i++)
        ended += atomic_load_explicit(&madi_marcel.workers[i].ended, memory_order_acquire);
    created = atomic_load_explicit(&madi_marcel.from_outside, memory_order_relaxed);
    for (int i = 0; i < marcel_worker_count(); i++)
        created += atomic_load_explicit(&madi_marcel.workers[i].created, memory_order_relaxed);
    return created == ended;
}

int marcel_fini(void)
{
    int rc = 0;
    if (madi_ult_self())
        return EPERM;
    if (marcel_worker_count() && madi_carriers_left_behind())
        return ENOTSUP;
    madi_static_mutex_lock(&lock);
    if (marcel_worker_count() && !madi_marcel_all_ended()) {
        rc = EBUSY;
    } else if (marcel_worker_count()) {
        int n = marcel_worker_count();
        workers_end(n, n);
        atomic_store_explicit(&madi_marcel.n_workers, 0, memory_order_relaxed);
        atomic_store_explicit(&madi_marcel.from_outside, 0, memory_order_relaxed);
        madi_guard_unwatch();
    }
    madi_static_mutex_unlock(&lock);
    return rc;
}

int marcel_worker_count(void)
{
    return atomic_load_explicit(&madi_marcel.n_workers, memory_order_acquire);
}
