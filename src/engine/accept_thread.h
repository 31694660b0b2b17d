/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves incoming connections while the program computes: a thread of the library's own sleeps on the listening
 * descriptors.  A thread inside the library sees a connection as well, and sooner.  So the accept thread, once woken,
 * waits for a moment before it looks whether the connection is still pending.  It costs nothing while no connection
 * comes. */
#ifndef MADI_ACCEPT_THREAD_H
#define MADI_ACCEPT_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct marceli_door {
    int fd; /* readable while somebody stands there */
    /* From that thread; never waits.  True: it did something.  *again: when it shall be called though nobody comes
     * (madi_now), or INT64_MAX. */
    bool (*answer)(void *arg, int64_t *again);
    void *arg;
    int64_t again; /* when it is called first; then the thread's: what answer said */
    _Atomic(bool) open;
    _Atomic(int64_t) call_at; /* INT64_MAX: marceli_door_call was not called since the last look */
    struct marceli_door *next;
} marceli_door_t;

/* The caller owns the door.  Return 0, or an error number: then only threads inside the library serve it. */
int marceli_door_open(marceli_door_t *door);
/* Waits until answer is not being called; after that it is not any more.  Of one that is not open: nothing. */
void marceli_door_close(marceli_door_t *door);

/* Have answer called at that time (madi_now) too, if the door is open.  Any lock; from answer as well. */
void marceli_door_call(marceli_door_t *door, int64_t when);

/* 1: the thread exists. */
int madi_door_runs(void);
void madi_door_forked(void); /* in the child: no door is open */

#endif
