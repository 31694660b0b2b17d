/* SPDX-License-Identifier: BSD-3-Clause */
/* Guards: they detect a thread that overflows its stack.
 *
 * The lowest page of a slot is a guard.  Where the kernel has MADV_GUARD_INSTALL, that call makes the guard without
 * splitting a mapping.  Otherwise mprotect makes it, up to a limit, because each guard then costs two of the mappings that
 * the kernel allows (vm.max_map_count).  Beyond the limit a slot has a canary: the lowest bytes of its stack, zero as the
 * kernel gave them.  The canary is read when the thread blocks or ends.  The canary is never written, so it costs no memory.
 *
 * An overflow ends the process with one line that names the thread and the length of its stack. */
#ifndef MADI_GUARD_H
#define MADI_GUARD_H

#include "marcel/thread.h"

#pragma GCC visibility push(hidden)

/* Choose how guards are made.  limit: maximum number of guards made by mprotect; -1: derived from vm.max_map_count.
 * method: MPROTECT for tests. */
typedef enum madi_guard { MADI_GUARD_AUTO, MADI_GUARD_MPROTECT } madi_guard_t;
void madi_guard_init(madi_guard_t method, int64_t limit);

/* Guard a slot that begins at low.  Return false if the slot needs its canary. */
bool madi_guard_set(void *low);
size_t madi_guard_size(void);

/* Check the canary of this thread; end the process if the canary was overwritten. */
void madi_guard_check(const madi_ult_t *ult);

/* Install and remove the handler that reports overflows.  All other faults go to the handler that was installed before. */
void madi_guard_watch(void);
void madi_guard_unwatch(void);
#define MADI_SIGNAL_STACK ((size_t)64 * 1024)
/* Give the calling kernel thread a signal stack, without which it could not report an overflow; free that stack. */
int madi_guard_thread_start(void **stack);
void madi_guard_thread_end(void *stack);

#pragma GCC visibility pop

#endif
