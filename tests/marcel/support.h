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

/* Call run in a user-level thread, and wait for its end. */
void in_thread(void *(*run)(void *), void *arg);
/* Return the time of this clock ms milliseconds from now. */
struct timespec after_ms(clockid_t clock, long ms);
/* Return the number of kernel threads of this process; -1: unknown. */
int kernel_threads(void);
/* Call marcel_fini again and again while detached threads are ending; the deadline of the case limits this. */
int fini_soon(void);
/* For test_over: check that no thread is left; detached threads may still exist for a moment. */
void end_now(void);
void end_soon(void);

#endif
