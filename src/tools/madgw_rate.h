/* SPDX-License-Identifier: BSD-3-Clause */
/* Division of a bandwidth among the gateways of madgw --serve, repeated every MADI_RATE_MS.
 *
 * All get equal shares, but one that needs less leaves the rest to the others.  A gateway that did not reach its limit
 * is estimated to need 1.5 times what it has granted to its neighbours since the last look.  The estimate falls slowly,
 * and is at least a tenth of an equal share, so that a gateway can begin at once. */
#ifndef MADI_MADGW_RATE_H
#define MADI_MADGW_RATE_H

#include <stddef.h>
#include <stdint.h>

#define MADI_RATE_MS 50

/* Divide total among n: need[i] is replaced by the share of i. */
void madi_rate_divide(uint64_t total, uint64_t *need, size_t n);
/* Read the jobs' pages and write their limits. total: bytes per second; ns: time since the last look. */
void madi_rate_look(uint64_t total, int64_t ns);

#endif
