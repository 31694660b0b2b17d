/* SPDX-License-Identifier: BSD-3-Clause */
/* Measuring what moving bytes between two processes of this host costs (base/costs.h), and keeping it.
 *
 * Two threads on two cores do what two processes do: one copies into memory that the other copies out of, at the same time or
 * after it; or one or both reach for the other's memory.  A quarter of many rounds is at most as long.  Figures of a busy host
 * contradict each other, and are not kept. */
#ifndef MADI_TOOLS_COSTS_H
#define MADI_TOOLS_COSTS_H

#include "base/costs.h"

/* Measure between these two cores, for 120 ms.  False: the host is busy, or they are one. */
bool madi_costs_measure(int first, int last, madi_costs_t *costs);
/* Write the file of this host, whose path goes to path.  False: why has the cause, a text. */
bool madi_costs_store(const madi_costs_t *costs, char path[MADI_COSTS_PATH_MAX], char *why, size_t len);
/* Measure and store them, unless there is such a file, or it cannot be.  Precondition: no other thread of the process binds
 * the calling one. */
void madi_costs_provide(void);

#endif
