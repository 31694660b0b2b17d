/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of hosts with several NUMA nodes, for hwloc. */
#ifndef NUMA_HOSTS_H
#define NUMA_HOSTS_H

/* clang-format off */

/* A network card or RDMA device at a PCI address; kind: 2 network, 3 RDMA. */
#define NUMA_DEVICE(id, bus, name, kind) \
    "<object type='Bridge' gp_index='" id "0' bridge_type='0-1' depth='0' bridge_pci='0000:[" bus "-" bus "]'>" \
    "<object type='PCIDev' gp_index='" id "1' pci_busid='0000:" bus ":00.0' pci_type='0200 [15b3:1017] [15b3:0006] 00'>" \
    "<object type='OSDev' gp_index='" id "2' name='" name "' osdev_type='" kind "'/></object></object>"

#define NUMA_SET(set) "cpuset='" set "' complete_cpuset='" set "' nodeset='" set "' complete_nodeset='" set "'"

/* A socket with one processor and one node, both of number n; set is 1 << n. */
#define NUMA_SOCKET(n, set, devices) \
    "<object type='Package' os_index='" n "' " NUMA_SET(set) " gp_index='1" n "'>" \
    "<object type='NUMANode' os_index='" n "' " NUMA_SET(set) " gp_index='2" n "' local_memory='1073741824'/>" \
    "<object type='Core' os_index='" n "' " NUMA_SET(set) " gp_index='3" n "'>" \
    "<object type='PU' os_index='" n "' " NUMA_SET(set) " gp_index='4" n "'/></object>" devices "</object>"

#define NUMA_HOST(set, sockets, distances) \
    "<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE topology SYSTEM 'hwloc2.dtd'><topology version='2.0'>" \
    "<object type='Machine' os_index='0' " NUMA_SET(set) " allowed_cpuset='" set "' allowed_nodeset='" set "' gp_index='1'>" \
    sockets "</object>" distances "</topology>"

/* Two sockets, each with a network interface and an RDMA device. */
static const char two_sockets[] = NUMA_HOST("0x3",
    NUMA_SOCKET("0", "0x1", NUMA_DEVICE("50", "17", "eth0", "2") NUMA_DEVICE("51", "18", "mlx5_0", "3"))
    NUMA_SOCKET("1", "0x2", NUMA_DEVICE("60", "ca", "eth1", "2") NUMA_DEVICE("61", "cb", "mlx5_1", "3")), "");

/* clang-format on */

#endif
