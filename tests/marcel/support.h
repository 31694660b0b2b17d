/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that several tests of libmarcel need. */
#ifndef MARCEL_SUPPORT_H
#define MARCEL_SUPPORT_H

#include "../harness/cases.h"

#include <errno.h>
#include <marcel.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MS 1000000

/* Run it in a user-level thread, until it has ended. */
void in_thread(void *(*run)(void *), void *arg);
/* Time of the clock after that number of milliseconds. */
struct timespec after_ms(clockid_t clock, long ms);
/* How many this process has; -1: not known. */
int kernel_threads(void);
/* marcel_fini, again while detached threads are at their last steps; the deadline of the case ends it. */
int fini_soon(void);
/* For test_over: nothing is left; detached threads may be for a moment. */
void end_now(void);
void end_soon(void);

#endif
