/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurement of the costs of moving bytes between two processes of this host (base/costs.h), and the file that stores
 * them. */
#ifndef MADI_TOOLS_COSTS_H
#define MADI_TOOLS_COSTS_H

#include "base/costs.h"

/* Measure the costs between these two cores, for 140 ms.  Return false if the host is busy, or if both are the same core. */
bool madi_costs_measure(int first, int last, madi_costs_t *costs);
/* Measure the part of TCP between the caller's processor and another one, for 20 ms; the figures stay 0 if that fails. */
void madi_costs_measure_tcp(int cpu, madi_costs_t *costs);
/* Sort n times, and return the one that a quarter of them do not exceed; 0 if n is 0. */
uint32_t madi_costs_quarter(uint32_t *took, size_t n);
/* Write this host's file, and its path to `path`.  On failure return false; `why` has the cause as a text. */
bool madi_costs_store(const madi_costs_t *costs, char path[MADI_COSTS_PATH_MAX], char *why, size_t len);
/* Measure the costs, and store the least of all measurements; do nothing after MADI_COSTS_RUNS of them, or if the file cannot
 * be written.  Precondition: no other thread of the process
 * changes the binding of the calling one. */
void madi_costs_provide(void);

#endif
