/* SPDX-License-Identifier: BSD-3-Clause */
/* How a waiter sleeps that does not lead. */
#ifndef MADI_PARK_H
#define MADI_PARK_H

#include "engine/waiter.h"

/* Sleep until it is woken, or the deadline (madi_now's ns) has passed; it may come back without either.  The caller is the
 * waiter.  May switch. */
void madi_park(marceli_waiter_t *w, int64_t deadline);

/* engine.c: around a sleep of a kernel thread, which is reported if marceli_tell_sleeps was called. */
int64_t madi_sleep_begins(void);
void madi_sleep_ends(int64_t began);

#endif
