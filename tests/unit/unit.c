/* SPDX-License-Identifier: BSD-3-Clause */
/* Run all suites, or those that are named, and print 'ok' and 'not ok' lines, which tests/run counts.  --list prints the names
 * of the suites. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int err_fd = -1;

void err_keep(void)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    err_fd = dup(fileno(file));
    ck_assert_int_ge(err_fd, 0);
    ck_assert_int_ge(dup2(err_fd, STDERR_FILENO), 0);
    fclose(file);
}

const char *err_text(void)
{
    static char text[16384];
    ssize_t n = pread(err_fd, text, sizeof text - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = 0;
    return text;
}

Suite *suite_of(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 30);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    return suite;
}

#define UNIT_SUITE_ROW(name) {#name, name##_suite},
static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {UNIT_SUITES(UNIT_SUITE_ROW)};
#define N_SUITES (sizeof suites / sizeof *suites)

static bool suite_is_named(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 1;
}

static int suites_list(void)
{
    for (size_t i = 0; i < N_SUITES; i++)
        puts(suites[i].name);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    SRunner *runner;
    int failed, n = 0;
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return suites_list();
    runner = srunner_create(NULL);
    for (size_t i = 0; i < N_SUITES; i++)
        if (suite_is_named(suites[i].name, argc, argv)) {
            srunner_add_suite(runner, suites[i].make());
            n++;
        }
    if (argc > 1 && n != argc - 1)
        return fprintf(stderr, "unit: a suite of that name does not exist (--list)\n"), EXIT_FAILURE;
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
