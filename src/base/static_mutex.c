/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/static_mutex.h"

#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects changes of the list */
static _Atomic(madi_static_mutex_t *) all;

/* The list of mutexes is consistent at every moment, even if another thread of the parent was changing it. */
static void mutexes_forked(void)
{
    pthread_mutex_init(&lock, NULL);
    for (madi_static_mutex_t *m = atomic_load_explicit(&all, memory_order_relaxed); m; m = m->next)
        pthread_mutex_init(&m->mutex, NULL);
}

static void mutexes_watch_forks(void)
{
    pthread_atfork(NULL, NULL, mutexes_forked);
}

static void mutex_list(madi_static_mutex_t *mutex)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, mutexes_watch_forks);
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&mutex->listed, memory_order_relaxed)) {
        mutex->next = atomic_load_explicit(&all, memory_order_relaxed);
        atomic_store_explicit(&all, mutex, memory_order_release); /* the list is complete before a child can see it */
        atomic_store_explicit(&mutex->listed, true, memory_order_release); /* pairs with madi_static_mutex_lock */
    }
    pthread_mutex_unlock(&lock);
}

void madi_static_mutex_lock(madi_static_mutex_t *mutex)
{
    if (!atomic_load_explicit(&mutex->listed, memory_order_acquire)) /* a mutex is listed before it is first held */
        mutex_list(mutex);
    pthread_mutex_lock(&mutex->mutex);
}

void madi_static_mutex_unlock(madi_static_mutex_t *mutex)
{
    pthread_mutex_unlock(&mutex->mutex);
}
