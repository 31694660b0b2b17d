/* SPDX-License-Identifier: BSD-3-Clause */
/* How madgw --serve divides a bandwidth among the gateways of its jobs, anew every MADI_RATE_MS.
 *
 * All get the same, but who needs less leaves the rest to the others: a gateway that did not reach its limit is taken to need
 * half as much again as it has promised to its neighbours since the last look, not much less than at that, and at least a
 * tenth of an equal share, so that it can begin at once. */
#ifndef MADI_MADGW_RATE_H
#define MADI_MADGW_RATE_H

#include <stddef.h>
#include <stdint.h>

#define MADI_RATE_MS 50

/* Divide total among n: need[i], at most total, is replaced by what i gets. */
void madi_rate_divide(uint64_t total, uint64_t *need, size_t n);
/* Look at the jobs' pages and write their limits.  total: bytes a second; ns: since the last look. */
void madi_rate_look(uint64_t total, int64_t ns);

#endif
