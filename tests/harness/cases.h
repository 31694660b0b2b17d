/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of named cases: PROGRAM [CASE...].  The program runs the given cases (all if none is given) in the order of
 * its table, and prints "ok CASE" or "not ok CASE" for each.  Failed checks are reported on stderr (test.h).
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const test_case_t cases[] = {{"join", test_join}, {"tree", test_tree}, {NULL, NULL}};
 *         test_run(&(test_suite_t){.cases = cases, .seconds = 60}, argc, argv);
 *         return test_over(end);
 *     } */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "test.h"

typedef struct test_case {
    const char *name; /* name of the case; NULL ends the table */
    void (*run)(void);
} test_case_t;

typedef struct test_suite {
    const test_case_t *cases;
    unsigned seconds;     /* time limit of each case, in seconds */
    const char *suffix;   /* suffix of the printed names; NULL: none */
    void (*before)(void); /* called before each case, within its deadline; may be NULL */
} test_suite_t;

/* Run the cases.  A name in argv that is not a case counts as a failure. */
void test_run(const test_suite_t *suite, int argc, char **argv);
/* Run the program's last step, with a deadline of a minute, and return the exit status. */
int test_over(void (*end)(void));

#endif
