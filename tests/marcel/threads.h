/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of threads, by file. */
#ifndef MARCEL_THREADS_H
#define MARCEL_THREADS_H

#include "support.h"

/* threads_create.c */
void test_join_returns_the_result_once(void);
void test_join_of_each_other_is_an_error(void);
void test_tree_of_threads_adds_up(void);
void test_detached_threads_end_by_themselves(void);
void test_library_with_20000_threads_cannot_end(void);
void test_library_starts_again(void);

/* threads_order.c */
void test_higher_priority_runs_first(void);
void test_seeds_run_by_their_priority(void);
void test_yields_let_all_others_run(void);
void test_yield_to_runs_the_named_thread(void);
void test_event_is_seen_between_long_turns(void);
void test_all_queues_get_on_between_long_turns(void);

/* threads_attr.c */
void test_stack_has_the_size_asked_for(void);
void test_thread_keeps_its_name(void);
void test_attributes_keep_legal_values_only(void);
void test_keepfp_keeps_the_rounding_mode(void);
void test_self_identifies_its_thread(void);

/* threads_process.c */
void test_process_ends_with_its_last_thread(void);
void test_process_lasts_while_a_thread_waits(void);
void test_child_of_fork_has_plain_threads_only(void);

/* threads_state.c */
void test_state_is_kept_as_documented(void);

/* threads_keys.c */
void test_key_values_are_destroyed_at_the_end(void);
void test_once_runs_once(void);

/* threads_locks.c */
void test_mutex_excludes_all_kinds_of_threads(void);
void test_mutex_types_behave_as_named(void);
void test_mutex_held_mostly_is_shared(void);
void test_cond_loses_no_item(void);
void test_broadcast_wakes_all(void);

/* threads_time.c */
void test_sem_counts_posts(void);
void test_wait_ends_at_its_deadline(void);
void test_post_at_the_deadline_counts_once(void);
void test_sleepers_wake_in_order(void);

/* threads_overflow.c */
void test_overflow_is_reported(void);

#endif
