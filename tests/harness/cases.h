/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of named cases: PROGRAM [CASE...].  It runs those that are named, all when none is, in the order of its table,
 * and prints a line "ok CASE" or "not ok CASE" for each; what a check found goes to stderr (test.h).
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
    const char *name; /* NULL: behind the last */
    void (*run)(void);
} test_case_t;

typedef struct test_suite {
    const test_case_t *cases;
    unsigned seconds;     /* each case's deadline */
    const char *suffix;   /* of the names that are printed; NULL: none */
    void (*before)(void); /* each case, within its deadline; NULL: nothing */
} test_suite_t;

/* A name in argv that is no case's is a failure. */
void test_run(const test_suite_t *suite, int argc, char **argv);
/* The program's last step, within a minute, and then its exit status. */
int test_over(void (*end)(void));

#endif
