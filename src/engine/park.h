/* SPDX-License-Identifier: BSD-3-Clause */
/* The sleep of a waiter that does not lead. */
#ifndef MADI_PARK_H
#define MADI_PARK_H

#include "engine/waiter.h"

/* Sleep until the waiter, which must be the caller's, is woken, or until the deadline (madi_now's ns).  May return
 * earlier.  May switch. */
void madi_park(marceli_waiter_t *w, int64_t deadline);

/* Bracket the sleep of a kernel thread, which is reported if marceli_sleeps_report was called (engine.c). */
int64_t madi_sleep_begins(void);
void madi_sleep_ends(int64_t began);

#endif
