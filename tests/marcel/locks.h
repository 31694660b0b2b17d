/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations for the cases of locks, by file. */
#ifndef MARCEL_LOCKS_H
#define MARCEL_LOCKS_H

#include "support.h"

/* A thread of either kind. */
typedef struct any {
    bool plain;
    marcel_t thread;
    pthread_t pthread;
    void *(*run)(void *);
    void *arg, *result;
    marcel_sem_t known; /* plain: posted when `thread` is set */
    marcel_sem_t gone;  /* plain: posted when the thread may end */
} any_t;

void any_start(any_t *any, bool plain, void *(*run)(void *), void *arg);
void *any_end(any_t *any);
/* Call run in the main thread, in a user-level thread, and in a plain pthread. */
void everywhere(void *(*run)(void *));
/* Let other threads run, of this worker and of others; most of them reach their wait.  No event shows this, and either
 * order is right. */
void pause_ms(long ms);
void yield_some(void);
/* Thread function: wait for the completion, and return it. */
void *wait_done(void *completion);

/* locks_deadlines.c */
void test_passed_deadline_ends_every_wait(void);
void test_free_object_is_taken_after_the_deadline(void);

/* locks_rwlock.c */
void test_writers_exclude_and_readers_share(void);
void test_rwlock_misuse_is_reported(void);
void test_readers_do_not_starve_writers(void);
void test_expired_writer_lets_readers_in(void);

/* locks_barrier.c */
void test_barrier_opens_when_all_have_come(void);
void test_barrier_does_not_count_expired_threads(void);
void test_completion_wakes_all_that_wait(void);

/* locks_cancel.c */
void test_cancel_ends_every_wait(void);
void test_join_in_place_can_be_cancelled(void);
void test_cancel_disabled_takes_effect_later(void);
void test_once_left_by_exit_runs_again(void);

#endif
