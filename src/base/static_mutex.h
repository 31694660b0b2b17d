/* SPDX-License-Identifier: BSD-3-Clause */
/* A mutex that is free in the child of a fork.  A plain mutex that another thread held at the fork stays locked in the
 * child for ever, because its holder does not exist there.
 *
 * Use this mutex for static data: the child has what the holder left, so every change must leave data that a child can
 * use.  A mutex of this kind is never destroyed. */
#ifndef MADI_STATIC_MUTEX_H
#define MADI_STATIC_MUTEX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct madi_static_mutex {
    pthread_mutex_t mutex;
    atomic_bool listed;             /* in the list of mutexes that a fork resets */
    struct madi_static_mutex *next; /* in that list */
} madi_static_mutex_t;

/* the value of an unlocked mutex; zeros are one too */
#define MADI_STATIC_MUTEX \
    { \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

void madi_static_mutex_lock(madi_static_mutex_t *mutex);
void madi_static_mutex_unlock(madi_static_mutex_t *mutex);

#endif
