/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/knob.c.  Each test runs in its own process, and so has its own environment. */
#include "unit.h"

#include "base/base.h"
#include "base/knob.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void environment_clear(void)
{
    for (int i = 0; i < MADI_KNOB_COUNT; i++)
        unsetenv(madi_knobs[i].name);
    err_keep();
}

/* The table is complete, and its defaults are valid. */
START_TEST(knob_table_has_names_and_defaults)
{
    environment_clear();
    for (int i = 0; i < MADI_KNOB_COUNT; i++) {
        ck_assert_ptr_nonnull(madi_knobs[i].name);
        ck_assert_int_eq(strncmp(madi_knobs[i].name, "MAD_", 4), 0);
        ck_assert_uint_lt(strlen(madi_knobs[i].name), 60);
        ck_assert_ptr_nonnull(madi_knobs[i].help);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(madi_knobs[i].name, madi_knobs[j].name);
    }
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    ck_assert_str_eq(err_text(), "");
    for (int i = 0; i < MADI_KNOB_COUNT; i++)
        ck_assert_ptr_null(madi_knob_origin((madi_knob_id_t)i));
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_CREDIT_FLOOR), 64 * 1024);
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT), INT64_C(10000000000)); /* nanoseconds */
}
END_TEST

static mad_status_t load_with(const char *name, const char *value)
{
    setenv(name, value, 1);
    return madi_knobs_load();
}

START_TEST(knob_units_are_read)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"65536", 65536}, {"64K", 65536},     {"64k", 65536},    {"1M", 1048576},
                {"2m", 2097152},  {"1G", 1073741824}, {"0x10000", 65536}};
    environment_clear();
    for (size_t i = 0; i < MADI_COUNT(good); i++) {
        ck_assert_int_eq(load_with("MAD_CREDIT_FLOOR", good[i].text), MAD_OK);
        ck_assert_int_eq(madi_knob_int(MADI_KNOB_CREDIT_FLOOR), good[i].bytes);
        ck_assert_str_eq(madi_knob_origin(MADI_KNOB_CREDIT_FLOOR), good[i].text);
    }
    ck_assert_int_eq(load_with("MAD_CONNECT_TIMEOUT", "250"), MAD_OK);
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_CONNECT_TIMEOUT), 250000000);
    ck_assert_str_eq(err_text(), "");
}
END_TEST

START_TEST(knob_bad_number_is_refused)
{
    static const char *const bad[] = {
        "", "x", "12x", "64KB", "K", "-1", "1", "99999999999999999999", "9999999999G", "17179869184G", "8589934592G", "1 2"};
    const madi_knob_t *knob = &madi_knobs[MADI_KNOB_CREDIT_FLOOR];
    char want[200];
    environment_clear();
    for (size_t i = 0; i < MADI_COUNT(bad); i++)
        ck_assert_msg(load_with("MAD_CREDIT_FLOOR", bad[i]) == MAD_ERR_CONFIG, "'%s' was accepted", bad[i]);
    /* the message names the knob, the value, the valid values, and the default */
    snprintf(want, sizeof want, "%s='64KB' is not valid: give a number from %lld to %lld (default '%s')", knob->name,
             (long long)knob->min, (long long)knob->max, knob->def);
    ck_assert_msg(strstr(err_text(), want) != NULL, "no '%s' in: %s", want, err_text());
}
END_TEST

START_TEST(knob_boolean_is_read)
{
    static const char *const yes[] = {"yes", "1", "on", "TRUE", "Yes"}, *const no[] = {"no", "0", "OFF", "false"};
    environment_clear();
    for (size_t i = 0; i < MADI_COUNT(yes); i++) {
        ck_assert_int_eq(load_with("MAD_CHECK_SEND_MODE", yes[i]), MAD_OK);
        ck_assert_int_eq(madi_knob_int(MADI_KNOB_CHECK_SEND_MODE), 1);
    }
    for (size_t i = 0; i < MADI_COUNT(no); i++) {
        ck_assert_int_eq(load_with("MAD_CHECK_SEND_MODE", no[i]), MAD_OK);
        ck_assert_int_eq(madi_knob_int(MADI_KNOB_CHECK_SEND_MODE), 0);
    }
    ck_assert_int_eq(load_with("MAD_CHECK_SEND_MODE", "perhaps"), MAD_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(err_text(), "give yes or no"));
}
END_TEST

/* For every knob, a name with one letter changed, left out, or doubled gives the right suggestion. */
START_TEST(knob_misspelt_is_reported)
{
    environment_clear();
    for (int i = 0; i < MADI_KNOB_COUNT; i++) {
        const char *name = madi_knobs[i].name;
        size_t len = strlen(name), at = 4 + (len - 4) / 2;
        char wrong[3][80], want[300];
        snprintf(wrong[0], sizeof wrong[0], "%.*sQ%s", (int)at, name, name + at + 1);
        snprintf(wrong[1], sizeof wrong[1], "%.*s%s", (int)at, name, name + at + 1);
        snprintf(wrong[2], sizeof wrong[2], "%.*s%s", (int)at + 1, name, name + at);
        for (int k = 0; k < 3; k++) {
            setenv(wrong[k], "1", 1);
            ck_assert_int_eq(madi_knobs_load(), MAD_OK); /* the result is a warning, and not an error */
            snprintf(want, sizeof want, "unknown variable %s: did you mean %s?", wrong[k], name);
            ck_assert_msg(strstr(err_text(), want) != NULL, "no '%s' in: %s", want, err_text());
            unsetenv(wrong[k]);
            ck_assert_int_ge(ftruncate(2, 0), 0);
            lseek(2, 0, SEEK_SET);
        }
    }
}
END_TEST

START_TEST(foreign_variable_is_not_reported)
{
    environment_clear();
    setenv("MAD_BOOT_FD", "5", 1); /* a variable that the launcher sets */
    setenv("MADNESS", "1", 1);     /* a variable of another program */
    setenv("MAD_TEST_MPICH", "1", 1);
    setenv("MAD_", "1", 1);
    setenv("MAD_THIS_IS_A_NAME_MUCH_LONGER_THAN_ANY_KNOB_AND_LONGER_THAN_THE_TABLE_OF_DISTANCES", "1", 1);
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    ck_assert_ptr_null(strstr(err_text(), "MAD_BOOT_FD"));
    ck_assert_ptr_null(strstr(err_text(), "MADNESS"));
    ck_assert_ptr_null(strstr(err_text(), "MAD_TEST_MPICH"));
    ck_assert_ptr_nonnull(strstr(err_text(), "unknown variable MAD_:"));
}
END_TEST

START_TEST(program_sets_what_the_environment_does_not)
{
    environment_clear();
    ck_assert_int_eq(madi_knob_set("MAD_CREDIT_FLOOR", "1M"), MAD_OK);
    ck_assert_int_eq(madi_knob_set("MAD_CREDIT_FLOOR", "1"), MAD_ERR_CONFIG); /* the value that was set before stays */
    ck_assert_int_eq(madi_knob_set("MAD_TRACE", "here"), MAD_OK);
    ck_assert_int_eq(madi_knob_set("MAD_SPIN", "5"), MAD_OK);
    ck_assert_int_eq(madi_knob_set("MAD_SPIN", NULL), MAD_OK);
    ck_assert_int_eq(load_with("MAD_TRACE", "there"), MAD_OK);
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_CREDIT_FLOOR), 1 << 20);
    ck_assert_str_eq(madi_knob_origin(MADI_KNOB_CREDIT_FLOOR), "1M");
    ck_assert_str_eq(madi_knob_text(MADI_KNOB_TRACE), "there");
    ck_assert_ptr_null(madi_knob_origin(MADI_KNOB_SPIN));
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_SPIN), -1);
}
END_TEST

START_TEST(program_sets_nothing_once_loaded)
{
    environment_clear();
    ck_assert_int_eq(load_with("MAD_SPIN", "soon"), MAD_ERR_CONFIG); /* MAD_SPIN is not loaded; all other knobs are */
    unsetenv("MAD_SPIN");
    ck_assert_int_eq(madi_knob_set("MAD_SPIN", "5"), MAD_OK);
    ck_assert_int_eq(madi_knob_set("MAD_TRACE", "here"), MAD_ERR_BUSY);
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    ck_assert_int_eq(madi_knob_int(MADI_KNOB_SPIN), 5);
    ck_assert_int_eq(madi_knob_set("MAD_SPIN", "6"), MAD_ERR_BUSY);
    ck_assert_int_eq(madi_knob_set("MAD_SPIN", NULL), MAD_ERR_BUSY);
    ck_assert_str_eq(madi_knob_text(MADI_KNOB_TRACE), "");
}
END_TEST

START_TEST(log_level_is_read)
{
    environment_clear();
    ck_assert_int_eq(load_with("MAD_LOG", "Debug"), MAD_OK);
    ck_assert_str_eq(err_text(), "");
    ck_assert_int_eq(load_with("MAD_LOG", "loud"), MAD_OK);
    ck_assert_ptr_nonnull(strstr(err_text(), "MAD_LOG='loud' is not valid: give error, warning, info, or debug"));
}
END_TEST

Suite *knob_suite(void)
{
    const TTest *tests[] = {
        knob_table_has_names_and_defaults,
        knob_units_are_read,
        knob_bad_number_is_refused,
        knob_boolean_is_read,
        knob_misspelt_is_reported,
        foreign_variable_is_not_reported,
        program_sets_what_the_environment_does_not,
        program_sets_nothing_once_loaded,
        log_level_is_read,
    };
    return SUITE_OF("knob", tests);
}
