/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of base/costs.c: the file of a host's costs, and files that are refused. */
#include "unit.h"

#include "base/costs.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const madi_costs_t some = {.copy_ps = 90,
                                  .turn_ns = 130,
                                  .direct_ns = 500,
                                  .direct_ps = 70,
                                  .both_ps = 45,
                                  .pipe_ps = 80,
                                  .tcp_sent_ns = 40000,
                                  .tcp_granted_ns = 50000,
                                  .runs = 3};

static bool is_same(const madi_costs_t *a, const madi_costs_t *b)
{
    return a->copy_ps == b->copy_ps && a->turn_ns == b->turn_ns && a->direct_ns == b->direct_ns &&
           a->direct_ps == b->direct_ps && a->both_ps == b->both_ps && a->pipe_ps == b->pipe_ps &&
           a->tcp_sent_ns == b->tcp_sent_ns && a->tcp_granted_ns == b->tcp_granted_ns && a->runs == b->runs;
}

START_TEST(costs_survive_text)
{
    char text[MADI_COSTS_TEXT_MAX];
    madi_costs_t c = {0}, none = some;
    madi_costs_text(&some, text);
    ck_assert(madi_costs_parse(text, &c));
    ck_assert(is_same(&c, &some));
    none.direct_ns = none.direct_ps = none.both_ps = 0; /* on a host where reading another process's memory is forbidden */
    madi_costs_text(&none, text);
    ck_assert(madi_costs_parse(text, &c));
    ck_assert(is_same(&c, &none));
}
END_TEST

/* Texts that are too short or too long, or have impossible figures, are refused, and the costs stay unchanged. */
START_TEST(costs_of_other_form_are_refused)
{
    static const madi_costs_t odd[] = {{0, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {100001, 1, 1, 1, 1, 1, 1, 1, 1},
                                       {1, 0, 1, 1, 1, 1, 1, 1, 1},
                                       {1, 10000001, 1, 1, 1, 1, 1, 1, 1},
                                       {1, 1, 10000001, 1, 1, 1, 1, 1, 1},
                                       {1, 1, 1, 100001, 1, 1, 1, 1, 1},
                                       {1, 1, 1, 1, 100001, 1, 1, 1, 1},
                                       {1, 1, 1, 1, 1, 0, 1, 1, 1},
                                       {1, 1, 1, 1, 1, 100001, 1, 1, 1},
                                       {1, 1, 1, 1, 1, 1, 10000001, 1, 1},
                                       {1, 1, 1, 1, 1, 1, 1, 10000001, 1},
                                       {1, 1, 1, 1, 1, 1, 1, 1, 0},
                                       {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 1, 1, 1}};
    char text[MADI_COSTS_TEXT_MAX], other[MADI_COSTS_TEXT_MAX + 1];
    madi_costs_t c = some;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        madi_costs_text(&odd[i], text);
        ck_assert(!madi_costs_parse(text, &c));
    }
    madi_costs_text(&some, text);
    for (size_t n = 0; text[n]; n++) {
        snprintf(other, sizeof other, "%.*s", (int)n, text);
        ck_assert(!madi_costs_parse(other, &c));
    }
    snprintf(other, sizeof other, "%s ", text);
    ck_assert(!madi_costs_parse(other, &c));
    memcpy(other, text, sizeof text);
    other[strlen("madeleine costs 4\n")]++; /* the file is of another processor */
    ck_assert(!madi_costs_parse(other, &c));
    ck_assert(is_same(&c, &some));
}
END_TEST

/* Of several measurements the least figure of each kind is kept, and their number. */
START_TEST(costs_are_the_least_of_all)
{
    madi_costs_t slow = {180, 260, 490, 150, 90, 230, 60000, 45000, 1}, none = {90, 130, 0, 0, 0, 80, 0, 0, 1}, c,
                 zero = {0};
    madi_costs_t least = {90, 130, 490, 70, 45, 80, 40000, 45000, 4};
    c = madi_costs_least(&some, &slow);
    ck_assert(is_same(&c, &least));
    c = madi_costs_least(&some, &none); /* reading the other process's memory is no longer permitted */
    ck_assert_uint_eq(c.direct_ns + c.direct_ps + c.both_ps, 0);
    c = madi_costs_least(&none, &slow); /* reading is permitted now */
    ck_assert_uint_eq(c.direct_ns, 490);
    c = madi_costs_least(&zero, &some);
    ck_assert(is_same(&c, &some));
}
END_TEST

static void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

START_TEST(costs_file_of_others_is_refused)
{
    char dir[] = "/tmp/costsXXXXXX", sub[64], path[MADI_COSTS_PATH_MAX], target[64], text[MADI_COSTS_TEXT_MAX];
    madi_costs_t c = {0};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("XDG_CACHE_HOME", dir, 1);
    snprintf(sub, sizeof sub, "%s/madeleine", dir);
    snprintf(target, sizeof target, "%s/target", dir);
    ck_assert(madi_costs_path(NULL, path));
    ck_assert(!strncmp(path, sub, strlen(sub)));
    ck_assert(!madi_costs_load(NULL, &c)); /* the folder does not exist */
    ck_assert_int_eq(mkdir(sub, 0700), 0);
    ck_assert(!madi_costs_load(NULL, &c)); /* the file does not exist */
    madi_costs_text(&some, text);
    write_file(path, text, 0600);
    ck_assert(madi_costs_load(NULL, &c) && is_same(&c, &some));
    ck_assert_int_eq(chmod(path, 0620), 0); /* other users may write the file */
    ck_assert(!madi_costs_load(NULL, &c));
    ck_assert_int_eq(rename(path, target), 0);
    ck_assert_int_eq(chmod(target, 0600), 0);
    ck_assert_int_eq(symlink(target, path), 0); /* the path is a symbolic link */
    ck_assert(!madi_costs_load(NULL, &c));
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0); /* the path is a FIFO, on which the call must not wait */
    ck_assert(!madi_costs_load(NULL, &c));
    unlink(path);
    write_file(path, "", 0600);
    ck_assert(!madi_costs_load(NULL, &c));
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    ck_assert(!madi_costs_path(NULL, path));
    unlink(target);
    setenv("XDG_CACHE_HOME", dir, 1);
    ck_assert(madi_costs_path(NULL, path));
    unlink(path);
    rmdir(sub);
    rmdir(dir);
}
END_TEST

Suite *costs_suite(void)
{
    const TTest *tests[] = {
        costs_survive_text,
        costs_of_other_form_are_refused,
        costs_are_the_least_of_all,
        costs_file_of_others_is_refused,
    };
    return SUITE_OF("costs", tests);
}
