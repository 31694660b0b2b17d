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
