/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/share.h"
#include "marcel/sched.h"

#include <marcel.h>

/* ---- Threads that may move ------------------------------------------------------------------------------------ */

static void movable_add(madi_worker_t *worker, madi_ult_t *ult)
{
    madi_movable_t *movable = &worker->movable;
    madi_ring_link_t *link = &ult->link;
    madi_lock(&movable->lock);
    ult->state = MADI_ULT_READY;
    link->next = &movable->head;
    link->prev = movable->head.prev;
    link->prev->next = link;
    movable->head.prev = link;
    atomic_store_explicit(&movable->n, atomic_load_explicit(&movable->n, memory_order_relaxed) + 1, memory_order_relaxed);
    madi_unlock(&movable->lock);
}

void madi_movable_put(madi_worker_t *worker, madi_ult_t *ult)
{
    movable_add(worker, ult);
    madi_shared(worker);
}

void madi_movable_send(madi_worker_t *worker, madi_ult_t *ult)
{
    movable_add(worker, ult);
    /* this fence pairs with the fence in madi_shared; a single worker executes no barrier */
    atomic_thread_fence(memory_order_seq_cst);
    if (!madi_worker_wake(worker) && atomic_load_explicit(&madi_marcel.n_asleep, memory_order_relaxed))
        madi_share_wake(worker);
}

madi_ult_t *madi_movable_take(madi_worker_t *worker)
{
    madi_movable_t *movable = &worker->movable;
    madi_ring_link_t *link;
    if (madi_movable_empty(worker))
        return NULL;
    madi_lock(&movable->lock);
    link = movable->head.next;
    if (link != &movable->head) {
        link->next->prev = link->prev;
        link->prev->next = link->next;
        atomic_store_explicit(&movable->n, atomic_load_explicit(&movable->n, memory_order_relaxed) - 1,
                              memory_order_relaxed);
    }
    madi_unlock(&movable->lock);
    return link != &movable->head ? MADI_RING_ULT(link) : NULL;
}

/* ---- Seeds from outside --------------------------------------------------------------------------------------- */

/* Lock of the list of seeds from outside: its first element is madi_marcel.outside, its last one outside_last. */
static madi_lock_t outside_lock;
static struct marcel_thread *outside_last;

void madi_outside_put(struct marcel_thread *thread)
{
    thread->link = 0;
    madi_lock(&outside_lock);
    if (madi_outside_empty())
        atomic_store_explicit(&madi_marcel.outside, thread, memory_order_relaxed);
    else
        outside_last->link = (uintptr_t)thread;
    outside_last = thread;
    madi_unlock(&outside_lock);
    atomic_thread_fence(memory_order_seq_cst); /* as in madi_shared */
    if (atomic_load_explicit(&madi_marcel.n_asleep, memory_order_relaxed))
        madi_share_wake(NULL);
}

struct marcel_thread *madi_outside_take(void)
{
    struct marcel_thread *thread;
    if (MADI_LIKELY(madi_outside_empty()))
        return NULL;
    madi_lock(&outside_lock);
    thread = atomic_load_explicit(&madi_marcel.outside, memory_order_relaxed);
    if (thread)
        atomic_store_explicit(&madi_marcel.outside, (struct marcel_thread *)thread->link, memory_order_relaxed);
    madi_unlock(&outside_lock);
    return thread;
}

/* ---- Find and wake -------------------------------------------------------------------------------------------- */

static bool share_find_at(madi_worker_t *worker, madi_worker_t *other, bool all)
{
    madi_ult_t *ult = madi_movable_take(other);
    if (ult) {
        madi_ult_worker_set(ult, worker);
        worker->stolen = ult;
    } else {
        worker->pending = all ? madi_deque_steal(&other->deque) : madi_deque_steal_likely(&other->deque);
    }
    if (!ult && !worker->pending)
        return false;
    madi_count(&worker->steals);
    return true;
}

bool madi_share_find(madi_worker_t *worker, bool all)
{
    worker->pending = madi_outside_take();
    for (int i = 0; i < worker->n_near && !worker->pending; i++)
        if (share_find_at(worker, &madi_marcel.workers[worker->near[i]], all))
            return true;
    return worker->pending != NULL;
}

void madi_share_wake(madi_worker_t *worker)
{
    int n = marcel_worker_count();
    if (worker)
        for (int i = 0; i < worker->n_near; i++) {
            if (madi_worker_wake(&madi_marcel.workers[worker->near[i]]))
                return;
        }
    else
        for (int i = 0; i < n; i++)
            if (madi_worker_wake(&madi_marcel.workers[i]))
                return;
}

void madi_share_pass_on(madi_worker_t *worker)
{
    bool more = !madi_outside_empty() || !madi_deque_empty(&worker->deque) || !madi_movable_empty(worker);
    worker->woken = false;
    for (int i = 0; i < worker->n_near && !more; i++) {
        const madi_worker_t *other = &madi_marcel.workers[worker->near[i]];
        more = !madi_deque_empty(&other->deque) || !madi_movable_empty(other);
    }
    if (more)
        madi_shared(worker);
}
