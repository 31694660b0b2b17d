/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel threads of the library's own: the carriers of workers, progress thread, door, monitor. */
#ifndef MADI_HELPER_H
#define MADI_HELPER_H

#include <pthread.h>

#pragma GCC visibility push(hidden)

/* Make one, which takes no signals: they are the application's.  attr may be NULL; a stack that is too small for what runs
 * on it (ulimit -s; much that is _Thread_local) is made larger.  name: what tools show, it has it when this returns.
 * 0 or an error number. */
int madi_helper_make(pthread_t *thread, pthread_attr_t *attr, const char *name, void *(*run)(void *), void *arg);

#pragma GCC visibility pop

#endif
