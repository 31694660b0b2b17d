/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of marcel.h, on one worker and from plain pthreads: threads [CASE...]. */
#include "threads.h"

static const test_case_t cases[] = {
    {"self", test_self},
    {"join", test_join},
    {"join_each_other", test_join_each_other},
    {"tree", test_tree},
    {"detach", test_detach},
    {"priority", test_priority},
    {"fair", test_fair},
    {"yield_to", test_yield_to},
    {"busy", test_busy},
    {"fair_busy", test_fair_busy},
    {"priority_seeds", test_priority_seeds},
    {"attributes", test_attributes},
    {"stack_size", test_stack_size},
    {"names", test_names},
    {"keepfp", test_keepfp},
    {"state", test_state},
    {"keys", test_keys},
    {"once", test_once},
    {"mutex", test_mutex},
    {"mutex_types", test_mutex_types},
    {"mutex_fair", test_mutex_fair},
    {"cond", test_cond},
    {"broadcast", test_broadcast},
    {"sem", test_sem},
    {"deadline", test_deadline},
    {"deadline_race", test_deadline_race},
    {"sleep", test_sleep},
    {"many", test_many},
    {"overflow", test_overflow},
    {"restart", test_restart},
    {"first_ends", test_first_ends},
    {"first_killed", test_first_killed},
    {"forks", test_forks},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    setenv("MAD_WORKERS", "1", 1);
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_soon);
}
