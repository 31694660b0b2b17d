/* SPDX-License-Identifier: BSD-3-Clause */
/* Guards, which keep a thread from growing over the end of its stack.
 *
 * The lowest page of a slot is a guard: by MADV_GUARD_INSTALL where the kernel has it (it splits no mapping), else by
 * mprotect up to a limit, since each such guard costs two of the mappings that the kernel allows (vm.max_map_count).
 * Beyond the limit a slot has a canary: the lowest bytes of its stack, zero as the kernel gave them; they are read, never
 * written, so they cost no memory, and are looked at when the thread blocks or ends.
 *
 * An overflow ends the process with one line that names the thread and how long its stack is. */
#ifndef MADI_GUARD_H
#define MADI_GUARD_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Find out what the kernel has; limit: how many guards by mprotect, -1: by vm.max_map_count; method for tests. */
typedef enum madi_guard { MADI_GUARD_AUTO, MADI_GUARD_MPROTECT } madi_guard_t;
void madi_guard_init(madi_guard_t method, int64_t limit);

/* Guard a slot that begins at low.  False: it needs its canary. */
bool madi_guard_set(void *low);
size_t madi_guard_size(void);

/* Check the canary of this thread; end the process if it was overwritten. */
void madi_guard_check(const madi_ult_t *ult);

/* The handler that reports overflows; all other faults go to the handler that had the signal before. */
void madi_guard_watch(void);
void madi_guard_unwatch(void);
#define MADI_SIGNAL_STACK ((size_t)64 * 1024)
/* The calling kernel thread gets a stack for signals, without which it could not report (and loses it again). */
int madi_guard_thread_start(void **stack);
void madi_guard_thread_end(void *stack);

#pragma GCC visibility pop

#endif
