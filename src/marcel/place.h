/* SPDX-License-Identifier: BSD-3-Clause */
/* Where workers run: cores of the cpuset that the launcher or batch system gave, spread over the tree of caches. */
#ifndef MADI_PLACE_H
#define MADI_PLACE_H

#include <sched.h>
#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Find places for n workers, within the processors that the process may use.  Several workers share none; a single one
 * has the whole cpuset, and is left to the kernel.  Without hwloc, processors go round in the order of their numbers.
 * 0, or ENOMEM. */
int madi_place_find(int n);
void madi_place_forget(void);

/* The place of a worker; false: it is not bound. */
bool madi_place_get(int index, cpu_set_t *set);

/* Bind the calling kernel thread to that worker's place. */
void madi_place_bind(int index);

#pragma GCC visibility pop

#endif
