/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleep of a waiter that does not lead. */
#ifndef MADI_PARK_H
#define MADI_PARK_H

#include "engine/waiter.h"

/* Sleep until the waiter, which is the caller's, is woken, or the deadline (madi_now's ns) has passed.  May return without
 * either.  May switch. */
void madi_park(marceli_waiter_t *w, int64_t deadline);

/* Report the sleep of a kernel thread between these two calls, if marceli_sleeps_report was called (engine.c). */
int64_t madi_sleep_begins(void);
void madi_sleep_ends(int64_t began);

#endif
