/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of marcel.h, on one worker and from plain pthreads: threads [CASE...]. */
#include "threads.h"

static const test_case_t cases[] = {
    {"self_identifies_its_thread", test_self_identifies_its_thread},
    {"join_returns_the_result_once", test_join_returns_the_result_once},
    {"join_of_each_other_is_an_error", test_join_of_each_other_is_an_error},
    {"tree_of_threads_adds_up", test_tree_of_threads_adds_up},
    {"detached_threads_end_by_themselves", test_detached_threads_end_by_themselves},
    {"higher_priority_runs_first", test_higher_priority_runs_first},
    {"yields_let_all_others_run", test_yields_let_all_others_run},
    {"yield_to_runs_the_named_thread", test_yield_to_runs_the_named_thread},
    {"event_is_seen_between_long_turns", test_event_is_seen_between_long_turns},
    {"all_queues_get_on_between_long_turns", test_all_queues_get_on_between_long_turns},
    {"seeds_run_by_their_priority", test_seeds_run_by_their_priority},
    {"attributes_keep_legal_values_only", test_attributes_keep_legal_values_only},
    {"stack_has_the_size_asked_for", test_stack_has_the_size_asked_for},
    {"thread_keeps_its_name", test_thread_keeps_its_name},
    {"keepfp_keeps_the_rounding_mode", test_keepfp_keeps_the_rounding_mode},
    {"state_is_kept_as_documented", test_state_is_kept_as_documented},
    {"key_values_are_destroyed_at_the_end", test_key_values_are_destroyed_at_the_end},
    {"once_runs_once", test_once_runs_once},
    {"mutex_excludes_all_kinds_of_threads", test_mutex_excludes_all_kinds_of_threads},
    {"mutex_types_behave_as_named", test_mutex_types_behave_as_named},
    {"mutex_held_mostly_is_shared", test_mutex_held_mostly_is_shared},
    {"cond_loses_no_item", test_cond_loses_no_item},
    {"broadcast_wakes_all", test_broadcast_wakes_all},
    {"sem_counts_posts", test_sem_counts_posts},
    {"wait_ends_at_its_deadline", test_wait_ends_at_its_deadline},
    {"post_at_the_deadline_counts_once", test_post_at_the_deadline_counts_once},
    {"sleepers_wake_in_order", test_sleepers_wake_in_order},
    {"library_with_20000_threads_cannot_end", test_library_with_20000_threads_cannot_end},
    {"overflow_is_reported", test_overflow_is_reported},
    {"library_starts_again", test_library_starts_again},
    {"process_ends_with_its_last_thread", test_process_ends_with_its_last_thread},
    {"process_lasts_while_a_thread_waits", test_process_lasts_while_a_thread_waits},
    {"child_of_fork_has_plain_threads_only", test_child_of_fork_has_plain_threads_only},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    setenv("MAD_WORKERS", "1", 1);
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_soon);
}
