/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations for the cases of locks, by file. */
#ifndef MARCEL_LOCKS_H
#define MARCEL_LOCKS_H

#include "support.h"

/* Either kind of thread. */
typedef struct any {
    bool plain;
    marcel_t thread;
    pthread_t pthread;
    void *(*run)(void *);
    void *arg, *result;
    marcel_sem_t known; /* plain: thread is set */
    marcel_sem_t gone;  /* plain: it may end */
} any_t;

void any_start(any_t *any, bool plain, void *(*run)(void *), void *arg);
void *any_end(any_t *any);
/* Run it as the main thread, in a user-level thread, and in a plain pthread. */
void everywhere(void *(*run)(void *));
/* Others run, of this worker and of others, and mostly come to where they wait.  No event says so: either order is right. */
void pause_ms(long ms);
void yield_some(void);
/* A thread: it waits for the completion, and gives it back. */
void *wait_done(void *completion);

/* locks_deadlines.c */
void test_deadlines(void);
void test_in_time(void);

/* locks_rwlock.c */
void test_rwlock(void);
void test_rwlock_errors(void);
void test_rwlock_starvation(void);
void test_rwlock_late_writer(void);

/* locks_barrier.c */
void test_barrier(void);
void test_barrier_late(void);
void test_completion(void);

/* locks_cancel.c */
void test_cancel(void);
void test_cancel_in_place(void);
void test_cancel_off(void);
void test_once_left(void);

#endif
