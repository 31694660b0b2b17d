/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of topology/range.c and topology/value.c. */
#include "unit.h"

#include "topology/range.h"
#include "topology/value.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static char joined[4096];
static const char *names[64];
static int count;

static int join(void *arg, const char *name)
{
    static char kept[64][MADI_RANGE_NAME_MAX];
    (void)arg;
    snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", count ? " " : "", name);
    if (count < 64)
        names[count] = strcpy(kept[count], name);
    count++;
    return 0;
}

static int expand(const char *text, char *why)
{
    joined[0] = why[0] = 0;
    count = 0;
    return madi_range_expand(text, join, NULL, why, 200);
}

static const char *name_at(const void *arg, int i)
{
    (void)arg;
    return names[i];
}

/* Expand each text, and fold the result back. */
START_TEST(range_expands_and_folds_back)
{
    static const struct {
        const char *text, *want, *folded;
    } good[] = {
        {"a", "a", "a"},
        {"a, b ,c", "a b c", "a, b, c"},
        {"node[0-3]", "node0 node1 node2 node3", "node[0-3]"},
        {"a[1,3-5]b", "a1b a3b a4b a5b", "a[1,3-5]b"},
        {"n[08-11]", "n08 n09 n10 n11", "n[08-11]"},
        {"n[8-11]", "n8 n9 n10 n11", "n[8-11]"},
        {"n[7,008,9]", "n7 n008 n9", "n[7,008,9]"},
        {"n[8,09]", "n8 n09", "n[8,09]"},
        {"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2", "r1n[1-2], r2n[1-2]"},
        {"r[1-2]n[5]x, gate", "r1n5x r2n5x gate", "r1n5x, r2n5x, gate"},
        {"10.0.0.[254-255]", "10.0.0.254 10.0.0.255", "10.0.0.[254-255]"},
        {"[1-2]", "1 2", "[1-2]"},
        {"n5,n4,n3", "n5 n4 n3", "n[5,4,3]"},
        {"n1,n1", "n1 n1", "n[1,1]"},
    };
    char why[200], folded[200];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(expand(good[i].text, why) == 0, "%s: %s", good[i].text, why);
        ck_assert_str_eq(joined, good[i].want);
        madi_range_fold(name_at, NULL, count, folded, sizeof folded);
        ck_assert_str_eq(folded, good[i].folded);
    }
}
END_TEST

START_TEST(range_wrong_is_refused)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "'' has nothing where a name should be: give for example \"a, node[0-31]\""},
        {"a,,b", "'a,,b' has nothing where a name should be: give for example \"a, node[0-31]\""},
        {"a,", "'a,' has nothing where a name should be: give for example \"a, node[0-31]\""},
        {"n[1-3", "'[1-3' has no ']': ranges are written node[0-31] or a[1,3-5]b"},
        {"n[]", "'' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b"},
        {"n[1-]", "'1-' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b"},
        {"n[a-b]", "'a-b' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b"},
        {"n[1-2-3]", "'1-2-3' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b"},
        {"n[1,x]", "'x' is no range of numbers: ranges are written node[0-31] or a[1,3-5]b"},
        {"n[3-1]", "'3-1' is no range: its first number is the larger one"},
        {"n[99999999999999999999]", "'99999999999999999999' is no range: its numbers have at most 9 digits"},
        {"n[0-4000000000]", "'0-4000000000' is no range: its numbers have at most 9 digits"},
        {"n[1000000000-1]", "'1000000000-1' is no range: its numbers have at most 9 digits"},
        {"n[0-100000]", "there are more than 100000 names"},
        {"n[0-999][0-999]", "there are more than 100000 names"},
        {"[1][1][1][1][1][1][1][1][1]", "there are more than 8 ranges in one name"},
    };
    char why[200], text[400];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(expand(bad[i].text, why) == -1, "'%s' was accepted as %s", bad[i].text, joined);
        ck_assert_str_eq(why, bad[i].why);
    }
    memset(text, 'a', sizeof text);
    strcpy(text + 300, "[1]");
    ck_assert_int_eq(expand(text, why), -1);
    ck_assert_str_eq(why, "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...' is too long for a name");
}
END_TEST

static int stop(void *arg, const char *name)
{
    (void)name;
    return ++*(int *)arg == 3 ? 7 : 0;
}

START_TEST(range_expansion_stops_on_request)
{
    int taken = 0;
    char why[200];
    ck_assert_int_eq(madi_range_expand("n[0-9],m", stop, &taken, why, sizeof why), 7);
    ck_assert_int_eq(taken, 3);
}
END_TEST

/* A list that does not fit is truncated after a whole entry, and ends in dots, for every buffer size. */
START_TEST(range_fold_is_cut_at_an_entry)
{
    char why[200], text[64];
    ck_assert_int_eq(expand("alpha[1-3], beta, gamma[0,7]", why), 0);
    for (size_t len = 8; len < sizeof text; len++) {
        madi_range_fold(name_at, NULL, count, text, len);
        ck_assert_uint_lt(strlen(text), len);
        ck_assert_msg(!strcmp(text, "alpha[1-3], beta, gamma[0,7]") || !strcmp(text, "alpha[1-3], beta, ...") ||
                          !strcmp(text, "alpha[1-3], ...") || !strcmp(text, "..."),
                      "%zu: '%s'", len, text);
    }
    ck_assert_str_eq(text, "alpha[1-3], beta, gamma[0,7]");
}
END_TEST

START_TEST(value_with_unit_is_read)
{
    static const struct {
        bool (*parse)(const char *, int64_t *);
        const char *text;
        int64_t want;
    } good[] = {
        {madi_value_time, "1.5us", 1500000},
        {madi_value_time, "1 ns", 1000},
        {madi_value_time, "20ms", INT64_C(20000000000)},
        {madi_value_time, "0.000001s", 1000000},
        {madi_value_bandwidth, "10Gbit/s", 1250000000},
        {madi_value_bandwidth, "1.2 GB/s", 1200000000},
        {madi_value_bandwidth, "1MiB/s", 1048576},
        {madi_value_bandwidth, "8000bit/s", 1000},
        {madi_value_bandwidth, "100kB/s", 100000},
        {madi_value_bytes, "8", 8},
        {madi_value_bytes, "64KiB", 65536},
        {madi_value_bytes, "1MB", 1000000},
    };
    static const struct {
        bool (*parse)(const char *, int64_t *);
        const char *text;
    } bad[] = {
        {madi_value_time, "1"},
        {madi_value_time, "us"},
        {madi_value_time, "1.us"},
        {madi_value_time, "-1us"},
        {madi_value_time, "1,5us"},
        {madi_value_time, "1us "},
        {madi_value_time, "2000s"},
        {madi_value_time, "0ns"},
        {madi_value_time, ""},
        {madi_value_bandwidth, "10Gb/s"},
        {madi_value_bandwidth, "10G"},
        {madi_value_bandwidth, "1B/s"},
        {madi_value_bandwidth, "2PB/s"},
        {madi_value_bandwidth, "1e9B/s"},
        {madi_value_bytes, "9TiB"},
        {madi_value_bytes, "1bit"},
        {madi_value_time, "1111111111111111111111111111us"},
    };
    int64_t n;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(good[i].parse(good[i].text, &n), "%s", good[i].text);
        ck_assert_msg(n == good[i].want, "%s: %" PRId64, good[i].text, n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!bad[i].parse(bad[i].text, &n), "'%s' was accepted", bad[i].text);
}
END_TEST

START_TEST(value_is_shown_with_unit)
{
    char text[MADI_VALUE_MAX];
    ck_assert_str_eq(madi_value_time_text(1500000, text), "1.5us");
    ck_assert_str_eq(madi_value_time_text(80000, text), "80ns");
    ck_assert_str_eq(madi_value_time_text(INT64_C(12345678901), text), "12.35ms");
    ck_assert_str_eq(madi_value_time_text(INT64_C(3000000000000), text), "3s");
    ck_assert_str_eq(madi_value_bandwidth_text(1250000000, text), "10Gbit/s");
    ck_assert_str_eq(madi_value_bandwidth_text(125000, text), "1Mbit/s");
    ck_assert_str_eq(madi_value_bytes_text(65536, text), "64KiB");
    ck_assert_str_eq(madi_value_bytes_text(1500, text), "1.465KiB");
}
END_TEST

Suite *range_suite(void)
{
    const TTest *tests[] = {
        range_expands_and_folds_back,  range_wrong_is_refused,  range_expansion_stops_on_request,
        range_fold_is_cut_at_an_entry, value_with_unit_is_read, value_is_shown_with_unit,
    };
    return SUITE_OF("range", tests);
}
