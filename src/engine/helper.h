/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel threads of the library's own: the carriers of workers, progress thread, accept thread, monitor. */
#ifndef MADI_HELPER_H
#define MADI_HELPER_H

#include <pthread.h>

#pragma GCC visibility push(hidden)

/* Make a kernel thread that takes no signals, since these are the application's.  attr may be NULL.  A stack that is too
 * small for what runs on it (ulimit -s, large _Thread_local variables) is made larger.  Tools show the name, which is set
 * when this returns.  Return 0 or an error number. */
int madi_helper_make(pthread_t *thread, pthread_attr_t *attr, const char *name, void *(*run)(void *), void *arg);

#pragma GCC visibility pop

#endif
