/* SPDX-License-Identifier: BSD-3-Clause */
/* Where workers run: on cores of the cpuset that the launcher or batch system gave, spread over the tree of caches; and
 * which workers are near each other in that tree. */
#ifndef MADI_PLACEMENT_H
#define MADI_PLACEMENT_H

#include <sched.h>
#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Number of cores that the process may use; without hwloc, number of processors. */
int madi_placement_cores(void);

/* True if the cpuset is a part of the host, given to this process by a launcher or batch system.  Otherwise other
 * processes share the cpuset, and a thread bound to a core on which one of them computes may wait for milliseconds. */
bool madi_placement_exclusive(void);

/* Find places for n workers, within the processors that the process may use.  Places of several workers do not overlap.
 * A single worker has the whole cpuset, and the kernel places it.  Without hwloc, processors are used in the order of
 * their numbers.  Return 0 or ENOMEM. */
int madi_placement_find(int n);
void madi_placement_forget(void);

/* Place of a worker; false if it has none. */
bool madi_placement_get(int index, cpu_set_t *set);

/* List the n - 1 other workers, the nearest first: workers that share a cache with this one, then those of its NUMA node,
 * and so on.  Equally near workers are rotated, so that not all workers have the same neighbour. */
void madi_placement_near(int index, int n, int *others);

/* Bind the calling kernel thread to that worker's place. */
void madi_placement_bind(int index);

#pragma GCC visibility pop

#endif
