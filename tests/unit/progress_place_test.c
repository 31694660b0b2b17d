/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the processors that the progress thread chooses, on a host of two NUMA nodes with four processors each. */
#include "progress_place_test.h"

#include "engine/engine.h"
#include "engine/leader.h"
#include "engine/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char sysfs[] = "/tmp/mad-place-XXXXXX";

static void node_file(const char *name, const char *text)
{
    char path[100];
    FILE *f;
    snprintf(path, sizeof path, "%s/devices/system/node/%s", sysfs, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* Make the host, and give the process these processors of it, a bit for each. */
static void host_make(unsigned mask)
{
    char command[200];
    ck_assert_ptr_nonnull(mkdtemp(sysfs));
    snprintf(command, sizeof command, "cd %s && mkdir -p devices/system/node/node0 devices/system/node/node1", sysfs);
    ck_assert_int_eq(system(command), 0);
    node_file("online", "0-1");
    node_file("node0/cpulist", "0-3");
    node_file("node1/cpulist", "4-7");
    ck_assert_int_eq(madi_server_probe(), 0); /* which would count this host's processors later */
    CPU_ZERO(&madi_server.cpus);
    for (unsigned i = 0; i < 8; i++)
        if (mask >> i & 1)
            CPU_SET(i, &madi_server.cpus);
    ck_assert(marceli_numa_describe(NULL, sysfs, &madi_server.cpus));
    snprintf(command, sizeof command, "rm -r %s", sysfs);
    ck_assert_int_eq(system(command), 0);
}

/* Return the processors of the thread, a bit for each; *avoided: what the function returns. */
static unsigned chosen(int cpu, int *avoided)
{
    unsigned mask = 0;
    cpu_set_t set;
    *avoided = madi_progress_processors(cpu, &set);
    for (unsigned i = 0; i < 8; i++)
        mask |= (unsigned)CPU_ISSET(i, &set) << i;
    return mask;
}

START_TEST(test_progress_runs_near_the_adapter)
{
    int avoided;
    host_make(0xff);
    ck_assert_uint_eq(chosen(2, &avoided), 0xfb); /* no adapter is near: all but the caller's */
    ck_assert_int_eq(avoided, 3);
    marceli_progress_near(1);
    ck_assert_uint_eq(chosen(2, &avoided), 0xf0);
    ck_assert_int_eq(avoided, 3); /* as long as the caller stays there, nothing has to change */
    ck_assert_uint_eq(chosen(5, &avoided), 0xd0);
    ck_assert_int_eq(avoided, 6);
    ck_assert_uint_eq(chosen(-1, &avoided), 0xff);
    ck_assert_int_eq(avoided, 0);
    marceli_progress_near(MARCELI_NUMA_UNKNOWN);
    ck_assert_uint_eq(chosen(5, &avoided), 0xdf);
}
END_TEST

START_TEST(test_progress_keeps_to_the_processors_of_the_process)
{
    int avoided;
    host_make(0x23); /* one processor near the adapter, two others */
    marceli_progress_near(1);
    ck_assert_uint_eq(chosen(0, &avoided), 0x20);
    ck_assert_uint_eq(chosen(5, &avoided), 0x03); /* the only near one is the caller's */
    ck_assert_int_eq(avoided, 6);
    marceli_progress_near(7); /* no such node */
    ck_assert_uint_eq(chosen(0, &avoided), 0x22);
}
END_TEST

START_TEST(test_progress_without_near_processors)
{
    int avoided;
    host_make(0x0f);
    marceli_progress_near(1);
    ck_assert_uint_eq(chosen(0, &avoided), 0x0e);
    ck_assert_uint_eq(chosen(6, &avoided), 0x0f); /* the caller has left the processors of the process */
    ck_assert_int_eq(avoided, 0);
}
END_TEST

void progress_place_tests(TCase *tcase)
{
    tcase_add_test(tcase, test_progress_runs_near_the_adapter);
    tcase_add_test(tcase, test_progress_keeps_to_the_processors_of_the_process);
    tcase_add_test(tcase, test_progress_without_near_processors);
}
