/* SPDX-License-Identifier: BSD-3-Clause */
/* Several workers: workers [CASE...].  WORKERS: how many (4); ROUNDS: of the cases that are random (1). */
#include "workers.h"

int rounds;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static const test_case_t cases[] = {
    {"place", test_place},
    {"steal", test_steal},
    {"outside", test_outside},
    {"move", test_move},
    {"yield_moving", test_yield_moving},
    {"hidden", test_hidden},
    {"late_elsewhere", test_late_elsewhere},
    {"bias_taken_away", test_bias_taken_away},
    {"bias_cancelled", test_bias_cancelled},
    {"bias_forked", test_bias_forked},
    {"ring", test_ring},
    {"cond", test_cond},
    {"tree", test_tree},
    {"graph", test_graph},
    {"descriptors", test_descriptors},
    {"hog_and_descriptor", test_hog_and_descriptor},
    {"restart", test_restart},
    {"quiet", test_quiet},
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
