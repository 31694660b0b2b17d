/* SPDX-License-Identifier: BSD-3-Clause */
/* Several workers: workers [CASE...].  WORKERS: number of workers (4); ROUNDS: number of rounds of the random cases (1). */
#include "workers.h"

int rounds;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static const test_case_t cases[] = {
    {"placed_thread_stays", test_placed_thread_stays},
    {"seeds_of_a_busy_worker_are_stolen", test_seeds_of_a_busy_worker_are_stolen},
    {"thread_from_outside_avoids_busy_workers", test_thread_from_outside_avoids_busy_workers},
    {"movable_threads_leave_a_busy_worker", test_movable_threads_leave_a_busy_worker},
    {"yielding_movable_threads_part", test_yielding_movable_threads_part},
    {"movable_thread_behind_yields_is_found", test_movable_thread_behind_yields_is_found},
    {"deadline_is_seen_by_another_worker", test_deadline_is_seen_by_another_worker},
    {"bias_taken_away_loses_no_post", test_bias_taken_away_loses_no_post},
    {"bias_survives_cancellation", test_bias_survives_cancellation},
    {"bias_ends_in_a_child", test_bias_ends_in_a_child},
    {"ring_of_all_kinds_of_threads_turns", test_ring_of_all_kinds_of_threads_turns},
    {"cond_loses_no_item", test_cond_loses_no_item},
    {"tree_on_all_workers_adds_up", test_tree_on_all_workers_adds_up},
    {"random_graphs_of_threads_end", test_random_graphs_of_threads_end},
    {"descriptors_are_served_on_all_workers", test_descriptors_are_served_on_all_workers},
    {"computing_thread_delays_no_descriptor", test_computing_thread_delays_no_descriptor},
    {"workers_start_again", test_workers_start_again},
    {"workers_without_work_sleep", test_workers_without_work_sleep},
    {NULL, NULL},
};

static void start_all(void)
{
    start(n_workers);
}

int main(int argc, char **argv)
{
    n_workers = number("WORKERS", 4);
    rounds = number("ROUNDS", 1);
    test_run(&(test_suite_t){.cases = cases, .seconds = 120, .before = start_all}, argc, argv);
    return test_over(end_soon);
}
