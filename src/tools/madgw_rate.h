/* SPDX-License-Identifier: BSD-3-Clause */
/* Division of a bandwidth among the gateways of madgw --serve, repeated every MADI_RATE_MS.
 *
 * All gateways get equal shares, but a gateway that needs less leaves the rest to the others.  For a gateway that did
 * not reach its limit, the estimated need is 1.5 times the credit that it has granted since the last round.  The
 * estimate falls slowly, and is at least a tenth of an equal share, so that a gateway can begin immediately. */
#ifndef MADI_MADGW_RATE_H
#define MADI_MADGW_RATE_H

#include <stddef.h>
#include <stdint.h>

#define MADI_RATE_MS 50

/* Divide `total` among n gateways: need[i] is replaced by the share of gateway i. */
void madi_rate_divide(uint64_t total, uint64_t *need, size_t n);
/* Read the jobs' pages and write their limits.  total: bytes per second; ns: time since the last call. */
void madi_rate_look(uint64_t total, int64_t ns);

#endif
