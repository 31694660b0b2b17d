/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of tools/madrun_hosts.c: lists of hosts, host files, and the placement of processes. */
#include "unit.h"

#include "tools/madrun_hosts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static madi_run_hosts_t hosts;
static char why[256];

static int add(const char *list)
{
    return madi_run_hosts_add(&hosts, list, why, sizeof why);
}

/* Return the list as "name:slots name:slots ...". */
static const char *listed(void)
{
    static char text[2048];
    text[0] = 0;
    for (int i = 0; i < hosts.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%d", i ? " " : "", hosts.host[i].name,
                 hosts.host[i].numbered ? hosts.host[i].slots : 0);
    return text;
}

START_TEST(host_list_is_read)
{
    static const struct {
        const char *list, *want;
    } good[] = {
        {"a", "a:0"},
        {"a,b:4", "a:0 b:4"},
        {"a,,b", "a:0 b:0"},
        {"node[1-3]", "node1:0 node2:0 node3:0"},
        {"node[08-11]x:2", "node08x:2 node09x:2 node10x:2 node11x:2"},
        {"n[1,3-4,007]", "n1:0 n3:0 n4:0 n007:0"},
        {"a,a,a:2,b", "a:4 b:0"},
        {"user@host.example.org:3", "user@host.example.org:3"},
        {"fe80::1%eth0,::1", "fe80::1%eth0:0 ::1:0"},
        {"n[1-2],m[1-2]:7", "n1:0 n2:0 m1:7 m2:7"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_msg(add(good[i].list) == 0, "%s: %s", good[i].list, why);
        ck_assert_str_eq(listed(), good[i].want);
        madi_run_hosts_fini(&hosts);
    }
}
END_TEST

START_TEST(host_list_wrong_is_refused)
{
    static const char *const bad[] = {"",
                                      ",,",
                                      "-oProxyCommand=x",
                                      "a b",
                                      "a;b",
                                      "$(x)",
                                      "a:0",
                                      "a:x",
                                      "a:",
                                      "a:1000001",
                                      "n[1-",
                                      "n[1-3",
                                      "n[3-1]",
                                      "n[x]",
                                      "n[1-x]",
                                      "n[-1]",
                                      "n[1-99999999]",
                                      "n[1-2-3]",
                                      "n[1]:x",
                                      "'a'",
                                      "a/b",
                                      "n[99999999999999999999]",
                                      "n[18446744073709551615]",
                                      "n[0-18446744073709551615]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        why[0] = 0;
        ck_assert_msg(add(bad[i]) == -1, "'%s' was accepted as %s", bad[i], listed());
        ck_assert_str_ne(why, "");
        madi_run_hosts_fini(&hosts);
    }
}
END_TEST

/* The slots of a host that is listed again and again do not overflow. */
START_TEST(slots_do_not_overflow)
{
    int result = 0;
    for (int i = 0; i < 3000 && result == 0; i++)
        result = add("a:1000000");
    ck_assert_int_eq(hosts.count, 1);
    ck_assert_int_gt(hosts.host[0].slots, 0);
    madi_run_hosts_fini(&hosts);
}
END_TEST

START_TEST(host_list_of_65536_is_read)
{
    ck_assert_int_eq(add("n[1-65536]"), 0);
    ck_assert_int_eq(hosts.count, 65536);
    ck_assert_int_eq(add("one.more"), -1);
    ck_assert_ptr_nonnull(strstr(why, "more than 65536 hosts"));
    madi_run_hosts_fini(&hosts);
}
END_TEST

static void read_file(const char *text, int result)
{
    char path[] = "/tmp/unit-hosts-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    ck_assert_int_eq(madi_run_hosts_read(&hosts, path, why, sizeof why), result);
    unlink(path);
}

START_TEST(host_file_is_read)
{
    read_file("# all hosts\n\na\nb slots=3   # with room\r\nn[1-2]:2\nlast", 0);
    ck_assert_str_eq(listed(), "a:0 b:3 n1:2 n2:2 last:0");
    madi_run_hosts_fini(&hosts);
    read_file("# none\n", -1);
    ck_assert_ptr_nonnull(strstr(why, "names no host"));
    read_file("a\nb cpus=3\n", -1);
    ck_assert_ptr_nonnull(strstr(why, "line 2: 'cpus=3' is not understood"));
    madi_run_hosts_fini(&hosts);
    ck_assert_int_eq(madi_run_hosts_read(&hosts, "/nowhere/hosts", why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "cannot be read"));
    ck_assert_int_eq(madi_run_hosts_read(&hosts, "/", why, sizeof why), -1); /* a directory can be opened, but not read */
    ck_assert_ptr_nonnull(strstr(why, "cannot be read: Is a directory"));
}
END_TEST

START_TEST(ranks_are_spread_over_hosts)
{
    ck_assert_int_eq(add("a,b,c"), 0);
    ck_assert_int_eq(madi_run_hosts_place(&hosts, 5, why, sizeof why), 0); /* processes are spread evenly */
    ck_assert_int_eq(hosts.host[0].count, 2);
    ck_assert_int_eq(hosts.host[1].first, 2);
    ck_assert_int_eq(hosts.host[2].first, 4);
    ck_assert_int_eq(hosts.host[2].count, 1);
    madi_run_hosts_fini(&hosts);

    ck_assert_int_eq(add("a:2,b,c:4"), 0);
    ck_assert_int_eq(madi_run_hosts_place(&hosts, 3, why, sizeof why), 0); /* host c gets no process */
    ck_assert_int_eq(hosts.count, 2);
    ck_assert_int_eq(hosts.host[1].first, 2);
    madi_run_hosts_fini(&hosts);

    ck_assert_int_eq(add("a:2,b"), 0);
    ck_assert_int_eq(madi_run_hosts_place(&hosts, 4, why, sizeof why), -1);
    ck_assert_ptr_nonnull(strstr(why, "room for 3"));
    madi_run_hosts_fini(&hosts);
}
END_TEST

Suite *madrun_hosts_suite(void)
{
    const TTest *tests[] = {
        host_list_is_read,          host_list_wrong_is_refused, slots_do_not_overflow,
        host_list_of_65536_is_read, host_file_is_read,          ranks_are_spread_over_hosts,
    };
    return SUITE_OF("madrun_hosts", tests);
}
