/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel threads of the library: the carriers of workers, the progress thread, the accept thread, the monitor. */
#ifndef MADI_HELPER_H
#define MADI_HELPER_H

#include <pthread.h>

#pragma GCC visibility push(hidden)

/* Create a kernel thread that blocks all signals, because signals belong to the application.  attr may be NULL.  A stack
 * that is too small for what runs on it (ulimit -s, large _Thread_local variables) is enlarged.  Tools show the name,
 * which is set when this returns.  Return 0 or an error number. */
int madi_helper_make(pthread_t *thread, pthread_attr_t *attr, const char *name, void *(*run)(void *), void *arg);

#pragma GCC visibility pop

#endif
