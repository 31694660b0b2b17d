/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits with deadlines, rwlocks, barriers, completions, cancellation: each by user-level threads, by plain pthreads, and
 * between the two: locks [CASE...]. */
#include "locks.h"

static const test_case_t cases[] = {
    {"passed_deadline_ends_every_wait", test_passed_deadline_ends_every_wait},
    {"free_object_is_taken_after_the_deadline", test_free_object_is_taken_after_the_deadline},
    {"writers_exclude_and_readers_share", test_writers_exclude_and_readers_share},
    {"rwlock_misuse_is_reported", test_rwlock_misuse_is_reported},
    {"readers_do_not_starve_writers", test_readers_do_not_starve_writers},
    {"expired_writer_lets_readers_in", test_expired_writer_lets_readers_in},
    {"barrier_opens_when_all_have_come", test_barrier_opens_when_all_have_come},
    {"barrier_does_not_count_expired_threads", test_barrier_does_not_count_expired_threads},
    {"completion_wakes_all_that_wait", test_completion_wakes_all_that_wait},
    {"cancel_ends_every_wait", test_cancel_ends_every_wait},
    {"join_in_place_can_be_cancelled", test_join_in_place_can_be_cancelled},
    {"cancel_disabled_takes_effect_later", test_cancel_disabled_takes_effect_later},
    {"once_left_by_exit_runs_again", test_once_left_by_exit_runs_again},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_now);
}
