/* SPDX-License-Identifier: BSD-3-Clause */
/* Run all suites, and print 'ok' and 'not ok' lines, which tests/run counts. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
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

#define UNIT_SUITE_ADDRESS(name) name##_suite,

int main(void)
{
    Suite *(*const suites[])(void) = {UNIT_SUITES(UNIT_SUITE_ADDRESS)};
    SRunner *runner = srunner_create(NULL);
    int failed;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        srunner_add_suite(runner, suites[i]());
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
