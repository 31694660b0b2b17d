/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits with deadlines, rwlocks, barriers, completions, cancellation: each by user-level threads, by plain pthreads, and
 * between both: locks [CASE...]. */
#include "locks.h"

static const test_case_t cases[] = {
    {"deadlines", test_deadlines},
    {"in_time", test_in_time},
    {"rwlock", test_rwlock},
    {"rwlock_errors", test_rwlock_errors},
    {"rwlock_starvation", test_rwlock_starvation},
    {"rwlock_late_writer", test_rwlock_late_writer},
    {"barrier", test_barrier},
    {"barrier_late", test_barrier_late},
    {"completion", test_completion},
    {"cancel", test_cancel},
    {"cancel_in_place", test_cancel_in_place},
    {"cancel_off", test_cancel_off},
    {"once_left", test_once_left},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
    return test_over(end_now);
}
