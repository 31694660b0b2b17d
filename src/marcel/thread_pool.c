/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of records: each worker keeps some records; all others are here. */
#include "marcel/marcel.h"
#include "base/static_mutex.h"
#include "marcel/traits.h"

#include <stdlib.h>

#define CHUNK 256 /* records */
#define BATCH (MADI_RECORDS_KEPT / 2)

static struct marcel_thread *free_records;
static madi_static_mutex_t lock = MADI_STATIC_MUTEX;

_Static_assert(sizeof(struct marcel_thread) <= MADI_LINE, "a record is one line");

static struct marcel_thread *record_take(void)
{
    struct marcel_thread *thread = free_records;
    if (!thread) {
        char *chunk = aligned_alloc(MADI_LINE, (size_t)CHUNK * MADI_LINE); /* for good: see thread.h */
        if (!chunk)
            return NULL;
        for (int i = CHUNK - 1; i >= 0; i--) {
            thread = (struct marcel_thread *)(void *)(chunk + (size_t)i * MADI_LINE);
            atomic_init(&thread->state, MADI_GONE);
            thread->traits = NULL;
            thread->link = (uintptr_t)free_records;
            free_records = thread;
        }
    }
    free_records = (struct marcel_thread *)thread->link;
    return thread;
}

static void record_return(struct marcel_thread *thread)
{
    thread->link = (uintptr_t)free_records;
    free_records = thread;
}

struct marcel_thread *madi_record_more(madi_worker_t *worker)
{
    struct marcel_thread *thread, *more;
    madi_static_mutex_lock(&lock);
    thread = record_take();
    for (int i = 0; worker && thread && i < BATCH && (more = record_take()); i++) {
        more->link = (uintptr_t)worker->records;
        worker->records = more;
        worker->n_records++;
    }
    madi_static_mutex_unlock(&lock);
    return thread;
}

void madi_record_less(madi_worker_t *worker, struct marcel_thread *thread)
{
    free(thread->traits);
    thread->traits = NULL;
    madi_static_mutex_lock(&lock);
    record_return(thread);
    for (int i = 0; worker && worker->n_records >= MADI_RECORDS_KEPT / 2 && i < BATCH; i++) {
        struct marcel_thread *more = worker->records;
        worker->records = (struct marcel_thread *)more->link;
        worker->n_records--;
        record_return(more);
    }
    madi_static_mutex_unlock(&lock);
}
