/* SPDX-License-Identifier: BSD-3-Clause */
/* NUMA nodes: which one a device, memory, or the processors of the process belong to, and how far they are from each other.
 *
 * All data come from sysfs, or, if HWLOC_XMLFILE or HWLOC_SYNTHETIC describes a host, from hwloc's tree with its I/O
 * objects.  (To read this host's tree would take tens of milliseconds, at the start of each process.)  A device that
 * the tree lacks is looked up in sysfs, if the tree is that of this host (HWLOC_THISSYSTEM).  Nodes and distances are
 * read once, when they are first needed.  With one node nothing is near or far.  Any thread, any lock; the first call
 * may wait for files. */
#ifndef MARCELI_NUMA_H
#define MARCELI_NUMA_H

#include <sched.h>
#include <stdbool.h>

/* Nodes are given by the numbers of the kernel. */
#define MARCELI_NUMA_UNKNOWN (-1) /* not known, or near all nodes alike */

/* Number of NUMA nodes; 1 if nothing is known. */
int marceli_numa_nodes(void);

/* Return the node of a device: a network interface (eth0), an RDMA device (mlx5_0), or a PCI function (0000:3b:00.0).  An
 * interface without a device of its own (VLAN, bond) belongs to the node of those below it. */
int marceli_numa_of_device(const char *name);

/* Return the node of the processors that the process had at its start; MARCELI_NUMA_UNKNOWN if they belong to several. */
int marceli_numa_of_process(void);

/* Return the node of the memory at this address, which must be readable. */
int marceli_numa_of_memory(const void *at);

/* Return the mean distance of a node from the processors that the process had at its start; 10 is that of a node from
 * itself, as the kernel counts.  0 if the node is unknown, or if the process may use all nodes: nothing is near then. */
int marceli_numa_distance(int node);

/* Set cpus to the processors of a node; false if it is not known. */
bool marceli_numa_cpus(int node, cpu_set_t *cpus);

/* For tests.  Use this description of hwloc (XML; NULL: sysfs), those files in place of /sys (NULL: none), and these
 * processors of the process.  Not while other threads use the functions above.  False: hwloc does not read it. */
bool marceli_numa_describe(const char *xml, const char *sysfs, const cpu_set_t *process);

#endif
