/* SPDX-License-Identifier: BSD-3-Clause */
/* Guards, which keep a thread from growing over the end of its stack.
 *
 * The lowest page of a slot is a guard.  Where the kernel has MADV_GUARD_INSTALL, it is made by that, which splits no
 * mapping.  Else it is made by mprotect up to a limit: each such guard costs two of the mappings that the kernel allows
 * (vm.max_map_count).  Beyond the limit a slot has a canary: the lowest bytes of its stack, zero as the kernel gave them.
 * They are read when the thread blocks or ends, and never written, so they cost no memory.
 *
 * An overflow ends the process with one line that names the thread and the length of its stack. */
#ifndef MADI_GUARD_H
#define MADI_GUARD_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Choose how guards are made.  limit: most guards by mprotect; -1: from vm.max_map_count.  method: MPROTECT for tests. */
typedef enum madi_guard { MADI_GUARD_AUTO, MADI_GUARD_MPROTECT } madi_guard_t;
void madi_guard_init(madi_guard_t method, int64_t limit);

/* Guard a slot that begins at low.  Return false if the slot needs its canary. */
bool madi_guard_set(void *low);
size_t madi_guard_size(void);

/* Check the canary of this thread; end the process if it was overwritten. */
void madi_guard_check(const madi_ult_t *ult);

/* Install and remove the handler that reports overflows; all other faults go to the handler that was there before. */
void madi_guard_watch(void);
void madi_guard_unwatch(void);
#define MADI_SIGNAL_STACK ((size_t)64 * 1024)
/* Give the calling kernel thread a stack for signals, without which it could not report an overflow; free it. */
int madi_guard_thread_start(void **stack);
void madi_guard_thread_end(void *stack);

#pragma GCC visibility pop

#endif
