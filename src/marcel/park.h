/* SPDX-License-Identifier: BSD-3-Clause */
/* How a waiter sleeps that does not lead. */
#ifndef MADI_PARK_H
#define MADI_PARK_H

#include "marcel/waiter.h"

/* Sleep until it is woken, or the deadline (madi_now's ns) has passed; it may come back without either.  The caller is the
 * waiter.  May switch. */
void madi_park(marceli_waiter_t *w, int64_t deadline);

#endif
