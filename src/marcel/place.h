/* SPDX-License-Identifier: BSD-3-Clause */
/* Where workers run: cores of the cpuset that the launcher or batch system gave, spread over the tree of caches; and which
 * workers are near each other there. */
#ifndef MADI_PLACE_H
#define MADI_PLACE_H

#include <sched.h>
#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* How many cores the process may use; without hwloc: processors. */
int madi_place_cores(void);

/* True if the cpuset is a part of the host, given to this process by a launcher or batch system.  Else other processes
 * share it, and a thread bound to a core on which one of them computes waits for milliseconds. */
bool madi_place_exclusive(void);

/* Find places for n workers, within the processors that the process may use.  Several workers share none; a single one
 * has the whole cpuset, and is left to the kernel.  Without hwloc, processors go round in the order of their numbers.
 * 0, or ENOMEM. */
int madi_place_find(int n);
void madi_place_forget(void);

/* The place of a worker; false: it has none. */
bool madi_place_get(int index, cpu_set_t *set);

/* The n - 1 other workers: those with which this one shares a cache first, then those of its NUMA node, and so on; equal
 * ones by turns, so that not all have the same neighbour. */
void madi_place_near(int index, int n, int *others);

/* Bind the calling kernel thread to that worker's place. */
void madi_place_bind(int index);

#pragma GCC visibility pop

#endif
