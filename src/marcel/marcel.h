/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the library as a whole, determined at its start. */
#ifndef MADI_MARCEL_H
#define MADI_MARCEL_H

#include "marcel/worker.h"

typedef struct madi_marcel {
    _Atomic(int) n_workers; /* 0: not started */
    madi_worker_t *workers;
    /* true if there is no membarrier: each entry into a shared list then needs a fence (share.h) */
    bool fences;
    bool binds;                                                  /* true if each worker is bound to its place */
    _Alignas(MADI_LINE) _Atomic(int) n_asleep;                   /* workers whose `idle` is set */
    _Alignas(MADI_LINE) _Atomic(struct marcel_thread *) outside; /* share.h */
    _Alignas(MADI_LINE) unsigned slot_shift; /* log2 of the default slot size; changes only while there are no workers */
    madi_fp_t fp;                            /* floating-point control words with which threads begin */
    _Atomic(uint64_t) from_outside;          /* threads that plain pthreads created */
} madi_marcel_t;

#pragma GCC visibility push(hidden)

extern madi_marcel_t madi_marcel;

/* True if all user-level threads have ended. */
bool madi_marcel_all_ended(void);

/* Get and return records of threads (thread.h).  worker: its own list is refilled or shortened; NULL: only the common
 * pool is used.  Return NULL if there is no memory. */
struct marcel_thread *madi_record_more(madi_worker_t *worker);
void madi_record_less(madi_worker_t *worker, struct marcel_thread *thread);

#pragma GCC visibility pop

static inline struct marcel_thread *madi_record_get(madi_worker_t *worker)
{
    struct marcel_thread *thread = worker ? worker->records : NULL;
    if (MADI_UNLIKELY(!thread))
        return madi_record_more(worker);
    worker->records = (struct marcel_thread *)thread->link;
    worker->n_records--;
    return thread;
}

/* Return a record to the pool.  No thread may use its handle any more. */
static inline void madi_record_put(madi_worker_t *worker, struct marcel_thread *thread)
{
    atomic_store_explicit(&thread->state, MADI_GONE, memory_order_relaxed);
    if (MADI_UNLIKELY(!worker || thread->traits || worker->n_records >= MADI_RECORDS_KEPT)) {
        madi_record_less(worker, thread);
        return;
    }
    thread->link = (uintptr_t)worker->records;
    worker->records = thread;
    worker->n_records++;
}

#endif
