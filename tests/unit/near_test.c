/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of engine/numa.c and of core/session/near.c: which adapters are near, on hosts that hwloc is given in XML. */
#include "numa_hosts.h"
#include "unit.h"

#include "base/knob.h"
#include "core/core.h"
#include "core/session/session_own.h"
#include "engine/numa.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Hosts ------------------------------------------------------------------------------------------------------ */

/* clang-format off */
static const char two_bare[] = NUMA_HOST("0x3", NUMA_SOCKET("0", "0x1", "") NUMA_SOCKET("1", "0x2", ""), "");
static const char one_socket[] = NUMA_HOST("0x1", NUMA_SOCKET("0", "0x1", NUMA_DEVICE("50", "17", "eth0", "2")), "");
static const char four_sockets[] = NUMA_HOST("0xf",
    NUMA_SOCKET("0", "0x1", NUMA_DEVICE("50", "17", "eth0", "2")) NUMA_SOCKET("1", "0x2", "")
    NUMA_SOCKET("2", "0x4", NUMA_DEVICE("60", "ca", "eth1", "2")) NUMA_SOCKET("3", "0x8", ""),
    "<distances2 type='NUMANode' nbobjs='4' kind='5' name='NUMALatency' indexing='os'><indexes length='8'>0 1 2 3 </indexes>"
    "<u64values length='48'>10 12 32 32 12 10 32 32 32 32 10 12 32 32 12 10 </u64values></distances2>");
/* A card at the root of the tree is near all nodes alike. */
static const char root_card[] = NUMA_HOST("0x3",
    NUMA_SOCKET("0", "0x1", "") NUMA_SOCKET("1", "0x2", "") NUMA_DEVICE("70", "01", "eth0", "2"), "");
/* clang-format on */

/* Describe a host, and a process on the processors of this mask. */
static void host(const char *xml, const char *sysfs, unsigned mask)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned i = 0; i < 8; i++)
        if (mask >> i & 1)
            CPU_SET(i, &set);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    ck_assert(marceli_numa_describe(xml, sysfs, &set));
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------ */

START_TEST(devices_have_nodes)
{
    cpu_set_t cpus;
    host(two_sockets, NULL, 2);
    ck_assert_int_eq(marceli_numa_nodes(), 2);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), 0);
    ck_assert_int_eq(marceli_numa_of_device("eth1"), 1);
    ck_assert_int_eq(marceli_numa_of_device("mlx5_0"), 0);
    ck_assert_int_eq(marceli_numa_of_device("mlx5_1"), 1);
    ck_assert_int_eq(marceli_numa_of_device("0000:cb:00.0"), 1);
    ck_assert_int_eq(marceli_numa_of_device("0000:cc:00.0"), -1);
    ck_assert_int_eq(marceli_numa_of_device("docker0"), -1);
    ck_assert_int_eq(marceli_numa_of_process(), 1);
    ck_assert_int_eq(marceli_numa_distance(1), 10);
    ck_assert_int_eq(marceli_numa_distance(0), 20);
    ck_assert_int_eq(marceli_numa_distance(7), 0);
    ck_assert(marceli_numa_cpus(1, &cpus));
    ck_assert(CPU_COUNT(&cpus) == 1 && CPU_ISSET(1, &cpus));
    ck_assert(!marceli_numa_cpus(-1, &cpus));
    ck_assert_int_eq(marceli_numa_of_memory(two_sockets), 0); /* the memory is that of this host, which has node 0 */
}
END_TEST

START_TEST(process_on_all_nodes_has_no_distance)
{
    host(two_sockets, NULL, 3);
    ck_assert_int_eq(marceli_numa_of_process(), -1);
    ck_assert_int_eq(marceli_numa_distance(0), 0);
    ck_assert_int_eq(marceli_numa_distance(1), 0);
}
END_TEST

/* A process on two of four nodes has a mean distance from each. */
START_TEST(distances_are_those_of_the_host)
{
    host(four_sockets, NULL, 4 + 8);
    ck_assert_int_eq(marceli_numa_nodes(), 4);
    ck_assert_int_eq(marceli_numa_of_process(), -1);
    ck_assert_int_eq(marceli_numa_distance(0), 32);
    ck_assert_int_eq(marceli_numa_distance(3), 11);
}
END_TEST

START_TEST(one_node_and_shared_cards_are_nowhere)
{
    host(one_socket, NULL, 1);
    ck_assert_int_eq(marceli_numa_nodes(), 1);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), -1);
    ck_assert_int_eq(marceli_numa_of_process(), -1);
    ck_assert_int_eq(marceli_numa_distance(0), 0);
    host(root_card, NULL, 1);
    ck_assert_int_eq(marceli_numa_nodes(), 2);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), -1);
}
END_TEST

START_TEST(garbage_is_no_description)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    ck_assert(!marceli_numa_describe("<topology", NULL, &set));
    ck_assert_int_eq(marceli_numa_nodes(), 1);
}
END_TEST

/* ---- sysfs, for a tree without I/O objects ------------------------------------------------------------------------ */

static char sysfs[] = "/tmp/mad-near-XXXXXX";

static void node_file(const char *device, const char *node)
{
    char path[200];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", sysfs, device);
    for (char *c = path + sizeof sysfs; (c = strchr(c, '/')); *c++ = '/') {
        *c = 0;
        mkdir(path, 0700);
    }
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(node, f);
    fclose(f);
}

START_TEST(sysfs_is_asked_without_objects)
{
    char remove[64];
    ck_assert_ptr_nonnull(mkdtemp(sysfs));
    node_file("class/net/eth0/device/numa_node", "1\n");
    node_file("class/net/eth1/device/numa_node", "0\n");
    node_file("class/net/eth2/device/numa_node", "-1\n"); /* the kernel does not know */
    node_file("class/net/eth3/device/numa_node", "9\n");  /* no such node */
    node_file("class/infiniband/mlx5_0/device/numa_node", "1\n");
    node_file("bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
    node_file("class/net/eth0.7/lower_eth0/ifindex", "2\n"); /* a VLAN */
    node_file("class/net/bond0/lower_eth0/ifindex", "2\n");
    node_file("class/net/bond0/lower_eth0.7/ifindex", "3\n");
    node_file("class/net/bond1/lower_eth0/ifindex", "2\n"); /* cards of two nodes */
    node_file("class/net/bond1/lower_eth1/ifindex", "3\n");
    node_file("class/net/loop0/lower_loop0/ifindex", "4\n");
    host(two_bare, sysfs, 1);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), 1);
    ck_assert_int_eq(marceli_numa_of_device("eth1"), 0);
    ck_assert_int_eq(marceli_numa_of_device("eth2"), -1);
    ck_assert_int_eq(marceli_numa_of_device("eth3"), -1);
    ck_assert_int_eq(marceli_numa_of_device("mlx5_0"), 1);
    ck_assert_int_eq(marceli_numa_of_device("0000:3b:00.0"), 1);
    ck_assert_int_eq(marceli_numa_of_device("eth0.7"), 1);
    ck_assert_int_eq(marceli_numa_of_device("bond0"), 1);
    ck_assert_int_eq(marceli_numa_of_device("bond1"), -1);
    ck_assert_int_eq(marceli_numa_of_device("loop0"), -1);
    ck_assert_int_eq(marceli_numa_of_device("../net/eth0"), -1);
    ck_assert_int_eq(marceli_numa_of_device(""), -1);
    host(two_bare, NULL, 1);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), -1);
    snprintf(remove, sizeof remove, "rm -r %s", sysfs);
    ck_assert_int_eq(system(remove), 0);
}
END_TEST

START_TEST(nodes_are_read_in_sysfs)
{
    char remove[64];
    cpu_set_t cpus;
    ck_assert_ptr_nonnull(mkdtemp(sysfs));
    node_file("devices/system/node/online", "0-1,4\n");
    node_file("devices/system/node/node0/cpulist", "0-1,6\n");
    node_file("devices/system/node/node0/distance", "10 12 40\n");
    node_file("devices/system/node/node1/cpulist", "2-3\n");
    node_file("devices/system/node/node1/distance", "12 10 40\n");
    node_file("devices/system/node/node4/cpulist", "\n"); /* memory without processors */
    node_file("devices/system/node/node4/distance", "40 40 10\n");
    node_file("class/net/eth0/device/numa_node", "1\n");
    host(NULL, sysfs, 1 << 6);
    ck_assert_int_eq(marceli_numa_nodes(), 3);
    ck_assert_int_eq(marceli_numa_of_process(), 0);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), 1);
    ck_assert_int_eq(marceli_numa_distance(1), 12);
    ck_assert_int_eq(marceli_numa_distance(4), 40);
    ck_assert(marceli_numa_cpus(0, &cpus));
    ck_assert(CPU_COUNT(&cpus) == 3 && CPU_ISSET(6, &cpus));
    ck_assert(!marceli_numa_cpus(4, &cpus));
    host(NULL, sysfs, 0xff); /* all that have processors */
    ck_assert_int_eq(marceli_numa_distance(1), 0);
    node_file("devices/system/node/online", "0\n");
    host(NULL, sysfs, 1);
    ck_assert_int_eq(marceli_numa_nodes(), 1);
    ck_assert_int_eq(marceli_numa_of_device("eth0"), -1);
    node_file("devices/system/node/online", "garbage\n");
    host(NULL, sysfs, 1);
    ck_assert_int_eq(marceli_numa_nodes(), 1);
    host(NULL, "/nonexistent", 1);
    ck_assert_int_eq(marceli_numa_nodes(), 1);
    snprintf(remove, sizeof remove, "rm -r %s", sysfs);
    ck_assert_int_eq(system(remove), 0);
}
END_TEST

/* ---- Adapters --------------------------------------------------------------------------------------------------- */

#define ADAPTERS 6
static const madi_driver_t tcp = {.name = "tcp"}, verbs = {.name = "verbs"}, shm = {.name = "shm"};
static madi_adapter_t made[ADAPTERS];
static madi_adapter_t *list[ADAPTERS];
static mad_session_t session = {.adapters = list};

static void adapter(const madi_driver_t *driver, const char *device, int rank, bool local)
{
    madi_adapter_t *a = list[session.n_adapters] = &made[session.n_adapters];
    session.n_adapters++;
    *a = (madi_adapter_t){.driver = driver, .session = &session, .node = -1, .caps = {.rank = rank, .host = local}};
    strcpy(a->name, device);
    strcpy(a->device, local ? "" : device);
}

/* Make the adapters of a host, place them, and return their order. */
static const char *order(void)
{
    static char names[200];
    session.n_adapters = 0;
    adapter(&shm, "memory", 10, true);
    adapter(&tcp, "docker0", 50, false);
    adapter(&tcp, "eth0", 50, false);
    adapter(&verbs, "mlx5_0", 42, false);
    adapter(&tcp, "eth1", 50, false);
    adapter(&verbs, "mlx5_1", 42, false);
    madi_adapters_place(&session);
    names[0] = 0;
    for (int i = 0; i < ADAPTERS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "", list[i]->name);
    return names;
}

START_TEST(near_adapters_come_first)
{
    static const char usual[] = "memory docker0 eth0 mlx5_0 eth1 mlx5_1";
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    host(two_sockets, NULL, 1);
    ck_assert_str_eq(order(), "memory eth0 eth1 mlx5_0 docker0 mlx5_1");
    ck_assert_int_eq(list[1]->distance, 10);
    ck_assert_int_eq(list[2]->distance, 20);
    ck_assert_int_eq(list[4]->distance, 0);
    host(two_sockets, NULL, 2);
    ck_assert_str_eq(order(), "memory eth1 eth0 mlx5_1 docker0 mlx5_0");
    ck_assert_int_eq(list[1]->node, 1);
    ck_assert_int_eq(marceli_progress_node(), -1); /* the process is on one node already */
    host(two_sockets, NULL, 3);
    ck_assert_str_eq(order(), usual);
    host(two_bare, NULL, 1);
    ck_assert_str_eq(order(), usual);
    host(one_socket, NULL, 1);
    ck_assert_str_eq(order(), usual);
}
END_TEST

/* The progress thread runs near the adapter, if all of the best rank are on one node and the process is on several. */
START_TEST(progress_runs_near_the_adapter)
{
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    host(two_sockets, NULL, 3);
    session.n_adapters = 0;
    adapter(&tcp, "eth0", 50, false);
    adapter(&verbs, "mlx5_1", 42, false);
    madi_adapters_place(&session);
    ck_assert_int_eq(marceli_progress_node(), 1);
    adapter(&verbs, "mlx5_0", 42, false);
    madi_adapters_place(&session);
    ck_assert_int_eq(marceli_progress_node(), -1);
}
END_TEST

START_TEST(knob_switches_distances_off)
{
    setenv("MAD_NUMA", "no", 1);
    ck_assert_int_eq(madi_knobs_load(), MAD_OK);
    host(two_sockets, NULL, 2);
    ck_assert_str_eq(order(), "memory docker0 eth0 mlx5_0 eth1 mlx5_1");
    ck_assert_int_eq(list[2]->distance, 0);
}
END_TEST

Suite *near_suite(void)
{
    const TTest *tests[] = {devices_have_nodes,
                            process_on_all_nodes_has_no_distance,
                            distances_are_those_of_the_host,
                            one_node_and_shared_cards_are_nowhere,
                            garbage_is_no_description,
                            sysfs_is_asked_without_objects,
                            nodes_are_read_in_sysfs,
                            near_adapters_come_first,
                            progress_runs_near_the_adapter,
                            knob_switches_distances_off};
    return SUITE_OF("near", tests);
}
