/* SPDX-License-Identifier: BSD-3-Clause */
#define TEST_MAIN
#include "cases.h"

static bool is_case(const test_case_t *cases, const char *name)
{
    while (cases->name && strcmp(cases->name, name))
        cases++;
    return cases->name;
}

static bool asked_for(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

static void run_case(const test_suite_t *suite, const test_case_t *a_case)
{
    char name[64];
    int before = test_failures;
    snprintf(name, sizeof name, "%s%s", a_case->name, suite->suffix ? suite->suffix : "");
    test_begin(name, suite->seconds);
    if (suite->before)
        suite->before();
    a_case->run();
    test_end();
    printf("%s %s\n", test_failures == before ? "ok" : "not ok", name);
    fflush(stdout);
}

void test_run(const test_suite_t *suite, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        CHECK_MSG(is_case(suite->cases, argv[i]), "there is no case %s", argv[i]);
    for (const test_case_t *a_case = suite->cases; a_case->name; a_case++)
        if (asked_for(a_case->name, argc, argv))
            run_case(suite, a_case);
}

int test_over(void (*end)(void))
{
    test_begin("the end", 60);
    end();
    test_end();
    return test_failures ? 1 : 0;
}
